//! Which operation a path means, and which model it names if it does.

use http::{HeaderMap, Method};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::path::decode;
use lanekeeper_protocol::route::{guess, list, operation};
use std::borrow::Cow;

/// A known path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    pub(crate) dialect: Dialect,
    /// The model named by the path: a prefix before the operation, or part of it.
    pub(crate) model: Option<Cow<'a, str>>,
    /// A list of models is wanted, not the entry of `model`: below a prefix, the list of that one.
    pub(crate) wants_list: bool,
    /// What follows a collection: empty, or with a leading slash.
    pub(crate) tail: &'a str,
}

/// A path nobody serves, and the dialect its caller most likely speaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) dialect: Dialect,
}

impl Route<'_> {
    /// True when the path takes requests of this method. `HEAD` is a `GET` without its body. Of a
    /// collection only its vendor knows what each path takes.
    pub(crate) fn takes(&self, method: &Method) -> bool {
        if self.dialect.is_collection() {
            [Method::GET, Method::POST, Method::DELETE].contains(method)
        } else if self.dialect.lists_models() {
            *method == Method::GET || *method == Method::HEAD
        } else {
            *method == Method::POST
        }
    }

    /// The methods as the `allow` header wants them.
    pub(crate) fn allow(&self) -> &'static str {
        if self.dialect.is_collection() {
            "GET, POST, DELETE"
        } else if self.dialect.lists_models() {
            "GET"
        } else {
            "POST"
        }
    }

    /// Every method that is answered, as the answer to `OPTIONS` lists them.
    pub(crate) fn options(&self) -> &'static str {
        if self.dialect.is_collection() {
            "GET, POST, DELETE, OPTIONS"
        } else if self.dialect.lists_models() {
            "GET, HEAD, OPTIONS"
        } else {
            "POST, OPTIONS"
        }
    }
}

/// The path without what changes nothing: slashes behind one another, and one at its end. Clients
/// whose base URL ends with a slash send them.
pub(crate) fn normal(path: &str) -> Cow<'_, str> {
    if !path.contains("//") && (path.len() < 2 || !path.ends_with('/')) {
        return Cow::Borrowed(path);
    }
    let mut normal = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        normal.push('/');
        normal.push_str(segment);
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Cow::Owned(normal)
}

/// Finds the operation at a [`normal`] path. Before it may stand `/{model}` or `/{provider}/{model}`.
///
/// # Errors
///
/// No operation is at this path.
pub(crate) fn route<'a>(
    path: &'a str,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Route<'a>, Unknown> {
    if let Some((dialect, model)) = operation(path) {
        let dialect = list(dialect, headers, query);
        return Ok(Route {
            wants_list: dialect.lists_models() && model.is_none(),
            tail: dialect.below_collection(path),
            dialect,
            model,
        });
    }
    for depth in 1..=2 {
        let Some((prefix, rest)) = split_after(path, depth) else {
            break;
        };
        // Below a prefix the model is named already: what the rest says of it is not asked.
        if let Some((dialect, entry)) = operation(rest) {
            return Ok(Route {
                dialect: list(dialect, headers, query),
                model: Some(decode(prefix)),
                wants_list: dialect.lists_models() && entry.is_none(),
                tail: dialect.below_collection(rest),
            });
        }
    }
    Err(Unknown {
        dialect: guess(path, headers, query),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str) -> Option<(Dialect, Option<String>)> {
        route(&normal(path), &HeaderMap::new(), None)
            .ok()
            .map(|route| (route.dialect, route.model.map(Cow::into_owned)))
    }

    #[test]
    fn paths_name_their_operation_and_model() {
        let model = |name: &str| Some(name.to_owned());
        for (path, expected) in [
            ("/v1/chat/completions", Some((Dialect::OPENAI_CHAT, None))),
            ("/v1/messages", Some((Dialect::ANTHROPIC, None))),
            (
                "/v1/messages/count_tokens",
                Some((Dialect::ANTHROPIC_COUNT_TOKENS, None)),
            ),
            (
                "/sonnet/v1/messages",
                Some((Dialect::ANTHROPIC, model("sonnet"))),
            ),
            (
                "/anthropic-main/sonnet/v1/messages",
                Some((Dialect::ANTHROPIC, model("anthropic-main/sonnet"))),
            ),
            (
                "/gpt/v1/chat/completions",
                Some((Dialect::OPENAI_CHAT, model("gpt"))),
            ),
            (
                "/a%20b/v1/chat/completions",
                Some((Dialect::OPENAI_CHAT, model("a b"))),
            ),
            (
                "/v1beta/models/gem:streamGenerateContent",
                Some((Dialect::GEMINI_STREAM, model("gem"))),
            ),
            (
                "/v1/models/gem:countTokens",
                Some((Dialect::GEMINI_COUNT_TOKENS, model("gem"))),
            ),
            ("/v1/models", Some((Dialect::OPENAI_MODELS, None))),
            (
                "/v1/models/gpt",
                Some((Dialect::OPENAI_MODELS, model("gpt"))),
            ),
            ("/v2/chat", Some((Dialect::COHERE, None))),
            (
                "/v1beta/models/gem:batchEmbedContents",
                Some((Dialect::GEMINI_EMBED_BATCH, model("gem"))),
            ),
            (
                "/v1beta/models/main/gem:generateContent",
                Some((Dialect::GEMINI_GENERATE, model("main/gem"))),
            ),
            (
                "/gem/v1beta/models/any:generateContent",
                Some((Dialect::GEMINI_GENERATE, model("gem"))),
            ),
            (
                "/main/gem/v1/models/any:streamGenerateContent",
                Some((Dialect::GEMINI_STREAM, model("main/gem"))),
            ),
            (
                "/main/gem/v2/chat",
                Some((Dialect::COHERE, model("main/gem"))),
            ),
            ("/v1beta/models", Some((Dialect::GEMINI_MODELS, None))),
            (
                "/v1beta/models/gem",
                Some((Dialect::GEMINI_MODELS, model("gem"))),
            ),
            (
                "/v1/models/llama3:8b",
                Some((Dialect::OPENAI_MODELS, model("llama3:8b"))),
            ),
            ("/v1beta/models/gem:bake", None),
            (
                "/a/v1beta/models/gem",
                Some((Dialect::GEMINI_MODELS, model("a"))),
            ),
            ("/a/v1/models", Some((Dialect::OPENAI_MODELS, model("a")))),
            (
                "/p/a/v1beta/models",
                Some((Dialect::GEMINI_MODELS, model("p/a"))),
            ),
            ("/", None),
            ("/v1", None),
            ("//v1/messages", Some((Dialect::ANTHROPIC, None))),
            ("/v1//messages/", Some((Dialect::ANTHROPIC, None))),
            (
                "/sonnet//v1/messages",
                Some((Dialect::ANTHROPIC, model("sonnet"))),
            ),
            ("/a/b/c/v1/messages", None),
            ("/v1/chat/completions/", Some((Dialect::OPENAI_CHAT, None))),
            ("/v1/models/", Some((Dialect::OPENAI_MODELS, None))),
            ("//", None),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn unknown_paths_are_refused_in_the_likeliest_dialect() {
        let mut headers = HeaderMap::new();
        assert_eq!(
            route("/x", &headers, None).unwrap_err().dialect,
            Dialect::OPENAI_CHAT
        );
        headers.insert(
            "anthropic-version",
            http::HeaderValue::from_static("2023-06-01"),
        );
        assert_eq!(
            route("/x", &headers, None).unwrap_err().dialect,
            Dialect::ANTHROPIC
        );
    }

    #[test]
    fn list_of_models_is_the_one_the_callers_package_reads() {
        for (header, expected) in [
            ("anthropic-version", Dialect::ANTHROPIC_MODELS),
            ("x-goog-api-key", Dialect::GEMINI_MODELS),
            ("authorization", Dialect::OPENAI_MODELS),
        ] {
            let name = http::HeaderName::from_static(header);
            let headers = HeaderMap::from_iter([(name, http::HeaderValue::from_static("x"))]);
            for path in ["/v1/models", "/v1/models/gpt"] {
                let found = route(path, &headers, None).unwrap();
                assert_eq!(found.dialect, expected, "{header}");
            }
        }
        let found = route("/v1/models", &HeaderMap::new(), Some("a=b&key=x"));
        assert_eq!(found.unwrap().dialect, Dialect::GEMINI_MODELS);
    }

    #[test]
    fn list_is_told_from_an_entry() {
        for (path, wants_list) in [
            ("/v1/models", true),
            ("/v1/models/gpt", false),
            ("/gpt/v1/models", true),
            ("/gpt/v1/models/gpt", false),
            ("/p/gpt/v1beta/models", true),
            ("/gpt/v1/messages", false),
        ] {
            let found = route(path, &HeaderMap::new(), None).unwrap();
            assert_eq!(found.wants_list, wants_list, "{path}");
        }
    }
}
