//! Anthropic's messages.

mod translation;

use std::borrow::Cow;

use http::HeaderMap;
use lanekeeper_model::gateway::ErrorMeaning;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::dialect::{Dialect, Operation, Protocol, Vendor};
use crate::error_kind::ErrorKind;
use crate::json::fields::Fields;
use crate::json::filled::{filled, parsed};
use crate::path;
use crate::reading::{AnswerReading, End, FrameReading, UsageNames};
use crate::sse::plain::{kind_first, lone_data, run_of, without};
use crate::translation::Translator;

/// Every request of Anthropic's packages has it.
const VERSION_HEADER: &str = "anthropic-version";
/// The API version sent when neither the caller nor the operator names one.
const VERSION: &str = "2023-06-01";
/// Lists have a date of creation, and names of a gateway have none that means anything.
const CREATED_AT: &str = "1970-01-01T00:00:00Z";

/// The vendor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anthropic;

impl Dialect {
    /// `POST /v1/messages`.
    pub const ANTHROPIC: Self = Self::new(&Anthropic, Operation::Chat);
    /// `POST /v1/messages/count_tokens`.
    pub const ANTHROPIC_COUNT_TOKENS: Self = Self::new(&Anthropic, Operation::CountTokens);
    /// `GET /v1/models` by a caller that speaks Anthropic's protocol.
    pub const ANTHROPIC_MODELS: Self = Self::new(&Anthropic, Operation::Models);
}

impl Vendor for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Anthropic
    }

    fn telemetry_name(&self) -> &'static str {
        "anthropic"
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Chat, Operation::CountTokens]
    }

    fn chat_name(&self) -> &'static str {
        "messages"
    }

    fn route<'a>(&self, path: &'a str) -> Option<(Operation, Option<Cow<'a, str>>)> {
        let operation = match path {
            "/v1/messages" => Operation::Chat,
            "/v1/messages/count_tokens" => Operation::CountTokens,
            _ => return None,
        };
        Some((operation, None))
    }

    fn is_caller(&self, headers: &HeaderMap, _query: Option<&str>) -> bool {
        headers.contains_key(VERSION_HEADER)
    }

    fn resembles(&self, path: &str) -> bool {
        path.contains("/v1/messages")
    }

    fn endpoint(&self, base: &str, operation: Operation, _model: &str) -> String {
        let operation = match operation {
            Operation::CountTokens => "messages/count_tokens",
            Operation::Models => "models",
            Operation::Chat
            | Operation::ChatStream
            | Operation::Completions
            | Operation::Embeddings
            | Operation::EmbeddingsBatch
            | Operation::Other(_) => "messages",
        };
        path::below(base, "v1", operation)
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    fn owns_header(&self, name: &str) -> bool {
        matches!(
            name,
            "authorization"
                | "x-api-key"
                | "anthropic-organization-id"
                | "anthropic-workspace-id"
                | "x-organization-uuid"
        )
    }

    fn passes_header(&self, name: &str) -> bool {
        ["anthropic-", "x-claude-code-"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || matches!(name, "x-app" | "x-client-request-id")
    }

    fn passes_parameter(&self, name: &str) -> bool {
        name == "beta"
    }

    fn required_header(&self) -> Option<(&'static str, &'static str)> {
        Some((VERSION_HEADER, VERSION))
    }

    fn probe(&self, model: &str) -> (Operation, Value) {
        (Operation::Chat, super::chat_probe(model))
    }

    fn end(&self) -> End {
        End::Frame
    }

    fn frame(&self, _operation: Operation, _event: Option<&[u8]>, data: &[u8]) -> FrameReading {
        frame(data)
    }

    /// Events carry their kind: only pieces of text are plain.
    fn is_plain(&self, raw: &[u8]) -> bool {
        { lone_data(raw).and_then(kind_first) }.is_some_and(|kind| kind == b"content_block_delta")
    }

    fn plain_run(&self, raw: &[u8]) -> usize {
        run_of(without(raw, &[]), |frame| self.is_plain(frame))
    }

    fn answer(&self, operation: Operation, document: &Fields<'_>) -> Option<AnswerReading> {
        match operation {
            Operation::CountTokens => {
                parsed::<f64>(document.get("input_tokens")).map(|_| AnswerReading::Good)
            }
            // An account without any model still gets a well-formed list.
            Operation::Models => {
                parsed::<Vec<&RawValue>>(document.get("data")).map(|_| AnswerReading::Good)
            }
            Operation::Other(_) => Some(AnswerReading::Good),
            Operation::Chat
            | Operation::ChatStream
            | Operation::Completions
            | Operation::Embeddings
            | Operation::EmbeddingsBatch => {
                message(document.get("content"), document.get("stop_reason"))
            }
        }
    }

    fn usage(&self) -> &'static UsageNames {
        &UsageNames {
            scopes: &["message", "delta"],
            model: "model",
            usage: "usage",
            tokens: None,
            // What came from the cache, or went there, is counted apart.
            input: &[
                "input_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
            ],
            output: &["output_tokens"],
        }
    }

    fn says_model_missing(&self, status: u16, text: &str) -> bool {
        status == 404 && text.starts_with("model:")
    }

    fn known_message(&self, status: u16, text: &str) -> Option<ErrorMeaning> {
        if status == 400 && text.starts_with("your credit balance is too low") {
            return Some(ErrorMeaning::Billing);
        }
        let is_context_length = text.starts_with("prompt is too long")
            || text.starts_with("input is too long for requested model")
            || text.starts_with("input length and `max_tokens` exceed context limit");
        is_context_length.then_some(ErrorMeaning::ContextLength)
    }

    fn status_of(&self, code: &str) -> Option<u16> {
        Some(match code {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "billing_error" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" => 429,
            "api_error" => 500,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => return None,
        })
    }

    fn error_document(&self, kind: &ErrorKind, request_id: &str) -> Value {
        json!({
            "type": "error",
            "error": {"type": type_of(kind), "message": kind.message()},
            "request_id": request_id,
        })
    }

    fn error_event(&self, kind: &ErrorKind, request_id: &str) -> String {
        format!(
            "event: error\ndata: {}\n\n",
            self.error_document(kind, request_id)
        )
    }

    fn request_id_header(&self) -> Option<&'static str> {
        Some("request-id")
    }

    fn translator(&self) -> Option<&'static dyn Translator> {
        Some(&translation::AnthropicTranslator)
    }

    fn model_entry(&self, name: &str) -> Value {
        json!({
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": CREATED_AT,
        })
    }

    fn model_list(&self, entries: Vec<Value>) -> Value {
        let id = |entry: Option<&Value>| entry.and_then(|entry| entry.get("id")).cloned();
        json!({
            "has_more": false,
            "first_id": id(entries.first()),
            "last_id": id(entries.last()),
            "data": entries,
        })
    }
}

fn type_of(kind: &ErrorKind) -> &'static str {
    match kind.status().as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn frame(data: &[u8]) -> FrameReading {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        delta: Option<Delta<'a>>,
        #[serde(borrow)]
        content_block: Option<Block<'a>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow)]
        stop_reason: Option<Cow<'a, str>>,
    }
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        thinking: Option<&'a RawValue>,
    }

    let Ok(parsed) = serde_json::from_slice::<Event<'_>>(data) else {
        return FrameReading::Failed;
    };
    if filled(parsed.error) {
        return FrameReading::Failed;
    }
    match parsed.kind.as_ref() {
        "ping" | "keepalive" => FrameReading::Ping,
        "error" => FrameReading::Failed,
        "content_block_delta" => FrameReading::Content,
        // Text and thinking begin empty; a tool call begins with its name, which is content.
        "content_block_start" => match parsed.content_block {
            Some(block) if matches!(block.kind.as_ref(), "text" | "thinking") => {
                if filled(block.text) || filled(block.thinking) {
                    FrameReading::Content
                } else {
                    FrameReading::Lifecycle
                }
            }
            Some(_) => FrameReading::Content,
            None => FrameReading::Lifecycle,
        },
        "message_delta" => match parsed.delta.and_then(|delta| delta.stop_reason) {
            Some(reason) => FrameReading::Finish {
                natural: matches!(reason.as_ref(), "end_turn" | "stop_sequence"),
                content: false,
            },
            None => FrameReading::Lifecycle,
        },
        "message_stop" => FrameReading::Terminal { content: false },
        _ => FrameReading::Lifecycle,
    }
}

fn message(content: Option<&RawValue>, stop_reason: Option<&RawValue>) -> Option<AnswerReading> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }
    let blocks = parsed::<Vec<Block<'_>>>(content)?;
    let says = blocks
        .iter()
        .any(|block| block.kind != "text" || filled(block.text));
    let reason = parsed::<Cow<'_, str>>(stop_reason);
    let natural = matches!(reason.as_deref(), None | Some("end_turn" | "stop_sequence"));
    Some(AnswerReading::good_if(says || !natural))
}
