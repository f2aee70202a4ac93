//! Reads whole answers of Anthropic's lanes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::finish;
use super::usage::Counts;
use crate::dialect::Protocol;
use crate::ir::{Answer, Arguments, Finish, Part, PartBody, Proof, Reasoning, ToolCall};
use crate::json::filled::parsed;
use crate::json::text::Text;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    content: Vec<Block<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
    #[serde(borrow)]
    stop_sequence: Option<Text<'a>>,
    usage: Option<Counts>,
}

/// A block. Those of kinds that are none of ours may have anything under these names.
#[derive(Default, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

impl Block<'_> {
    /// The beginning of a block of text.
    pub(super) fn of_text() -> Self {
        Self {
            kind: Text("text".into()),
            ..Self::default()
        }
    }
}

/// The text in a member; empty when it is something else.
pub(super) fn text(value: Option<&RawValue>) -> Cow<'_, str> {
    parsed::<Text<'_>>(value).unwrap_or_default().0
}

/// Reads an answer. `None` when it is none.
pub(super) fn read(body: &[u8]) -> Option<Answer<'_>> {
    let message: Message<'_> = serde_json::from_slice(body).ok()?;
    let parts: Vec<Part<'_>> = { message.content.iter() }
        .filter_map(body_of)
        .map(Part::unplaced)
        .collect();
    let calls = |part: &Part<'_>| matches!(part.body, PartBody::ToolCall(_));
    let finish = match message.stop_reason {
        Some(reason) => finish::read(reason.0, message.stop_sequence.map(|sequence| sequence.0)),
        None if parts.iter().any(calls) => Finish::ToolCalls,
        None => Finish::Stop,
    };
    Some(Answer {
        id: message.id.unwrap_or_default().0,
        model: message.model.unwrap_or_default().0,
        parts,
        finish,
        usage: message.usage.map(Counts::usage),
    })
}

/// The part that a block is. What the vendor's own tools did is none.
fn body_of<'a>(block: &Block<'a>) -> Option<PartBody<'a>> {
    Some(match block.kind.0.as_ref() {
        "text" => PartBody::Text(text(block.text)),
        "thinking" => PartBody::Reasoning(Reasoning {
            text: text(block.thinking),
            proof: own_proof(text(block.signature), false),
        }),
        "redacted_thinking" => PartBody::Reasoning(Reasoning {
            text: Cow::Borrowed(""),
            proof: own_proof(text(block.data), true),
        }),
        "tool_use" => PartBody::ToolCall(ToolCall {
            id: text(block.id),
            name: text(block.name),
            arguments: Arguments(Cow::Borrowed(block.input.map_or("", RawValue::get))),
            proof: None,
            is_custom: false,
        }),
        _ => return None,
    })
}

/// The proof in a signature or in hidden thoughts.
pub(super) fn own_proof(text: Cow<'_, str>, is_redacted: bool) -> Option<Proof<'_>> {
    (!text.is_empty()).then_some(Proof {
        protocol: Protocol::Anthropic,
        text,
        is_redacted,
    })
}
