//! Cohere's chat, version 2, and the other endpoints of this version.

mod translation;

use std::borrow::Cow;

use lanekeeper_model::gateway::ErrorMeaning;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::dialect::{Dialect, Operation, OtherEndpoint, Protocol, Vendor};
use crate::error_kind::ErrorKind;
use crate::json::fields::Fields;
use crate::json::filled::{filled, parsed};
use crate::path;
use crate::reading::{AnswerReading, End, FrameReading, UsageNames};
use crate::sse::plain::{kind_first, lone_data, run_of, without};
use crate::translation::Translator;
use crate::translation::embeddings::Embedder;

/// What is passed through.
const OTHERS: &[OtherEndpoint] = &[OtherEndpoint::document("rerank")];

/// The vendor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cohere;

impl Dialect {
    /// `POST /v2/chat`.
    pub const COHERE: Self = Self::new(&Cohere, Operation::Chat);
    /// `POST /v2/embed`.
    pub const COHERE_EMBED: Self = Self::new(&Cohere, Operation::Embeddings);
}

impl Vendor for Cohere {
    fn name(&self) -> &'static str {
        "cohere"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Cohere
    }

    fn telemetry_name(&self) -> &'static str {
        "cohere"
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Chat, Operation::Embeddings]
    }

    fn others(&self) -> &'static [OtherEndpoint] {
        OTHERS
    }

    fn route<'a>(&self, path: &'a str) -> Option<(Operation, Option<Cow<'a, str>>)> {
        let operation = match path {
            "/v2/chat" => Operation::Chat,
            "/v2/embed" => Operation::Embeddings,
            _ => super::other(OTHERS, "v2", path)?,
        };
        Some((operation, None))
    }

    fn resembles(&self, path: &str) -> bool {
        path.contains("/v2/")
    }

    fn endpoint(&self, base: &str, operation: Operation, _model: &str) -> String {
        let operation = match operation {
            Operation::Other(place) => super::other_path(OTHERS, place),
            Operation::Embeddings | Operation::EmbeddingsBatch => "embed",
            _ => "chat",
        };
        path::below(base, "v2", operation)
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn owns_header(&self, name: &str) -> bool {
        name == "authorization"
    }

    fn passes_header(&self, name: &str) -> bool {
        name == "x-client-name" || name.starts_with("x-fern-")
    }

    fn probe(&self, model: &str) -> (Operation, Value) {
        (Operation::Chat, super::chat_probe(model))
    }

    fn end(&self) -> End {
        End::Frame
    }

    fn frame(&self, _operation: Operation, event: Option<&[u8]>, data: &[u8]) -> FrameReading {
        frame(event, data)
    }

    /// Events carry their kind: only pieces of text are plain.
    fn is_plain(&self, raw: &[u8]) -> bool {
        { lone_data(raw).and_then(kind_first) }.is_some_and(|kind| kind == b"content-delta")
    }

    fn plain_run(&self, raw: &[u8]) -> usize {
        run_of(without(raw, &[]), |frame| self.is_plain(frame))
    }

    fn answer(&self, operation: Operation, document: &Fields<'_>) -> Option<AnswerReading> {
        match operation {
            Operation::Other(_) => return Some(AnswerReading::Good),
            // A list of vectors, or one for each type.
            Operation::Embeddings | Operation::EmbeddingsBatch => {
                let embeddings = document.get("embeddings")?;
                let is_filled = match parsed::<Fields<'_>>(Some(embeddings)) {
                    Some(kinds) => kinds.iter().any(|(_, vectors)| filled(Some(vectors))),
                    None => filled(Some(embeddings)),
                };
                return Some(if is_filled {
                    AnswerReading::Good
                } else {
                    AnswerReading::Malformed
                });
            }
            _ => {}
        }
        answer(document.get("message"), document.get("finish_reason"))
    }

    fn usage(&self) -> &'static UsageNames {
        &UsageNames {
            scopes: &["delta"],
            model: "model",
            usage: "usage",
            tokens: Some("tokens"),
            input: &["input_tokens"],
            output: &["output_tokens"],
        }
    }

    fn says_model_missing(&self, _status: u16, text: &str) -> bool {
        text.starts_with("model '") && (text.contains("not found") || text.contains("was removed"))
    }

    fn known_message(&self, _status: u16, text: &str) -> Option<ErrorMeaning> {
        { text.starts_with("too many tokens:") }.then_some(ErrorMeaning::ContextLength)
    }

    fn error_document(&self, kind: &ErrorKind, request_id: &str) -> Value {
        json!({"id": request_id, "message": kind.message()})
    }

    fn error_event(&self, kind: &ErrorKind, _request_id: &str) -> String {
        let data = json!({
            "type": "message-end",
            "delta": {"finish_reason": "ERROR", "error": kind.message()},
        });
        format!("event: message-end\ndata: {data}\n\n")
    }

    fn translator(&self) -> Option<&'static dyn Translator> {
        Some(&Self)
    }

    fn embedder(&self) -> Option<&'static dyn Embedder> {
        Some(&Self)
    }

    fn model_entry(&self, name: &str) -> Value {
        super::model_entry(name)
    }

    fn model_list(&self, entries: Vec<Value>) -> Value {
        super::model_list(entries)
    }
}

fn frame(event: Option<&[u8]>, data: &[u8]) -> FrameReading {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        delta: Option<Delta<'a>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }

    let Ok(parsed) = serde_json::from_slice::<Event<'_>>(data) else {
        return FrameReading::Failed;
    };
    if filled(parsed.error) {
        return FrameReading::Failed;
    }
    let named = event.map(String::from_utf8_lossy);
    match parsed.kind.or(named).as_deref() {
        Some("error") => FrameReading::Failed,
        Some("message-end") => match parsed.delta {
            Some(delta) if filled(delta.error) => FrameReading::Failed,
            delta => match delta.and_then(|delta| delta.finish_reason).as_deref() {
                Some("ERROR" | "TIMEOUT") => FrameReading::Failed,
                reason => FrameReading::Terminal {
                    content: !matches!(reason, None | Some("COMPLETE" | "STOP_SEQUENCE")),
                },
            },
        },
        Some("content-delta" | "tool-plan-delta" | "tool-call-start" | "tool-call-delta") => {
            FrameReading::Content
        }
        Some("ping" | "keepalive") => FrameReading::Ping,
        Some(_) => FrameReading::Lifecycle,
        None => FrameReading::Failed,
    }
}

fn answer(message: Option<&RawValue>, finish_reason: Option<&RawValue>) -> Option<AnswerReading> {
    let reason = parsed::<Cow<'_, str>>(finish_reason);
    if matches!(reason.as_deref(), Some("ERROR" | "TIMEOUT")) {
        return Some(AnswerReading::Failed);
    }
    let message = parsed::<Fields<'_>>(message)?;
    let has_content = message
        .iter()
        .any(|(key, value)| key != "role" && filled(Some(value)));
    let natural = matches!(reason.as_deref(), None | Some("COMPLETE" | "STOP_SEQUENCE"));
    Some(AnswerReading::good_if(has_content || !natural))
}
