//! Which part of a caller's query goes upstream.

use std::borrow::Cow;

use crate::dialect::Dialect;
use crate::path::decode;
use crate::request::credentials;
use crate::request::headers::Credential;
use crate::vendor;

/// The caller's query for the upstream: without credentials, unless the caller's own is passed on
/// and this is where the dialect puts it. `None` when nothing is left.
#[must_use]
pub fn upstream_query(query: &str, dialect: Dialect, credential: Credential) -> Option<String> {
    let vendor = dialect.vendor();
    let passes = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        let name = decode(name);
        // The agent reads the answer, so its form is not the caller's to choose.
        if pair.is_empty() || vendor.sets_answer_form(&name) {
            return false;
        }
        let name = name.to_ascii_lowercase();
        !credentials::is_parameter(vendor, &name)
            || (credential == Credential::Passthrough && vendor.owns_parameter(&name))
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
    fn form_of_a_gemini_answer_is_set_by_the_operation() {
        for dialect in [Dialect::GEMINI_STREAM, Dialect::GEMINI_GENERATE] {
            assert_eq!(own("alt=sse", dialect), None);
            assert_eq!(own("$alt=proto&%61lt=sse", dialect), None);
        }
        assert_eq!(own("alt=x", Dialect::OPENAI_CHAT).as_deref(), Some("alt=x"));
    }

    #[test]
    fn passthrough_forwards_the_callers_key_where_the_dialect_puts_it() {
        let query = "key=CALLER&token=other&beta=true";
        let passed = |dialect| upstream_query(query, dialect, Credential::Passthrough);
        assert_eq!(
            passed(Dialect::GEMINI_GENERATE).as_deref(),
            Some("key=CALLER&beta=true")
        );
        assert_eq!(passed(Dialect::ANTHROPIC).as_deref(), Some("beta=true"));
    }
}
