//! The vendors, a module each. A new one is one more module and its entry in the two tables here.

mod anthropic;
mod cohere;
mod gemini;
mod openai;
mod responses;

use serde_json::{Value, json};

use crate::dialect::{Operation, OtherEndpoint, Protocol, Vendor};

/// What a probe asks the model.
const PROBE_PROMPT: &str = "hi";
/// Tokens that a probe asks for.
const PROBE_TOKENS: u32 = 1;

/// Every vendor, in the order in which they are asked whose a request is: OpenAI comes last, because
/// its entries of models may have any name and its packages have no sign of their own.
pub(crate) const ALL: &[&dyn Vendor] = &[
    &anthropic::Anthropic,
    &gemini::Gemini,
    &cohere::Cohere,
    &responses::Responses,
    &openai::OpenAi,
];

/// The vendor whose protocol a provider speaks.
#[must_use]
pub const fn vendor(protocol: Protocol) -> &'static dyn Vendor {
    match protocol {
        Protocol::Openai => &openai::OpenAi,
        Protocol::Responses => &responses::Responses,
        Protocol::Anthropic => &anthropic::Anthropic,
        Protocol::Gemini => &gemini::Gemini,
        Protocol::Cohere => &cohere::Cohere,
    }
}

/// The one of `others` that is at `path`, or the collection that it is in. `version` is the version
/// in the path.
fn other(others: &[OtherEndpoint], version: &str, path: &str) -> Option<Operation> {
    let wanted = path
        .strip_prefix('/')?
        .strip_prefix(version)?
        .strip_prefix('/')?;
    let place = others.iter().position(|endpoint| {
        let tail = wanted.strip_prefix(endpoint.path);
        tail.is_some_and(|tail| tail.is_empty() || (endpoint.is_collection && is_tail(tail)))
    });
    u8::try_from(place?).ok().map(Operation::Other)
}

/// The path of the one of `others` at `place`.
fn other_path(others: &[OtherEndpoint], place: u8) -> &'static str {
    { others.get(usize::from(place)) }.map_or("", |endpoint| endpoint.path)
}

/// True for segments that nobody can take for another path: ids and plain words.
fn is_tail(tail: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte);
    let is_segment =
        |segment: &str| segment.bytes().all(is_plain) && segment.bytes().any(|byte| byte != b'.');
    { tail.strip_prefix('/') }.is_some_and(|rest| rest.split('/').all(is_segment))
}

/// The probe of the vendors whose chats have OpenAI's outline.
fn chat_probe(model: &str) -> Value {
    let messages = json!([{"role": "user", "content": PROBE_PROMPT}]);
    json!({"model": model, "max_tokens": PROBE_TOKENS, "messages": messages})
}

/// An entry of the list that OpenAI's packages read, and those of vendors without one of their own.
fn model_entry(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "lanekeeper"})
}

/// The list of such entries.
fn model_list(entries: Vec<Value>) -> Value {
    json!({"object": "list", "data": entries})
}
