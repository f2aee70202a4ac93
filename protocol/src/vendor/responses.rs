//! OpenAI's Responses.

mod translation;

use std::borrow::Cow;

use lanekeeper_model::gateway::ErrorMeaning;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai;
use crate::dialect::{Dialect, Operation, OtherEndpoint, Protocol, Vendor};
use crate::error_kind::ErrorKind;
use crate::json::fields::Fields;
use crate::json::filled::{filled, parsed};
use crate::path;
use crate::reading::{AnswerReading, End, FrameReading, UsageNames};
use crate::sse::plain::{kind_first, lone_data, run_of, without};
use crate::translation::Translator;

/// The least that it takes as a limit of tokens.
const PROBE_TOKENS: u32 = 16;

/// What counts tokens.
const INPUT_TOKENS: &str = "responses/input_tokens";
/// What is passed through.
const OTHERS: &[OtherEndpoint] = &[
    OtherEndpoint::document("responses/compact"),
    OtherEndpoint::document(INPUT_TOKENS),
    OtherEndpoint::collection("responses", "stored_responses"),
    OtherEndpoint::collection("conversations", "conversations"),
];

/// The vendor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Responses;

impl Dialect {
    /// `POST /v1/responses`.
    pub const RESPONSES: Self = Self::new(&Responses, Operation::Chat);
}

impl Vendor for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Responses
    }

    fn telemetry_name(&self) -> &'static str {
        "openai"
    }

    fn operations(&self) -> &'static [Operation] {
        &[Operation::Chat]
    }

    /// Callers of its own get the count as it is, unread.
    fn count_operation(&self) -> Operation {
        let place = OTHERS.iter().position(|other| other.path == INPUT_TOKENS);
        { place.and_then(|place| u8::try_from(place).ok()) }
            .map_or(Operation::CountTokens, Operation::Other)
    }

    fn others(&self) -> &'static [OtherEndpoint] {
        OTHERS
    }

    fn chat_name(&self) -> &'static str {
        "responses"
    }

    fn route<'a>(&self, path: &'a str) -> Option<(Operation, Option<Cow<'a, str>>)> {
        let operation = if path == "/v1/responses" {
            Operation::Chat
        } else {
            super::other(OTHERS, "v1", path)?
        };
        Some((operation, None))
    }

    fn endpoint(&self, base: &str, operation: Operation, _model: &str) -> String {
        let operation = match operation {
            Operation::Other(place) => super::other_path(OTHERS, place),
            _ => "responses",
        };
        path::below_any_version(base, "v1", operation)
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn owns_header(&self, name: &str) -> bool {
        openai::owns_header(name)
    }

    fn passes_header(&self, name: &str) -> bool {
        openai::passes_header(name)
    }

    fn passes_parameter(&self, name: &str) -> bool {
        openai::passes_parameter(name)
    }

    fn probe(&self, model: &str) -> (Operation, Value) {
        let body = json!({
            "model": model,
            "max_output_tokens": PROBE_TOKENS,
            "input": super::PROBE_PROMPT,
        });
        (Operation::Chat, body)
    }

    fn end(&self) -> End {
        End::Frame
    }

    fn frame(&self, _operation: Operation, event: Option<&[u8]>, data: &[u8]) -> FrameReading {
        frame(event, data)
    }

    /// Events carry their kind: only pieces of text are plain.
    fn is_plain(&self, raw: &[u8]) -> bool {
        { lone_data(raw).and_then(kind_first) }.is_some_and(|kind| kind.ends_with(b".delta"))
    }

    fn plain_run(&self, raw: &[u8]) -> usize {
        run_of(without(raw, &[]), |frame| self.is_plain(frame))
    }

    fn answer(&self, operation: Operation, document: &Fields<'_>) -> Option<AnswerReading> {
        if let Operation::Other(_) = operation {
            return Some(AnswerReading::Good);
        }
        let output = document.get("output");
        let is_incomplete =
            { document.get("status") }.is_some_and(|status| status.get() == "\"incomplete\"");
        parsed::<Vec<&RawValue>>(output)
            .map(|_| AnswerReading::good_if(has_output(output) || is_incomplete))
    }

    fn usage(&self) -> &'static UsageNames {
        &UsageNames {
            scopes: &["response"],
            model: "model",
            usage: "usage",
            tokens: None,
            input: &["input_tokens"],
            output: &["output_tokens"],
        }
    }

    fn says_model_missing(&self, status: u16, text: &str) -> bool {
        openai::says_model_missing(status, text)
    }

    fn known_message(&self, _status: u16, text: &str) -> Option<ErrorMeaning> {
        openai::known_message(text)
    }

    fn status_of(&self, code: &str) -> Option<u16> {
        Some(match code {
            "invalid_prompt" => 400,
            "rate_limit_exceeded" => 429,
            "server_error" => 500,
            "server_is_overloaded" => 529,
            _ => return None,
        })
    }

    fn error_document(&self, kind: &ErrorKind, _request_id: &str) -> Value {
        openai::error_document(kind)
    }

    fn error_event(&self, kind: &ErrorKind, request_id: &str) -> String {
        let data = json!({
            "type": "response.failed",
            "sequence_number": 0,
            "response": {
                "id": request_id,
                "object": "response",
                "status": "failed",
                "error": {"code": code_of(kind), "message": kind.message()},
                "output": [],
            },
        });
        format!("event: response.failed\ndata: {data}\n\n")
    }

    fn keeps_chats(&self) -> bool {
        true
    }

    fn kept_ids(&self) -> &'static [&'static str] {
        &[
            "resp_", "conv_", "file-", "batch_", "vs_", "vsfb_", "upload_", "part_",
        ]
    }

    fn translator(&self) -> Option<&'static dyn Translator> {
        Some(&Self)
    }

    fn model_entry(&self, name: &str) -> Value {
        super::model_entry(name)
    }

    fn model_list(&self, entries: Vec<Value>) -> Value {
        super::model_list(entries)
    }
}

/// The Responses stream knows only a few codes.
fn code_of(kind: &ErrorKind) -> &'static str {
    match kind.status().as_u16() {
        429 => "rate_limit_exceeded",
        400..=499 => "invalid_prompt",
        _ => "server_error",
    }
}

fn frame(event: Option<&[u8]>, data: &[u8]) -> FrameReading {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        response: Option<Response<'a>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        output: Option<&'a RawValue>,
    }

    let Ok(parsed) = serde_json::from_slice::<Event<'_>>(data) else {
        return FrameReading::Failed;
    };
    if filled(parsed.error) {
        return FrameReading::Failed;
    }
    let named = event.map(String::from_utf8_lossy);
    match parsed.kind.or(named).as_deref() {
        Some("error" | "response.failed" | "response.error") => FrameReading::Failed,
        Some("response.incomplete") => FrameReading::Terminal { content: true },
        Some("response.completed" | "response.cancelled") => FrameReading::Terminal {
            content: has_output(parsed.response.and_then(|response| response.output)),
        },
        Some(kind) if kind.ends_with(".delta") => FrameReading::Content,
        Some("ping" | "keepalive") => FrameReading::Ping,
        Some(_) => FrameReading::Lifecycle,
        None => FrameReading::Failed,
    }
}

/// True when the `output` of a document holds anything: a message with text or a refusal,
/// a tool call, an image. Reasoning alone does not.
fn has_output(output: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        content: Option<Vec<Fields<'a>>>,
    }
    let items = parsed::<Vec<Item<'_>>>(output).unwrap_or_default();
    items.iter().any(|item| match item.kind.as_deref() {
        Some("reasoning") => false,
        Some("message") => item
            .content
            .iter()
            .flatten()
            .any(|part| ["text", "refusal"].iter().any(|key| filled(part.get(key)))),
        _ => true,
    })
}
