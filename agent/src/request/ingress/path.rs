//! Which operation a path means, and which model it names if it does.

use http::{HeaderMap, Method};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::query::{self, decode};
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
    /// A list of models is wanted, not the entry of `model`: below a prefix, the list of that one.
    pub(crate) wants_list: bool,
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

    /// True when the path takes requests of this method. `HEAD` is a `GET` without its body.
    pub(crate) fn takes(&self, method: &Method) -> bool {
        *method == self.method() || (*method == Method::HEAD && self.method() == Method::GET)
    }

    /// The method as the `allow` header wants it.
    pub(crate) fn allow(&self) -> &'static str {
        if self.dialect.lists_models() {
            "GET"
        } else {
            "POST"
        }
    }

    /// Every method that is answered, as the answer to `OPTIONS` lists them.
    pub(crate) fn options(&self) -> &'static str {
        if self.dialect.lists_models() {
            "GET, HEAD, OPTIONS"
        } else {
            "POST, OPTIONS"
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
    let signs = Signs { headers, query };
    if let Some((dialect, model)) = operation(path) {
        let dialect = signs.list(dialect);
        return Ok(Route {
            wants_list: dialect.lists_models() && model.is_none(),
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
                dialect: signs.list(dialect),
                model: Some(decode(prefix)),
                wants_list: dialect.lists_models() && entry.is_none(),
            });
        }
    }
    Err(Unknown {
        dialect: signs.guess(path),
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

/// What tells whose package is calling, where the path does not.
struct Signs<'a> {
    headers: &'a HeaderMap,
    query: Option<&'a str>,
}

impl Signs<'_> {
    fn of_anthropic(&self) -> bool {
        self.headers.contains_key(ANTHROPIC_HEADER)
    }

    /// Google's clients may put the key into the query instead.
    fn of_gemini(&self) -> bool {
        self.headers.contains_key(GEMINI_HEADER) || self.query.and_then(query::key).is_some()
    }

    /// Three vendors list their models at one path; what only their own packages send tells which
    /// list is wanted. Other operations stay what they are.
    fn list(&self, dialect: Dialect) -> Dialect {
        match dialect {
            Dialect::OpenAiModels if self.of_anthropic() => Dialect::AnthropicModels,
            Dialect::OpenAiModels if self.of_gemini() => Dialect::GeminiModels,
            other => other,
        }
    }

    fn guess(&self, path: &str) -> Dialect {
        if self.of_anthropic() || path.contains("/v1/messages") {
            Dialect::Anthropic
        } else if self.of_gemini()
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
            (
                "/a/v1beta/models/gem",
                Some((Dialect::GeminiModels, model("a"))),
            ),
            ("/a/v1/models", Some((Dialect::OpenAiModels, model("a")))),
            (
                "/p/a/v1beta/models",
                Some((Dialect::GeminiModels, model("p/a"))),
            ),
            ("/", None),
            ("/v1", None),
            ("//v1/messages", Some((Dialect::Anthropic, None))),
            ("/v1//messages/", Some((Dialect::Anthropic, None))),
            (
                "/sonnet//v1/messages",
                Some((Dialect::Anthropic, model("sonnet"))),
            ),
            ("/a/b/c/v1/messages", None),
            ("/v1/chat/completions/", Some((Dialect::OpenAiChat, None))),
            ("/v1/models/", Some((Dialect::OpenAiModels, None))),
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
            Dialect::OpenAiChat
        );
        headers.insert(
            "anthropic-version",
            http::HeaderValue::from_static("2023-06-01"),
        );
        assert_eq!(
            route("/x", &headers, None).unwrap_err().dialect,
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
                let found = route(path, &headers, None).unwrap();
                assert_eq!(found.dialect, expected, "{header}");
            }
        }
        let found = route("/v1/models", &HeaderMap::new(), Some("a=b&key=x"));
        assert_eq!(found.unwrap().dialect, Dialect::GeminiModels);
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
