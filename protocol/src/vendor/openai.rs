//! OpenAI's chat completions, completions, embeddings and smaller endpoints, and the many services that speak the same.

mod glance;
mod plain;
pub(super) mod translation;

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
use crate::translation::Translator;
use crate::translation::embeddings::Embedder;

/// What is passed through.
const OTHERS: &[OtherEndpoint] = &[
    OtherEndpoint::document("moderations"),
    OtherEndpoint::document("images/generations"),
    OtherEndpoint::document("audio/speech"),
    // Not OpenAI's own, but of many services that speak its protocol.
    OtherEndpoint::document("rerank"),
    OtherEndpoint::collection("files", "files"),
    OtherEndpoint::collection("uploads", "uploads"),
    OtherEndpoint::collection("batches", "batches"),
    OtherEndpoint::collection("vector_stores", "vector_stores"),
];

/// The vendor.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenAi;

impl Dialect {
    /// `POST /v1/chat/completions`.
    pub const OPENAI_CHAT: Self = Self::new(&OpenAi, Operation::Chat);
    /// `POST /v1/completions`.
    pub const OPENAI_COMPLETIONS: Self = Self::new(&OpenAi, Operation::Completions);
    /// `POST /v1/embeddings`.
    pub const OPENAI_EMBEDDINGS: Self = Self::new(&OpenAi, Operation::Embeddings);
    /// `GET /v1/models`.
    pub const OPENAI_MODELS: Self = Self::new(&OpenAi, Operation::Models);
}

impl Vendor for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn protocol(&self) -> Protocol {
        Protocol::Openai
    }

    fn telemetry_name(&self) -> &'static str {
        "openai"
    }

    fn operations(&self) -> &'static [Operation] {
        &[
            Operation::Chat,
            Operation::Completions,
            Operation::Embeddings,
        ]
    }

    fn others(&self) -> &'static [OtherEndpoint] {
        OTHERS
    }

    fn route<'a>(&self, path: &'a str) -> Option<(Operation, Option<Cow<'a, str>>)> {
        let operation = match path {
            "/v1/chat/completions" => Operation::Chat,
            "/v1/completions" => Operation::Completions,
            "/v1/embeddings" => Operation::Embeddings,
            "/v1/models" => Operation::Models,
            _ => {
                if let Some(operation) = super::other(OTHERS, "v1", path) {
                    return Some((operation, None));
                }
                // A colon may be part of a name.
                let name = path.strip_prefix("/v1/models/")?;
                return (!name.is_empty()).then(|| (Operation::Models, Some(path::decode(name))));
            }
        };
        Some((operation, None))
    }

    fn endpoint(&self, base: &str, operation: Operation, _model: &str) -> String {
        let operation = match operation {
            Operation::Completions => "completions",
            Operation::Embeddings | Operation::EmbeddingsBatch => "embeddings",
            Operation::Models => "models",
            Operation::Other(place) => super::other_path(OTHERS, place),
            Operation::Chat | Operation::ChatStream | Operation::CountTokens => "chat/completions",
        };
        path::below_any_version(base, "v1", operation)
    }

    fn key_header(&self) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn owns_header(&self, name: &str) -> bool {
        owns_header(name)
    }

    fn passes_header(&self, name: &str) -> bool {
        passes_header(name)
    }

    fn passes_parameter(&self, name: &str) -> bool {
        passes_parameter(name)
    }

    fn probe(&self, model: &str) -> (Operation, Value) {
        (Operation::Chat, super::chat_probe(model))
    }

    fn end(&self) -> End {
        End::Done
    }

    fn frame(&self, operation: Operation, _event: Option<&[u8]>, data: &[u8]) -> FrameReading {
        glance::chunk(operation, data).unwrap_or_else(|| read_chunk(operation, data))
    }

    fn is_plain(&self, raw: &[u8]) -> bool {
        plain::is_plain(raw)
    }

    fn plain_run(&self, raw: &[u8]) -> usize {
        plain::run(raw)
    }

    fn is_definitely_good(&self, operation: Operation, body: &[u8]) -> bool {
        matches!(operation, Operation::Chat | Operation::Completions)
            && glance::choices_say(body) == Some(true)
    }

    fn answer(&self, operation: Operation, document: &Fields<'_>) -> Option<AnswerReading> {
        match operation {
            Operation::Embeddings | Operation::EmbeddingsBatch => list(document.get("data")),
            // An account without any model still gets a well-formed list.
            Operation::Models => {
                parsed::<Vec<&RawValue>>(document.get("data")).map(|_| AnswerReading::Good)
            }
            Operation::Other(_) => Some(AnswerReading::Good),
            Operation::Chat
            | Operation::ChatStream
            | Operation::Completions
            | Operation::CountTokens => {
                let choices_member = document.get("choices");
                if has_failed(choices_member) {
                    return Some(AnswerReading::Failed);
                }
                choices(choices_member)
            }
        }
    }

    fn usage(&self) -> &'static UsageNames {
        &UsageNames {
            scopes: &[],
            model: "model",
            usage: "usage",
            tokens: None,
            input: &["prompt_tokens"],
            output: &["completion_tokens"],
        }
    }

    fn says_model_missing(&self, status: u16, text: &str) -> bool {
        says_model_missing(status, text)
    }

    fn known_message(&self, _status: u16, text: &str) -> Option<ErrorMeaning> {
        known_message(text)
    }

    fn status_of(&self, code: &str) -> Option<u16> {
        Some(match code {
            "invalid_request_error" | "context_length_exceeded" | "exceed_context_size_error" => {
                400
            }
            "authentication_error" | "invalid_api_key" => 401,
            "permission_error" => 403,
            "not_found_error" | "model_not_found" => 404,
            "rate_limit_error"
            | "rate_limit_exceeded"
            | "insufficient_quota"
            | "billing_hard_limit_reached"
            | "billing_not_active" => 429,
            "server_error" => 500,
            _ => return None,
        })
    }

    fn error_document(&self, kind: &ErrorKind, _request_id: &str) -> Value {
        error_document(kind)
    }

    fn kept_ids(&self) -> &'static [&'static str] {
        &[
            "resp_", "conv_", "file-", "batch_", "vs_", "vsfb_", "upload_", "part_",
        ]
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

/// OpenAI's keys, those of Azure, and the account a key acts for.
pub(super) fn owns_header(name: &str) -> bool {
    matches!(
        name,
        "authorization"
            | "api-key"
            | "chatgpt-account-id"
            | "openai-organization"
            | "openai-project"
    )
}

/// What OpenAI's and Azure's packages and Codex send, and how programs name themselves to the
/// services that list them.
pub(super) fn passes_header(name: &str) -> bool {
    ["openai-", "x-openai-", "x-codex-"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || matches!(
            name,
            "x-client-request-id"
                | "x-ms-client-request-id"
                | "session_id"
                | "session-id"
                | "thread-id"
                | "conversation_id"
                | "originator"
                | "version"
                | "http-referer"
                | "x-title"
        )
}

/// Azure's version of the API.
pub(super) fn passes_parameter(name: &str) -> bool {
    name == "api-version"
}

pub(super) fn error_document(kind: &ErrorKind) -> Value {
    json!({
        "error": {
            "message": kind.message(),
            "type": type_of(kind),
            "param": kind.field(),
            "code": kind.code(),
        },
    })
}

fn type_of(kind: &ErrorKind) -> &'static str {
    match kind.status().as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// The sentences with which OpenAI and self-hosted servers say that the input does not fit.
/// How servers that speak OpenAI's protocol say that a model does not exist.
pub(super) fn says_model_missing(status: u16, text: &str) -> bool {
    let between = |start: &str, inner: &str| text.starts_with(start) && text.contains(inner);
    between("the model `", "does not exist")
        || between("the model '", "does not exist")
        || between("the model `", "has been deprecated")
        || between("the model `", "has been decommissioned")
        || between("model '", "not found")
        || between("model \"", "not found")
        || text.starts_with("invalid model:")
        || text.starts_with("the api deployment for this resource does not exist")
        || (status == 404 && text.starts_with("no endpoints found for "))
}

pub(super) fn known_message(text: &str) -> Option<ErrorMeaning> {
    let between = |start: &str, inner: &str| text.starts_with(start) && text.contains(inner);
    let is_context_length = text.starts_with("this model's maximum context length is")
        || text.starts_with("this model's maximum prompt length is")
        || text.starts_with("this endpoint's maximum context length is")
        || between("input of ", "longer than the model's context length")
        || between("the input (", "longer than the model's context length")
        || between("prompt contains ", "too large for model")
        || text.starts_with("your input exceeds the context window of this model")
        || text.starts_with("your request exceeded model token limit")
        || text.starts_with("invalid request: your request exceeded model token limit")
        || text.starts_with("the request exceeds the available context size")
        || between("request (", "exceeds the available context size")
        || between("input validation error: `inputs` tokens", "must be <=")
        || text.starts_with("prompt is too long")
        || text.starts_with("the prompt is too long");
    is_context_length.then_some(ErrorMeaning::ContextLength)
}

/// Judges a chunk by reading its parts.
fn read_chunk(operation: Operation, data: &[u8]) -> FrameReading {
    #[derive(Deserialize)]
    struct Chunk<'a> {
        #[serde(borrow)]
        choices: Option<Vec<Choice<'a>>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        delta: Option<Fields<'a>>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }

    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
        return FrameReading::Failed;
    };
    if filled(chunk.error) {
        return FrameReading::Failed;
    }
    // Azure's prompt filter results and a last usage report come with no choice or without any.
    let choices = chunk.choices.unwrap_or_default();
    if choices
        .iter()
        .any(|choice| choice.finish_reason.as_deref() == Some("error"))
    {
        return FrameReading::Failed;
    }
    let content = choices.iter().any(|choice| match operation {
        Operation::Completions => filled(choice.text),
        // Any field of a delta that holds something counts, but for the role: text, tool calls,
        // refusals, audio, and the names other vendors give to reasoning.
        _ => choice
            .delta
            .iter()
            .flat_map(Fields::iter)
            .any(|(key, value)| key != "role" && filled(Some(value))),
    });
    let reason = choices
        .iter()
        .find_map(|choice| choice.finish_reason.as_deref());
    match reason {
        Some(reason) => FrameReading::Finish {
            natural: reason == "stop",
            content,
        },
        None if content => FrameReading::Content,
        None => FrameReading::Lifecycle,
    }
}

/// True when the reason for an end is a failure of the provider.
fn has_failed(choices: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }
    // Nearly every answer is spared the reading.
    let suspect = choices.filter(|choices| plain::names_error(choices.get().as_bytes()));
    let choices = parsed::<Vec<Choice<'_>>>(suspect).unwrap_or_default();
    { choices.iter() }.any(|choice| choice.finish_reason.as_deref() == Some("error"))
}

fn list(value: Option<&RawValue>) -> Option<AnswerReading> {
    let items = parsed::<Vec<&RawValue>>(value)?;
    Some(if items.is_empty() {
        AnswerReading::Malformed
    } else {
        AnswerReading::Good
    })
}

fn choices(value: Option<&RawValue>) -> Option<AnswerReading> {
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        message: Option<Fields<'a>>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }
    let choices = parsed::<Vec<Choice<'_>>>(value)?;
    if choices.is_empty() {
        return Some(AnswerReading::Malformed);
    }
    Some(AnswerReading::good_if(choices.iter().any(|choice| {
        let message = choice.message.iter().flat_map(Fields::iter);
        filled(choice.text)
            || { message }.any(|(key, value)| key != "role" && filled(Some(value)))
            || choice
                .finish_reason
                .as_deref()
                .is_some_and(|reason| reason != "stop")
    })))
}
