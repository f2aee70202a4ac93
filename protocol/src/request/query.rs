//! Which part of a caller's query goes upstream.

use std::borrow::Cow;

use memchr::memmem;

use crate::dialect::Dialect;
use crate::path::decode;
use crate::request::headers::Credential;
use crate::vendor;

/// The caller's query for the upstream: what is on the vendor's list, and the caller's own
/// credential where it is passed on and this is where the dialect puts it. `None` when nothing is
/// left.
#[must_use]
pub fn upstream_query(query: &str, dialect: Dialect, credential: Credential) -> Option<String> {
    let vendor = dialect.vendor();
    let passes = |pair: &&str| {
        let name = decode(pair.split('=').next().unwrap_or_default());
        vendor.passes_parameter(&name)
            || (credential == Credential::Passthrough
                && vendor.owns_parameter(&name.to_ascii_lowercase()))
    };
    let kept: Vec<&str> = query.split('&').filter(passes).collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

/// The key that the clients of some vendors may put into the query.
#[must_use]
pub fn key(query: &str) -> Option<Cow<'_, str>> {
    query.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let name = decode(name);
        let is_key = { vendor::ALL.iter() }.any(|vendor| vendor.key_parameter() == Some(&*name));
        is_key.then(|| decode(value))
    })
}

/// True when a key stands in the text, alone or between other words.
#[must_use]
pub fn holds(text: &[u8], key: &[u8]) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    memmem::find_iter(text, key).any(|from| {
        let before = from.checked_sub(1).and_then(|at| text.get(at));
        !is_part(before) && !is_part(text.get(from + key.len()))
    })
}

/// The query without the parameters that hold a key. `None` when nothing is left.
#[must_use]
pub fn without(query: &str, key: &[u8]) -> Option<String> {
    let is_free = |pair: &&str| !holds(decode(pair).as_bytes(), key);
    let kept: Vec<&str> = query.split('&').filter(is_free).collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(query: &str, dialect: Dialect) -> Option<String> {
        upstream_query(query, dialect, Credential::Own)
    }

    #[test]
    fn credentials_in_the_query_stay_here() {
        assert_eq!(
            own("beta=true&key=SECRET&Api_Key=x", Dialect::ANTHROPIC).as_deref(),
            Some("beta=true")
        );
        for query in [
            "%6bey=SECRET",
            "token=SECRET",
            "auth=SECRET",
            "apikey=SECRET",
            "api-key=SECRET",
            "sig=SECRET",
            "subscription-key=SECRET",
            "ACCESS_TOKEN=SECRET",
            "token",
        ] {
            assert_eq!(own(query, Dialect::OPENAI_CHAT), None, "{query}");
        }
        assert_eq!(own("", Dialect::OPENAI_CHAT), None);
        assert_eq!(own("&&", Dialect::OPENAI_CHAT), None);
    }

    #[test]
    fn only_what_is_on_the_vendors_list_goes_on() {
        let every = "api-version=1&beta=true&api%2Dversion=2&x=y&stream=true&model=z";
        for (dialect, expected) in [
            (Dialect::OPENAI_CHAT, Some("api-version=1&api%2Dversion=2")),
            (Dialect::RESPONSES, Some("api-version=1&api%2Dversion=2")),
            (Dialect::ANTHROPIC, Some("beta=true")),
            (Dialect::ANTHROPIC_COUNT_TOKENS, Some("beta=true")),
            (Dialect::GEMINI_GENERATE, None),
            (Dialect::COHERE, None),
        ] {
            assert_eq!(own(every, dialect).as_deref(), expected, "{dialect:?}");
        }
    }

    #[test]
    fn form_of_a_gemini_answer_is_set_by_the_operation() {
        for dialect in [Dialect::GEMINI_STREAM, Dialect::GEMINI_GENERATE] {
            for query in [
                "alt=sse",
                "$alt=proto&%61lt=sse",
                "callback=x",
                "$callback=x",
                "%24callback=x",
                "fields=error",
                "$fields=error",
                "prettyPrint=true",
                "$prettyPrint=true",
                "$.xgafv=2",
            ] {
                assert_eq!(own(query, dialect), None, "{query}");
                let passed = upstream_query(query, dialect, Credential::Passthrough);
                assert_eq!(passed, None, "{query}");
            }
        }
        assert_eq!(own("alt=x", Dialect::OPENAI_CHAT), None);
    }

    #[test]
    fn passthrough_forwards_the_callers_key_where_the_dialect_puts_it() {
        let query = "key=CALLER&token=other&beta=true";
        let passed = |dialect| upstream_query(query, dialect, Credential::Passthrough);
        assert_eq!(
            passed(Dialect::GEMINI_GENERATE).as_deref(),
            Some("key=CALLER")
        );
        assert_eq!(passed(Dialect::ANTHROPIC).as_deref(), Some("beta=true"));
    }
}
