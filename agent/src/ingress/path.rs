//! Which operation a path means, and which model it names if it does.

use crate::protocol::Dialect;
use crate::protocol::query::decode;
use http::{HeaderMap, Method};
use std::borrow::Cow;

/// Every request of Anthropic's packages has it.
const ANTHROPIC_HEADER: &str = "anthropic-version";
/// Every request of Google's packages has it.
const GEMINI_HEADER: &str = "x-goog-api-key";

/// A known path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    pub(crate) dialect: Dialect,
    /// The model named by the path: a prefix before the operation, or part of it.
    pub(crate) model: Option<Cow<'a, str>>,
}

/// A path nobody serves, and the dialect its caller most likely speaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) dialect: Dialect,
}

impl Route<'_> {
    /// The one method the path takes.
    pub(crate) fn method(&self) -> Method {
        if self.dialect.lists_models() {
            Method::GET
        } else {
            Method::POST
        }
    }

    /// The method as the `allow` header wants it.
    pub(crate) fn allow(&self) -> &'static str {
        if self.dialect.lists_models() {
            "GET"
        } else {
            "POST"
        }
    }
}

/// True when the dialect's requests carry the model in the path and not in the body.
pub(crate) fn carries_model(dialect: Dialect) -> bool {
    matches!(
        dialect,
        Dialect::GeminiGenerate
            | Dialect::GeminiStream
            | Dialect::GeminiCountTokens
            | Dialect::GeminiEmbed
            | Dialect::GeminiEmbedBatch
    )
}

/// Finds the operation. Before it may stand `/{model}` or `/{provider}/{model}`.
///
/// # Errors
///
/// No operation is at this path.
pub(crate) fn route<'a>(path: &'a str, headers: &HeaderMap) -> Result<Route<'a>, Unknown> {
    if let Some((dialect, model)) = operation(path) {
        let dialect = match dialect {
            Dialect::OpenAiModels => list_for(headers),
            other => other,
        };
        return Ok(Route { dialect, model });
    }
    for depth in 1..=2 {
        let Some((prefix, rest)) = split_after(path, depth) else {
            break;
        };
        // Below a prefix the model is named already: what Gemini's paths say of it is not asked.
        if let Some((dialect, _)) = operation(rest)
            && !dialect.lists_models()
        {
            return Ok(Route {
                dialect,
                model: Some(decode(prefix)),
            });
        }
    }
    Err(Unknown {
        dialect: guess(path, headers),
    })
}

fn operation(path: &str) -> Option<(Dialect, Option<Cow<'_, str>>)> {
    let dialect = match path {
        "/v1/chat/completions" => Dialect::OpenAiChat,
        "/v1/messages" => Dialect::Anthropic,
        "/v1/completions" => Dialect::OpenAiCompletions,
        "/v1/embeddings" => Dialect::OpenAiEmbeddings,
        "/v1/models" => Dialect::OpenAiModels,
        "/v1beta/models" => Dialect::GeminiModels,
        "/v1/responses" => Dialect::Responses,
        "/v1/messages/count_tokens" => Dialect::AnthropicCountTokens,
        "/v2/chat" => Dialect::Cohere,
        _ => return in_models(path),
    };
    Some((dialect, None))
}

/// `/v1beta/models/{model}:operation`, and `/v1/models/{model}` with or without one.
fn in_models(path: &str) -> Option<(Dialect, Option<Cow<'_, str>>)> {
    let (rest, list) = match path.strip_prefix("/v1beta/models/") {
        Some(rest) => (rest, Dialect::GeminiModels),
        None => (path.strip_prefix("/v1/models/")?, Dialect::OpenAiModels),
    };
    if let Some((model, operation)) = rest.rsplit_once(':') {
        let dialect = match operation {
            "generateContent" => Some(Dialect::GeminiGenerate),
            "streamGenerateContent" => Some(Dialect::GeminiStream),
            "countTokens" => Some(Dialect::GeminiCountTokens),
            "embedContent" => Some(Dialect::GeminiEmbed),
            "batchEmbedContents" => Some(Dialect::GeminiEmbedBatch),
            // Elsewhere a colon may be part of a name.
            _ if list == Dialect::GeminiModels => return None,
            _ => None,
        };
        if let (Some(dialect), false) = (dialect, model.is_empty()) {
            return Some((dialect, Some(decode(model))));
        }
    }
    (!rest.is_empty()).then(|| (list, Some(decode(rest))))
}

/// Three vendors list their models at one path; a header that only their own packages send tells
/// which list is wanted.
fn list_for(headers: &HeaderMap) -> Dialect {
    if headers.contains_key(ANTHROPIC_HEADER) {
        Dialect::AnthropicModels
    } else if headers.contains_key(GEMINI_HEADER) {
        Dialect::GeminiModels
    } else {
        Dialect::OpenAiModels
    }
}

/// The path before and from the slash that ends the given number of segments.
fn split_after(path: &str, segments: usize) -> Option<(&str, &str)> {
    let rest = path.strip_prefix('/')?;
    let end = rest
        .match_indices('/')
        .nth(segments.checked_sub(1)?)
        .map(|(at, _)| at)?;
    let (prefix, operation) = rest.split_at_checked(end)?;
    (!prefix.is_empty()).then_some((prefix, operation))
}

fn guess(path: &str, headers: &HeaderMap) -> Dialect {
    if headers.contains_key(ANTHROPIC_HEADER) || path.contains("/v1/messages") {
        Dialect::Anthropic
    } else if headers.contains_key(GEMINI_HEADER)
        || ["/v1beta/", ":generateContent", ":streamGenerateContent"]
            .iter()
            .any(|part| path.contains(part))
    {
        Dialect::GeminiGenerate
    } else if path.contains("/v2/") {
        Dialect::Cohere
    } else {
        Dialect::OpenAiChat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<(Dialect, Option<String>)> {
        route(path, &HeaderMap::new())
            .ok()
            .map(|route| (route.dialect, route.model.map(Cow::into_owned)))
    }

    #[test]
    fn paths_name_their_operation_and_model() {
        let model = |name: &str| Some(name.to_owned());
        for (path, expected) in [
            ("/v1/chat/completions", Some((Dialect::OpenAiChat, None))),
            ("/v1/messages", Some((Dialect::Anthropic, None))),
            (
                "/v1/messages/count_tokens",
                Some((Dialect::AnthropicCountTokens, None)),
            ),
            (
                "/sonnet/v1/messages",
                Some((Dialect::Anthropic, model("sonnet"))),
            ),
            (
                "/anthropic-main/sonnet/v1/messages",
                Some((Dialect::Anthropic, model("anthropic-main/sonnet"))),
            ),
            (
                "/gpt/v1/chat/completions",
                Some((Dialect::OpenAiChat, model("gpt"))),
            ),
            (
                "/a%20b/v1/chat/completions",
                Some((Dialect::OpenAiChat, model("a b"))),
            ),
            (
                "/v1beta/models/gem:streamGenerateContent",
                Some((Dialect::GeminiStream, model("gem"))),
            ),
            (
                "/v1/models/gem:countTokens",
                Some((Dialect::GeminiCountTokens, model("gem"))),
            ),
            ("/v1/models", Some((Dialect::OpenAiModels, None))),
            (
                "/v1/models/gpt",
                Some((Dialect::OpenAiModels, model("gpt"))),
            ),
            ("/v2/chat", Some((Dialect::Cohere, None))),
            (
                "/v1beta/models/gem:batchEmbedContents",
                Some((Dialect::GeminiEmbedBatch, model("gem"))),
            ),
            (
                "/v1beta/models/main/gem:generateContent",
                Some((Dialect::GeminiGenerate, model("main/gem"))),
            ),
            (
                "/gem/v1beta/models/any:generateContent",
                Some((Dialect::GeminiGenerate, model("gem"))),
            ),
            (
                "/main/gem/v1/models/any:streamGenerateContent",
                Some((Dialect::GeminiStream, model("main/gem"))),
            ),
            (
                "/main/gem/v2/chat",
                Some((Dialect::Cohere, model("main/gem"))),
            ),
            ("/v1beta/models", Some((Dialect::GeminiModels, None))),
            (
                "/v1beta/models/gem",
                Some((Dialect::GeminiModels, model("gem"))),
            ),
            (
                "/v1/models/llama3:8b",
                Some((Dialect::OpenAiModels, model("llama3:8b"))),
            ),
            ("/v1beta/models/gem:bake", None),
            ("/a/v1beta/models/gem", None),
            ("/", None),
            ("/v1", None),
            ("//v1/messages", None),
            ("/a/b/c/v1/messages", None),
            ("/a/v1/models", None),
            ("/v1/chat/completions/", None),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn unknown_paths_are_refused_in_the_likeliest_dialect() {
        let mut headers = HeaderMap::new();
        assert_eq!(
            route("/x", &headers).unwrap_err().dialect,
            Dialect::OpenAiChat
        );
        headers.insert(
            "anthropic-version",
            http::HeaderValue::from_static("2023-06-01"),
        );
        assert_eq!(
            route("/x", &headers).unwrap_err().dialect,
            Dialect::Anthropic
        );
    }

    #[test]
    fn list_of_models_is_the_one_the_callers_package_reads() {
        for (header, expected) in [
            ("anthropic-version", Dialect::AnthropicModels),
            ("x-goog-api-key", Dialect::GeminiModels),
            ("authorization", Dialect::OpenAiModels),
        ] {
            let name = http::HeaderName::from_static(header);
            let headers = HeaderMap::from_iter([(name, http::HeaderValue::from_static("x"))]);
            for path in ["/v1/models", "/v1/models/gpt"] {
                assert_eq!(route(path, &headers).unwrap().dialect, expected, "{header}");
            }
        }
    }
}
