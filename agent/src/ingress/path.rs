//! Which operation a path means, and which model it names if it does.

use crate::protocol::Dialect;
use crate::protocol::query::decode;
use http::{HeaderMap, Method};
use std::borrow::Cow;

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
        match self.dialect {
            Dialect::OpenAiModels => Method::GET,
            _ => Method::POST,
        }
    }

    /// The method as the `allow` header wants it.
    pub(crate) fn allow(&self) -> &'static str {
        match self.dialect {
            Dialect::OpenAiModels => "GET",
            _ => "POST",
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
    )
}

/// Finds the operation. Before it may stand `/{model}` or `/{provider}/{model}`.
///
/// # Errors
///
/// No operation is at this path.
pub(crate) fn route<'a>(path: &'a str, headers: &HeaderMap) -> Result<Route<'a>, Unknown> {
    if let Some((dialect, model)) = operation(path) {
        return Ok(Route { dialect, model });
    }
    for depth in 1..=2 {
        let Some((prefix, rest)) = split_after(path, depth) else {
            break;
        };
        // Below a prefix the model is named already: only operations that name none fit.
        if let Some((dialect, None)) = operation(rest)
            && dialect != Dialect::OpenAiModels
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
        "/v1/responses" => Dialect::Responses,
        "/v1/messages/count_tokens" => Dialect::AnthropicCountTokens,
        "/v2/chat" => Dialect::Cohere,
        _ => return in_models(path),
    };
    Some((dialect, None))
}

/// `/v1beta/models/{model}:operation`, and `/v1/models/{model}` with or without one.
fn in_models(path: &str) -> Option<(Dialect, Option<Cow<'_, str>>)> {
    let (rest, lists) = match path.strip_prefix("/v1beta/models/") {
        Some(rest) => (rest, false),
        None => (path.strip_prefix("/v1/models/")?, true),
    };
    if let Some((model, operation)) = rest.rsplit_once(':') {
        let dialect = match operation {
            "generateContent" => Some(Dialect::GeminiGenerate),
            "streamGenerateContent" => Some(Dialect::GeminiStream),
            "countTokens" => Some(Dialect::GeminiCountTokens),
            "embedContent" => Some(Dialect::GeminiEmbed),
            _ => None,
        };
        if let (Some(dialect), false) = (dialect, model.is_empty()) {
            return Some((dialect, Some(decode(model))));
        }
    }
    (lists && !rest.is_empty()).then(|| (Dialect::OpenAiModels, Some(decode(rest))))
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
    if headers.contains_key("anthropic-version") || path.contains("/v1/messages") {
        Dialect::Anthropic
    } else if headers.contains_key("x-goog-api-key") || path.contains("/v1beta/") {
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
}
