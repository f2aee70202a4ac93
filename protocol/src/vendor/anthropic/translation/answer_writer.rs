//! Writes whole answers for Anthropic's callers.

use std::borrow::Cow;

use serde::Serialize;

use super::blocks::Block;
use super::finish;
use super::usage::WrittenCounts;
use crate::ir::{Answer, Part, PartBody};
use crate::translation::CallerFacts;

#[derive(Serialize)]
pub(super) struct Message<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Block<'a>>,
    stop_reason: Option<&'a str>,
    stop_sequence: Option<&'a str>,
    usage: WrittenCounts,
}

impl<'a> Message<'a> {
    /// One without content.
    pub(super) fn new(id: &'a str, model: &'a str, usage: WrittenCounts) -> Self {
        Self {
            id: message_id(id),
            kind: "message",
            role: "assistant",
            model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage,
        }
    }
}

/// Ids of messages begin like this.
fn message_id(id: &str) -> Cow<'_, str> {
    if id.starts_with("msg_") {
        Cow::Borrowed(id)
    } else {
        Cow::Owned(format!("msg_{id}"))
    }
}

/// Writes an answer.
pub(super) fn write(answer: &Answer<'_>, caller: &CallerFacts) -> Vec<u8> {
    let usage = answer.usage.unwrap_or_default().into();
    let model = if caller.model.is_empty() {
        &answer.model
    } else {
        caller.model.as_str()
    };
    let has_calls = { answer.parts.iter() }.any(|part| matches!(part.body, PartBody::ToolCall(_)));
    let (stop_reason, stop_sequence) = finish::write(&answer.finish, has_calls);
    let message = Message {
        content: answer.parts.iter().filter_map(block).collect(),
        stop_reason: Some(stop_reason),
        stop_sequence,
        ..Message::new(&answer.id, model, usage)
    };
    serde_json::to_vec(&message).unwrap_or_default()
}

fn block<'a>(part: &'a Part<'_>) -> Option<Block<'a>> {
    Some(match &part.body {
        PartBody::Text(text) | PartBody::Refusal(text) if text.is_empty() => return None,
        PartBody::Text(text) | PartBody::Refusal(text) => Block::text(text.as_ref()),
        PartBody::Reasoning(reasoning)
            if reasoning.text.is_empty() && reasoning.proof.is_none() =>
        {
            return None;
        }
        PartBody::Reasoning(reasoning) => Block::thoughts(reasoning),
        PartBody::ToolCall(call) => Block::ToolUse {
            id: Cow::Borrowed(&call.id),
            name: Cow::Borrowed(&call.name),
            input: call.arguments.to_object().0,
            cache_control: None,
        },
        // No model of a chat answers with these.
        PartBody::Image(_)
        | PartBody::Document(_)
        | PartBody::Audio(_)
        | PartBody::ToolResult(_)
        | PartBody::Foreign { .. } => return None,
    })
}
