//! Reads Gemini's answers: frames and whole documents.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::fields::Fields;
use crate::json::filled::{filled, parsed};
use crate::reading::{AnswerReading, FrameReading};

/// What one frame is.
pub(super) fn frame(data: &[u8]) -> FrameReading {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Chunk<'a> {
        #[serde(borrow)]
        candidates: Option<Vec<Candidate<'a>>>,
        #[serde(borrow)]
        prompt_feedback: Option<Feedback<'a>>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Candidate<'a> {
        #[serde(borrow)]
        content: Option<Content<'a>>,
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        parts: Option<Vec<Fields<'a>>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Feedback<'a> {
        #[serde(borrow)]
        block_reason: Option<&'a RawValue>,
    }

    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
        return FrameReading::Failed;
    };
    if filled(chunk.error) {
        return FrameReading::Failed;
    }
    if filled(
        chunk
            .prompt_feedback
            .and_then(|feedback| feedback.block_reason),
    ) {
        return FrameReading::Finish {
            natural: false,
            content: false,
        };
    }
    let candidates = chunk.candidates.unwrap_or_default();
    let content = candidates
        .iter()
        .filter_map(|candidate| candidate.content.as_ref()?.parts.as_ref())
        .flatten()
        .any(|part| {
            part.iter()
                .any(|(key, value)| key != "thought" && filled(Some(value)))
        });
    let reason = candidates
        .iter()
        .find_map(|candidate| candidate.finish_reason.as_deref());
    match reason {
        Some(reason) => FrameReading::Finish {
            natural: reason == "STOP",
            content,
        },
        None if content => FrameReading::Content,
        None => FrameReading::Lifecycle,
    }
}

/// What a whole answer is, by its candidates and the feedback to its prompt.
pub(super) fn whole(
    candidates: Option<&RawValue>,
    feedback: Option<&RawValue>,
) -> Option<AnswerReading> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Candidate<'a> {
        #[serde(borrow)]
        content: Option<Content<'a>>,
        #[serde(borrow)]
        finish_reason: Option<Cow<'a, str>>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        parts: Option<Vec<Fields<'a>>>,
    }
    let blocked =
        parsed::<Fields<'_>>(feedback).is_some_and(|feedback| filled(feedback.get("blockReason")));
    if blocked {
        return Some(AnswerReading::Good);
    }
    let candidates = parsed::<Vec<Candidate<'_>>>(candidates)?;
    if candidates.is_empty() {
        return Some(AnswerReading::Malformed);
    }
    Some(AnswerReading::good_if(candidates.iter().any(|candidate| {
        let parts = candidate
            .content
            .iter()
            .filter_map(|content| content.parts.as_ref())
            .flatten();
        { parts }.any(|part| part.iter().any(|(_, value)| filled(Some(value))))
            || candidate
                .finish_reason
                .as_deref()
                .is_some_and(|reason| reason != "STOP")
    })))
}
