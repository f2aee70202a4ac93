//! The upstream path of each operation, joined to a provider's base URL.
//!
//! People paste the base URL their vendor's package wants, and the packages differ: OpenAI's wants
//! the version in it, Anthropic's adds `/v1` itself. Both spellings work here.

use super::Dialect;

/// Path and query of `dialect` below `base_path` (the path of the provider's base URL), for
/// dialects that carry the model in the path with `model` percent-encoded into it.
#[must_use]
pub fn path(base_path: &str, dialect: Dialect, model: &str) -> String {
    let base = base_path.trim_end_matches('/');
    let (version, operation) = match dialect {
        Dialect::OpenAiChat => ("v1", "chat/completions"),
        Dialect::OpenAiCompletions => ("v1", "completions"),
        Dialect::OpenAiEmbeddings => ("v1", "embeddings"),
        Dialect::OpenAiModels | Dialect::AnthropicModels => ("v1", "models"),
        Dialect::GeminiModels => ("v1beta", "models"),
        Dialect::Responses => ("v1", "responses"),
        Dialect::Anthropic => ("v1", "messages"),
        Dialect::AnthropicCountTokens => ("v1", "messages/count_tokens"),
        Dialect::Cohere => ("v2", "chat"),
        Dialect::GeminiGenerate => return gemini(base, model, "generateContent"),
        Dialect::GeminiStream => return gemini(base, model, "streamGenerateContent?alt=sse"),
        Dialect::GeminiCountTokens => return gemini(base, model, "countTokens"),
        Dialect::GeminiEmbed => return gemini(base, model, "embedContent"),
        Dialect::GeminiEmbedBatch => return gemini(base, model, "batchEmbedContents"),
    };
    let versioned = match dialect {
        // OpenAI-compatible services keep their version anywhere in the path
        // (`/openai/v1`, `/v1beta/openai`, `/api/paas/v4`), and their users give it whole.
        Dialect::OpenAiChat
        | Dialect::OpenAiCompletions
        | Dialect::OpenAiEmbeddings
        | Dialect::OpenAiModels
        | Dialect::Responses => base.split('/').any(is_version),
        _ => base.rsplit('/').next().is_some_and(is_version),
    };
    if versioned {
        format!("{base}/{operation}")
    } else {
        format!("{base}/{version}/{operation}")
    }
}

fn gemini(base: &str, model: &str, operation: &str) -> String {
    let model = encode_segment(model.strip_prefix("models/").unwrap_or(model));
    let version = if base.rsplit('/').next().is_some_and(is_version) {
        ""
    } else {
        "/v1beta"
    };
    format!("{base}{version}/models/{model}:{operation}")
}

/// `v` and digits, with an optional word after it: `v1`, `v4`, `v1beta`, `v1beta2`.
fn is_version(segment: &str) -> bool {
    let Some(rest) = segment.strip_prefix('v') else {
        return false;
    };
    let word = rest.trim_start_matches(|character: char| character.is_ascii_digit());
    word.len() < rest.len()
        && (word.is_empty() || word.starts_with("alpha") || word.starts_with("beta"))
}

/// Percent-encodes everything outside RFC 3986's unreserved characters.
fn encode_segment(segment: &str) -> String {
    let mut encoded = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_url_with_and_without_version_gives_the_same_endpoint() {
        let cases = [
            ("", Dialect::OpenAiChat, "/v1/chat/completions"),
            ("/", Dialect::OpenAiChat, "/v1/chat/completions"),
            ("/v1", Dialect::OpenAiChat, "/v1/chat/completions"),
            ("/v1/", Dialect::OpenAiChat, "/v1/chat/completions"),
            ("/openai/v1", Dialect::OpenAiModels, "/openai/v1/models"),
            (
                "/v1beta/openai",
                Dialect::OpenAiChat,
                "/v1beta/openai/chat/completions",
            ),
            (
                "/api/paas/v4",
                Dialect::OpenAiChat,
                "/api/paas/v4/chat/completions",
            ),
            (
                "/tenant-a",
                Dialect::OpenAiEmbeddings,
                "/tenant-a/v1/embeddings",
            ),
            (
                "/vault",
                Dialect::OpenAiCompletions,
                "/vault/v1/completions",
            ),
            ("", Dialect::Responses, "/v1/responses"),
            ("", Dialect::Anthropic, "/v1/messages"),
            ("/v1", Dialect::Anthropic, "/v1/messages"),
            (
                "/v1/account/anthropic",
                Dialect::Anthropic,
                "/v1/account/anthropic/v1/messages",
            ),
            (
                "/api/anthropic",
                Dialect::AnthropicCountTokens,
                "/api/anthropic/v1/messages/count_tokens",
            ),
            ("", Dialect::Cohere, "/v2/chat"),
            ("/v2", Dialect::Cohere, "/v2/chat"),
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
                Dialect::GeminiGenerate,
                "gemini-2.5-pro",
                "/v1beta/models/gemini-2.5-pro:generateContent",
            ),
            (
                "/v1",
                Dialect::GeminiStream,
                "models/g",
                "/v1/models/g:streamGenerateContent?alt=sse",
            ),
            (
                "/v1beta/",
                Dialect::GeminiCountTokens,
                "a/b?c",
                "/v1beta/models/a%2Fb%3Fc:countTokens",
            ),
            (
                "",
                Dialect::GeminiEmbed,
                "\u{4e2d}",
                "/v1beta/models/%E4%B8%AD:embedContent",
            ),
        ];
        for (base, dialect, model, wanted) in cases {
            assert_eq!(path(base, dialect, model), wanted);
        }
    }
}
