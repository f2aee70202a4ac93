//! Writes whole answers for Gemini's callers, and the chunks of their streams.

use std::borrow::Cow;

use serde::Serialize;

use super::finish;
use super::parts::{Content, FunctionCall, WrittenPart, sign_foreign_calls};
use super::usage::Counts;
use crate::ir::{Answer, Arguments, Part, PartBody};
use crate::translation::CallerFacts;

/// A document of an answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenChunk<'a> {
    pub(super) candidates: [WrittenCandidate<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage_metadata: Option<Counts>,
    pub(super) model_version: &'a str,
    pub(super) response_id: &'a str,
}

/// The one candidate.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenCandidate<'a> {
    pub(super) content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_reason: Option<&'static str>,
    pub(super) index: usize,
}

impl<'a> WrittenCandidate<'a> {
    /// The candidate of `parts`. Clients look at the first part without asking whether there is one.
    pub(super) fn new(
        mut parts: Vec<WrittenPart<'a>>,
        finish_reason: Option<&'static str>,
    ) -> Self {
        if parts.is_empty() {
            parts.push(WrittenPart::text(""));
        }
        Self {
            content: Content {
                role: Some("model"),
                parts,
            },
            finish_reason,
            index: 0,
        }
    }
}

/// Writes an answer.
pub(super) fn write(answer: &Answer<'_>, caller: &CallerFacts) -> Vec<u8> {
    let mut parts: Vec<_> = answer.parts.iter().filter_map(part).collect();
    sign_foreign_calls(&mut parts);
    let chunk = WrittenChunk {
        candidates: [WrittenCandidate::new(
            parts,
            Some(finish::write(&answer.finish)),
        )],
        usage_metadata: answer.usage.map(Counts::from),
        model_version: if caller.model.is_empty() {
            &answer.model
        } else {
            &caller.model
        },
        response_id: &answer.id,
    };
    serde_json::to_vec(&chunk).unwrap_or_default()
}

fn part<'a>(part: &'a Part<'_>) -> Option<WrittenPart<'a>> {
    Some(match &part.body {
        PartBody::Text(text) | PartBody::Refusal(text) if text.is_empty() => return None,
        PartBody::Text(text) | PartBody::Refusal(text) => WrittenPart::text(text.as_ref()),
        PartBody::Reasoning(reasoning) => {
            WrittenPart::thought(reasoning.text.as_ref(), reasoning.proof.as_ref())
        }
        PartBody::ToolCall(call) => called(&call.id, &call.name, &call.arguments),
        // No model of a chat answers with these.
        PartBody::Image(_)
        | PartBody::Document(_)
        | PartBody::Audio(_)
        | PartBody::ToolResult(_)
        | PartBody::Foreign { .. } => return None,
    })
}

/// The part of a call.
pub(super) fn called<'a>(
    id: &'a str,
    name: &'a str,
    arguments: &'a Arguments<'_>,
) -> WrittenPart<'a> {
    WrittenPart {
        function_call: Some(FunctionCall {
            id: Some(Cow::Borrowed(id)),
            name: Cow::Borrowed(name),
            args: arguments.to_object().0,
        }),
        ..WrittenPart::default()
    }
}
