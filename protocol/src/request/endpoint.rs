//! The upstream path and query of each operation, joined to a provider's base URL.

use std::fmt::Write as _;

use lanekeeper_model::gateway::BaseUrl;

use crate::dialect::Dialect;
use crate::path::{decode, encode};

/// Path and query of `dialect` below `base_path` (the path of the provider's base URL). `model` is
/// percent-encoded into it where the base or the dialect carries the model in the path.
#[must_use]
pub fn path(base_path: &str, dialect: Dialect, model: &str) -> String {
    let base = base_path.trim_end_matches('/');
    let path = dialect.vendor().endpoint(base, dialect.operation(), model);
    // What is encoded has no braces, so that only the base can hold the placeholder.
    if path.contains(BaseUrl::MODEL_PLACEHOLDER) {
        path.replace(BaseUrl::MODEL_PLACEHOLDER, &encode(model))
    } else {
        path
    }
}

/// `path` with the provider's own parameters, percent-encoded, behind the query that it may have.
#[must_use]
pub fn with_parameters(mut path: String, parameters: &[(String, String)]) -> String {
    for (name, value) in parameters {
        let joint = if path.contains('?') { '&' } else { '?' };
        // Writing to a string cannot fail.
        let _ = write!(path, "{joint}{}={}", encode(name), encode(value));
    }
    path
}

/// The path of something in the collection at `endpoint`; its query stays behind it.
#[must_use]
pub fn with_tail(endpoint: &str, tail: &str) -> String {
    match endpoint.split_once('?') {
        Some((path, query)) => format!("{path}{tail}?{query}"),
        None => format!("{endpoint}{tail}"),
    }
}

/// The caller's query behind the endpoint's own. A parameter that the endpoint has already is the
/// operator's to set: the caller's is left out. `None` when nothing of it is left.
#[must_use]
pub fn with_query(endpoint: &str, query: &str) -> Option<String> {
    let own = endpoint.split_once('?').map(|(_, own)| own);
    let name = |pair: &str| decode(pair.split('=').next().unwrap_or_default()).into_owned();
    let is_set =
        |pair: &&str| own.is_some_and(|own| own.split('&').any(|set| name(set) == name(pair)));
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_set(pair)).collect();
    let joint = if own.is_some() { '&' } else { '?' };
    (!kept.is_empty()).then(|| format!("{endpoint}{joint}{}", kept.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_with_and_without_version_gives_the_same_endpoint() {
        let cases = [
            ("", Dialect::OPENAI_CHAT, "/v1/chat/completions"),
            ("/", Dialect::OPENAI_CHAT, "/v1/chat/completions"),
            ("/v1", Dialect::OPENAI_CHAT, "/v1/chat/completions"),
            ("/v1/", Dialect::OPENAI_CHAT, "/v1/chat/completions"),
            ("/openai/v1", Dialect::OPENAI_MODELS, "/openai/v1/models"),
            (
                "/v1beta/openai",
                Dialect::OPENAI_CHAT,
                "/v1beta/openai/chat/completions",
            ),
            (
                "/api/paas/v4",
                Dialect::OPENAI_CHAT,
                "/api/paas/v4/chat/completions",
            ),
            (
                "/tenant-a",
                Dialect::OPENAI_EMBEDDINGS,
                "/tenant-a/v1/embeddings",
            ),
            (
                "/vault",
                Dialect::OPENAI_COMPLETIONS,
                "/vault/v1/completions",
            ),
            ("", Dialect::RESPONSES, "/v1/responses"),
            ("", Dialect::ANTHROPIC, "/v1/messages"),
            ("/v1", Dialect::ANTHROPIC, "/v1/messages"),
            (
                "/v1/account/anthropic",
                Dialect::ANTHROPIC,
                "/v1/account/anthropic/v1/messages",
            ),
            (
                "/api/anthropic",
                Dialect::ANTHROPIC_COUNT_TOKENS,
                "/api/anthropic/v1/messages/count_tokens",
            ),
            ("", Dialect::COHERE, "/v2/chat"),
            ("/v2", Dialect::COHERE, "/v2/chat"),
        ];
        for (base, dialect, wanted) in cases {
            assert_eq!(path(base, dialect, "m"), wanted, "{base:?} {dialect:?}");
        }
    }

    #[test]
    fn paths_of_clouds_are_taken_as_they_are() {
        let cases = [
            (
                "/openai/deployments/{model}",
                Dialect::OPENAI_CHAT,
                "gpt 4/x",
                "/openai/deployments/gpt%204%2Fx/chat/completions",
            ),
            (
                "/openai/deployments/{model}/",
                Dialect::OPENAI_EMBEDDINGS,
                "ada",
                "/openai/deployments/ada/embeddings",
            ),
            (
                "/openai/v1",
                Dialect::RESPONSES,
                "gpt",
                "/openai/v1/responses",
            ),
            ("", Dialect::OPENAI_CHAT, "gpt", "/v1/chat/completions"),
            (
                "/{model}/anthropic",
                Dialect::ANTHROPIC,
                "opus",
                "/opus/anthropic/messages",
            ),
            (
                "/v1/projects/p/locations/l/publishers/google",
                Dialect::GEMINI_STREAM,
                "gemini",
                "/v1/projects/p/locations/l/publishers/google/models/gemini:streamGenerateContent?alt=sse",
            ),
            (
                "/v1/projects/p/locations/l/publishers/google/models/{model}",
                Dialect::GEMINI_GENERATE,
                "gemini",
                "/v1/projects/p/locations/l/publishers/google/models/gemini:generateContent",
            ),
            (
                "/v1/projects/p/locations/l/endpoints/openapi",
                Dialect::OPENAI_CHAT,
                "google/gemini",
                "/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
            ),
            (
                "/x/{model}",
                Dialect::COHERE,
                "{model}",
                "/x/%7Bmodel%7D/chat",
            ),
        ];
        for (base, dialect, model, wanted) in cases {
            assert_eq!(path(base, dialect, model), wanted, "{base:?} {dialect:?}");
        }
    }

    #[test]
    fn operators_parameters_come_first_and_are_not_the_callers_to_change() {
        let parameters = [
            ("api-version".to_owned(), "2025-04-01-preview".to_owned()),
            ("q".to_owned(), "a b&c=\u{e9}".to_owned()),
        ];
        let endpoint = with_parameters("/chat".to_owned(), &parameters);
        assert_eq!(
            endpoint,
            "/chat?api-version=2025-04-01-preview&q=a%20b%26c%3D%C3%A9"
        );
        assert_eq!(
            with_parameters("/m:stream?alt=sse".to_owned(), &parameters[..1]),
            "/m:stream?alt=sse&api-version=2025-04-01-preview"
        );
        for (query, wanted) in [
            ("beta=true", Some("&beta=true")),
            ("api-version=1&beta=true", Some("&beta=true")),
            ("api%2Dversion=1", None),
            ("q", None),
        ] {
            let wanted = wanted.map(|rest| format!("{endpoint}{rest}"));
            assert_eq!(with_query(&endpoint, query), wanted, "{query}");
        }
        assert_eq!(with_query("/chat", "a=b").as_deref(), Some("/chat?a=b"));
    }

    #[test]
    fn gemini_model_stands_in_the_path_encoded() {
        let cases = [
            (
                "",
                Dialect::GEMINI_GENERATE,
                "gemini-2.5-pro",
                "/v1beta/models/gemini-2.5-pro:generateContent",
            ),
            (
                "/v1",
                Dialect::GEMINI_STREAM,
                "models/g",
                "/v1/models/g:streamGenerateContent?alt=sse",
            ),
            (
                "/v1beta/",
                Dialect::GEMINI_COUNT_TOKENS,
                "a/b?c",
                "/v1beta/models/a%2Fb%3Fc:countTokens",
            ),
            (
                "",
                Dialect::GEMINI_EMBED,
                "\u{4e2d}",
                "/v1beta/models/%E4%B8%AD:embedContent",
            ),
        ];
        for (base, dialect, model, wanted) in cases {
            assert_eq!(path(base, dialect, model), wanted);
        }
    }
}
