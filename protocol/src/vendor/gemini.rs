//! Google's Gemini.

mod answer;
mod names;
mod translation;

use std::borrow::Cow;
use std::ops::Range;

use http::HeaderMap;
use lanekeeper_model::gateway::{BaseUrl, ErrorMeaning};
use memchr::memmem::Finder;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::dialect::{Dialect, Operation, Protocol, Vendor};
use crate::error_kind::ErrorKind;
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::json::scan::LocateError;
use crate::path;
use crate::reading::{AnswerReading, End, ErrorDetails, FrameReading, UsageNames};
use crate::sse::plain::{Word, lone_data, run_of, without};
use crate::translation::Translator;
use crate::translation::embeddings::Embedder;

/// Every request of Google's packages has it, unless the key is in the query.
const KEY_HEADER: &str = "x-goog-api-key";

/// The words that end or fail an answer.
static WORDS: [Word; 3] = [
    Word::new(|| Finder::new("\"error\"")),
    Word::new(|| Finder::new("\"finishReason\"")),
    Word::new(|| Finder::new("\"blockReason\"")),
];

/// The vendor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gemini;

impl Dialect {
    /// `POST /v1beta/models/{model}:generateContent`.
    pub const GEMINI_GENERATE: Self = Self::new(&Gemini, Operation::Chat);
    /// `POST /v1beta/models/{model}:streamGenerateContent`.
    pub const GEMINI_STREAM: Self = Self::new(&Gemini, Operation::ChatStream);
    /// `POST /v1beta/models/{model}:countTokens`.
    pub const GEMINI_COUNT_TOKENS: Self = Self::new(&Gemini, Operation::CountTokens);
    /// `POST /v1beta/models/{model}:embedContent`.
    pub const GEMINI_EMBED: Self = Self::new(&Gemini, Operation::Embeddings);
    /// `POST /v1beta/models/{model}:batchEmbedContents`.
    pub const GEMINI_EMBED_BATCH: Self = Self::new(&Gemini, Operation::EmbeddingsBatch);
    /// `GET /v1beta/models`.
    pub const GEMINI_MODELS: Self = Self::new(&Gemini, Operation::Models);
}

impl Vendor for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Gemini
    }

    fn telemetry_name(&self) -> &'static str {
        "gcp.gemini"
    }

    fn telemetry_chat(&self) -> &'static str {
        "generate_content"
    }

    fn operations(&self) -> &'static [Operation] {
        &[
            Operation::Chat,
            Operation::ChatStream,
            Operation::CountTokens,
            Operation::Embeddings,
            Operation::EmbeddingsBatch,
        ]
    }

    /// `/v1beta/models/{model}`, and operations on it under either version.
    fn route<'a>(&self, path: &'a str) -> Option<(Operation, Option<Cow<'a, str>>)> {
        if path == "/v1beta/models" {
            return Some((Operation::Models, None));
        }
        let beta = path.strip_prefix("/v1beta/models/");
        let rest = beta.or_else(|| path.strip_prefix("/v1/models/"))?;
        let Some((model, operation)) = rest.rsplit_once(':') else {
            let name = beta.filter(|name| !name.is_empty())?;
            return Some((Operation::Models, Some(path::decode(name))));
        };
        let operation = match operation {
            "generateContent" => Operation::Chat,
            "streamGenerateContent" => Operation::ChatStream,
            "countTokens" => Operation::CountTokens,
            "embedContent" => Operation::Embeddings,
            "batchEmbedContents" => Operation::EmbeddingsBatch,
            _ => return None,
        };
        if model.is_empty() {
            let name = beta?;
            return Some((Operation::Models, Some(path::decode(name))));
        }
        Some((operation, Some(path::decode(model))))
    }

    fn is_caller(&self, headers: &HeaderMap, query: Option<&str>) -> bool {
        let is_key = |pair: &str| {
            { pair.split_once('=') }.is_some_and(|(name, _)| path::decode(name) == "key")
        };
        headers.contains_key(KEY_HEADER) || query.is_some_and(|query| query.split('&').any(is_key))
    }

    fn resembles(&self, path: &str) -> bool {
        ["/v1beta/", ":generateContent", ":streamGenerateContent"]
            .iter()
            .any(|part| path.contains(part))
    }

    fn endpoint(&self, base: &str, operation: Operation, model: &str) -> String {
        let operation = match operation {
            Operation::Models => return path::below(base, "v1beta", "models"),
            Operation::Chat | Operation::Completions | Operation::Other(_) => "generateContent",
            Operation::ChatStream => "streamGenerateContent?alt=sse",
            Operation::CountTokens => "countTokens",
            Operation::Embeddings => "embedContent",
            Operation::EmbeddingsBatch => "batchEmbedContents",
        };
        if base.ends_with(BaseUrl::MODEL_PLACEHOLDER) {
            return format!("{base}:{operation}");
        }
        let model = path::encode(model.strip_prefix("models/").unwrap_or(model));
        path::below(base, "v1beta", &format!("models/{model}:{operation}"))
    }

    fn has_model_in_path(&self) -> bool {
        true
    }

    fn model_names(&self, body: &[u8]) -> Result<Vec<Range<usize>>, LocateError> {
        names::model_names(body)
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        (KEY_HEADER, "")
    }

    fn key_parameter(&self) -> Option<&'static str> {
        Some("key")
    }

    fn owns_header(&self, name: &str) -> bool {
        matches!(
            name,
            "authorization"
                | KEY_HEADER
                | "x-goog-user-project"
                | "x-goog-iam-authority-selector"
                | "x-goog-iam-authorization-token"
        )
    }

    fn owns_parameter(&self, name: &str) -> bool {
        matches!(name, "key" | "access_token")
    }

    /// No parameter of the query passes: `alt` is the agent's, and `fields`, `callback` and the
    /// like would give the answer another form, as the header `x-goog-fieldmask` does.
    fn passes_header(&self, name: &str) -> bool {
        matches!(
            name,
            "x-goog-api-client" | "x-goog-request-params" | "x-server-timeout"
        )
    }

    /// Without `alt=sse` a stream is one JSON array.
    fn streams_array(&self, operation: Operation, query: Option<&str>) -> bool {
        let asks_events = query.unwrap_or_default().split('&').any(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            matches!(&*path::decode(name), "alt" | "$alt") && value == "sse"
        });
        operation == Operation::ChatStream && !asks_events
    }

    fn probe(&self, _model: &str) -> (Operation, Value) {
        let body = json!({
            "contents": [{"role": "user", "parts": [{"text": super::PROBE_PROMPT}]}],
            "generationConfig": {"maxOutputTokens": super::PROBE_TOKENS},
        });
        (Operation::Chat, body)
    }

    fn end(&self) -> End {
        End::Finish
    }

    fn frame(&self, _operation: Operation, _event: Option<&[u8]>, data: &[u8]) -> FrameReading {
        answer::frame(data)
    }

    fn is_plain(&self, raw: &[u8]) -> bool {
        begins_with_candidates(raw) && WORDS.iter().all(|word| !word.is_in(raw))
    }

    fn plain_run(&self, raw: &[u8]) -> usize {
        run_of(without(raw, &WORDS), begins_with_candidates)
    }

    fn answer(&self, operation: Operation, document: &Fields<'_>) -> Option<AnswerReading> {
        let good = |value: Option<&RawValue>| value.map(|_| AnswerReading::Good);
        match operation {
            Operation::Models => good(document.get("models")),
            Operation::CountTokens => {
                parsed::<f64>(document.get("totalTokens")).map(|_| AnswerReading::Good)
            }
            Operation::Embeddings | Operation::EmbeddingsBatch => {
                good(document.get("embedding").or(document.get("embeddings")))
            }
            Operation::Other(_) => Some(AnswerReading::Good),
            Operation::Chat | Operation::ChatStream | Operation::Completions => {
                answer::whole(document.get("candidates"), document.get("promptFeedback"))
            }
        }
    }

    fn usage(&self) -> &'static UsageNames {
        &UsageNames {
            scopes: &[],
            model: "modelVersion",
            usage: "usageMetadata",
            tokens: None,
            input: &["promptTokenCount"],
            output: &["candidatesTokenCount", "thoughtsTokenCount"],
        }
    }

    /// `ErrorInfo.reason` and `RetryInfo.retryDelay`.
    fn error_details<'a>(&self, error: &'a Map<String, Value>) -> ErrorDetails<'a> {
        let details = error.get("details").and_then(Value::as_array);
        let mut found = ErrorDetails::default();
        for detail in details.map(Vec::as_slice).unwrap_or_default() {
            let text = |key: &str| detail.get(key).and_then(Value::as_str);
            found.reasons.extend(text("reason"));
            if text("@type").is_some_and(|name| name.ends_with("google.rpc.RetryInfo")) {
                found.delays.extend(text("retryDelay"));
            }
        }
        found
    }

    fn known_code(&self, status: u16, code: &str) -> Option<ErrorMeaning> {
        let is_of_key = ["API_KEY_", "CONSUMER_", "BILLING_", "ACCESS_TOKEN_"]
            .iter()
            .any(|start| code.starts_with(start))
            || code == "SERVICE_DISABLED";
        match status {
            400 if code == "API_KEY_INVALID" => Some(ErrorMeaning::Auth),
            403 if is_of_key => Some(ErrorMeaning::Auth),
            _ => None,
        }
    }

    fn says_model_missing(&self, status: u16, text: &str) -> bool {
        status == 404
            && text.starts_with("models/")
            && (text.contains(" is not found for api version")
                || text.contains(" is no longer available"))
    }

    fn known_message(&self, _status: u16, text: &str) -> Option<ErrorMeaning> {
        let is_context_length = (text.starts_with("the input token count")
            && text.contains("exceeds the maximum number of tokens allowed"))
            || text.starts_with("unable to submit request because the input token count is");
        is_context_length.then_some(ErrorMeaning::ContextLength)
    }

    fn status_of(&self, code: &str) -> Option<u16> {
        Some(match code {
            "INVALID_ARGUMENT" | "FAILED_PRECONDITION" => 400,
            "UNAUTHENTICATED" => 401,
            "PERMISSION_DENIED" => 403,
            "NOT_FOUND" => 404,
            "RESOURCE_EXHAUSTED" => 429,
            "INTERNAL" => 500,
            "UNAVAILABLE" => 503,
            "DEADLINE_EXCEEDED" => 504,
            _ => return None,
        })
    }

    fn error_document(&self, kind: &ErrorKind, _request_id: &str) -> Value {
        json!({
            "error": {
                "code": kind.status().as_u16(),
                "message": kind.message(),
                "status": status_word(kind),
            },
        })
    }

    fn translator(&self) -> Option<&'static dyn Translator> {
        Some(&translation::GeminiTranslator)
    }

    fn embedder(&self) -> Option<&'static dyn Embedder> {
        Some(&translation::GeminiTranslator)
    }

    fn model_entry(&self, name: &str) -> Value {
        json!({
            "name": format!("models/{name}"),
            "version": "1",
            "displayName": name,
            "supportedGenerationMethods":
                ["generateContent", "countTokens", "embedContent", "batchEmbedContents"],
        })
    }

    fn model_list(&self, entries: Vec<Value>) -> Value {
        json!({"models": entries})
    }
}

fn status_word(kind: &ErrorKind) -> &'static str {
    match kind.status().as_u16() {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        429 => "RESOURCE_EXHAUSTED",
        501 => "UNIMPLEMENTED",
        502 | 503 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

/// What an answer says comes first in its documents. [`WORDS`] are another search.
fn begins_with_candidates(raw: &[u8]) -> bool {
    lone_data(raw)
        .and_then(|data| data.strip_prefix(b"{"))
        .is_some_and(|data| data.trim_ascii_start().starts_with(b"\"candidates\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_arrays_unless_events_are_asked_for() {
        for (query, asks_events) in [
            (Some("alt=sse"), true),
            (Some("key=x&%24alt=sse"), true),
            (Some("alt=json"), false),
            (Some("default=sse"), false),
            (None, false),
        ] {
            let streams_array = Gemini.streams_array(Operation::ChatStream, query);
            assert_eq!(streams_array, !asks_events, "{query:?}");
            assert!(!Gemini.streams_array(Operation::Chat, query), "{query:?}");
        }
    }
}
