//! The vendors, a module each. A new one is one more module and its entry in the two tables here.

mod anthropic;
mod cohere;
mod gemini;
mod openai;
mod responses;

use serde_json::{Value, json};

use crate::dialect::{Operation, Protocol, Vendor};

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

/// The one of `operations` that is another endpoint at `path`, whose version is `version`.
fn other(operations: &[Operation], version: &str, path: &str) -> Option<Operation> {
    let wanted = path
        .strip_prefix('/')?
        .strip_prefix(version)?
        .strip_prefix('/')?;
    let mut operations = operations.iter().copied();
    operations.find(|operation| matches!(operation, Operation::Other(path) if *path == wanted))
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
