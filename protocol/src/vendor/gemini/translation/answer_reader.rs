//! Reads whole answers of Gemini's lanes, and the chunks of their streams, which have the same form.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::finish;
use super::usage::Counts;
use crate::dialect::Protocol;
use crate::ir::{Answer, Arguments, Finish, Part, PartBody, Proof, Reasoning, ToolCall};
use crate::json::text::Text;

/// A document of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<Feedback<'a>>,
    pub(super) usage_metadata: Option<Counts>,
    #[serde(borrow)]
    pub(super) model_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) response_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(borrow)]
    pub(super) content: Option<CandidateContent<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CandidateContent<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<Vec<CandidatePart<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Option<Text<'a>>,
}

/// A part. What the vendor's own tools did, and pictures, are none that callers have a place for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CandidatePart<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    pub(super) thought: Option<bool>,
    #[serde(borrow)]
    pub(super) thought_signature: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) function_call: Option<Call<'a>>,
}

/// A call.
#[derive(Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
}

impl<'a> Call<'a> {
    pub(super) fn arguments(&self) -> &'a str {
        self.args.map_or(Arguments::NONE, RawValue::get)
    }
}

impl<'a> Chunk<'a> {
    /// Why the vendor would not even read the prompt.
    pub(super) fn block_reason(&mut self) -> Option<Cow<'a, str>> {
        { self.prompt_feedback.take() }.and_then(|feedback| feedback.block_reason.map(|it| it.0))
    }

    /// The first candidate: more than one is never asked for.
    pub(super) fn candidate(&mut self) -> Option<Candidate<'a>> {
        self.candidates.take()?.into_iter().next()
    }
}

/// The proof in a signature.
pub(super) fn proof(signature: Option<Text<'_>>) -> Option<Proof<'_>> {
    signature
        .filter(|text| !text.0.is_empty())
        .map(|text| Proof {
            protocol: Protocol::Gemini,
            text: text.0,
            is_redacted: false,
        })
}

/// Reads an answer. `None` when it is none.
pub(super) fn read(body: &[u8]) -> Option<Answer<'_>> {
    let mut chunk: Chunk<'_> = serde_json::from_slice(body).ok()?;
    let blocked = chunk.block_reason().map(|_| Finish::Filter);
    let candidate = chunk.candidate();
    if blocked.is_none() && candidate.is_none() {
        return None;
    }
    let (content, reason) = { candidate }.map_or((None, None), |candidate| {
        (candidate.content, candidate.finish_reason)
    });
    let parts: Vec<Part<'_>> = { content.and_then(|content| content.parts) }
        .unwrap_or_default()
        .into_iter()
        .filter_map(body_of)
        .map(Part::unplaced)
        .collect();
    let has_calls = { parts.iter() }.any(|part| matches!(part.body, PartBody::ToolCall(_)));
    let reason = reason.map_or(Cow::Borrowed("STOP"), |reason| reason.0);
    Some(Answer {
        id: chunk.response_id.unwrap_or_default().0,
        model: chunk.model_version.unwrap_or_default().0,
        parts,
        finish: blocked.unwrap_or_else(|| finish::read(reason, has_calls)),
        usage: chunk.usage_metadata.map(Counts::usage),
    })
}

fn body_of(part: CandidatePart<'_>) -> Option<PartBody<'_>> {
    if let Some(call) = part.function_call {
        let arguments = Arguments(Cow::Borrowed(call.arguments()));
        return Some(PartBody::ToolCall(ToolCall {
            id: call.id.unwrap_or_default().0,
            name: call.name.0,
            arguments,
            proof: proof(part.thought_signature),
            is_custom: false,
        }));
    }
    let text = part.text?.0;
    if part.thought != Some(true) {
        return (!text.is_empty()).then_some(PartBody::Text(text));
    }
    Some(PartBody::Reasoning(Reasoning {
        text,
        proof: proof(part.thought_signature),
    }))
}
