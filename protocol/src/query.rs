//! Which part of a caller's query goes upstream.

use std::borrow::Cow;

use super::headers::Credential;
use super::{Dialect, Protocol, credentials};

/// The caller's query for the upstream: without credentials, unless the caller's own is passed on
/// and this is where the dialect puts it. `None` when nothing is left.
#[must_use]
pub fn upstream_query(query: &str, dialect: Dialect, credential: Credential) -> Option<String> {
    let passes = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        let name = decode(name);
        // The agent reads the answer, so its form is not the caller's to choose.
        let sets_form = dialect.protocol() == Protocol::Gemini && matches!(&*name, "alt" | "$alt");
        if pair.is_empty() || sets_form {
            return false;
        }
        credentials::parameter_owners(&name.to_ascii_lowercase()).is_none_or(|owners| {
            credential == Credential::Passthrough && owners.contains(&dialect.protocol())
        })
    };
    let kept: Vec<&str> = query.split('&').filter(passes).collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

/// The key that Google's clients may put into the query.
#[must_use]
pub fn key(query: &str) -> Option<Cow<'_, str>> {
    query.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (decode(name) == "key").then(|| decode(value))
    })
}

/// True when a Gemini stream is asked for as server-sent events. Without, it is one JSON array.
#[must_use]
pub fn asks_events(query: Option<&str>) -> bool {
    query.unwrap_or_default().split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        matches!(&*decode(name), "alt" | "$alt") && value == "sse"
    })
}

/// Percent-decodes a name; what is no UTF-8 cannot be a configured name and stays as it is.
#[must_use]
pub fn decode(segment: &str) -> Cow<'_, str> {
    if !segment.contains('%') {
        return Cow::Borrowed(segment);
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let decoded = (*first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = decoded {
            bytes.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(segment), Cow::Owned)
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
            own("beta=true&key=SECRET&Api_Key=x", Dialect::Anthropic).as_deref(),
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
            assert_eq!(own(query, Dialect::OpenAiChat), None, "{query}");
        }
        assert_eq!(own("", Dialect::OpenAiChat), None);
        assert_eq!(own("&&", Dialect::OpenAiChat), None);
    }

    #[test]
    fn events_come_only_when_they_are_asked_for() {
        for (query, expected) in [
            (Some("alt=sse"), true),
            (Some("key=x&%24alt=sse"), true),
            (Some("alt=json"), false),
            (Some("default=sse"), false),
            (None, false),
        ] {
            assert_eq!(asks_events(query), expected, "{query:?}");
        }
    }

    #[test]
    fn form_of_a_gemini_answer_is_set_by_the_operation() {
        for dialect in [Dialect::GeminiStream, Dialect::GeminiGenerate] {
            assert_eq!(own("alt=sse", dialect), None);
            assert_eq!(own("$alt=proto&%61lt=sse", dialect), None);
        }
        assert_eq!(own("alt=x", Dialect::OpenAiChat).as_deref(), Some("alt=x"));
    }

    #[test]
    fn passthrough_forwards_the_callers_key_where_the_dialect_puts_it() {
        let query = "key=CALLER&token=other&beta=true";
        let passed = |dialect| upstream_query(query, dialect, Credential::Passthrough);
        assert_eq!(
            passed(Dialect::GeminiGenerate).as_deref(),
            Some("key=CALLER&beta=true")
        );
        assert_eq!(passed(Dialect::Anthropic).as_deref(), Some("beta=true"));
    }
}
