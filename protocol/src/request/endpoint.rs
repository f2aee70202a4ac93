//! The upstream path of each operation, joined to a provider's base URL.

use crate::dialect::Dialect;

/// Path and query of `dialect` below `base_path` (the path of the provider's base URL), for
/// dialects that carry the model in the path with `model` percent-encoded into it.
#[must_use]
pub fn path(base_path: &str, dialect: Dialect, model: &str) -> String {
    let base = base_path.trim_end_matches('/');
    dialect.vendor().endpoint(base, dialect.operation(), model)
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
