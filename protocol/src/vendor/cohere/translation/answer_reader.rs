//! A lane's whole answers of Cohere's, read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::request_reader::own_thought;
use crate::ir::{Answer, Arguments, Finish, Part, PartBody, Reasoning, ToolCall, Usage};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::translation::document::text;
use crate::vendor::openai::translation::wording;

pub(super) fn read(body: &[u8]) -> Option<Answer<'_>> {
    let document: Fields<'_> = serde_json::from_slice(body).ok()?;
    let message: Fields<'_> = parsed(document.get("message"))?;
    let mut parts = Vec::new();
    let pieces: Vec<Fields<'_>> = parsed(message.get("content")).unwrap_or_default();
    for piece in &pieces {
        let member = |name| { piece.get(name).and_then(text) }.filter(|text| !text.is_empty());
        if let Some(text) = member("thinking") {
            parts.push(Part::unplaced(PartBody::Reasoning(Reasoning {
                text,
                proof: Some(own_thought()),
            })));
        }
        parts.extend(member("text").map(Part::text));
    }
    let plan = { message.get("tool_plan").and_then(text) }.filter(|plan| !plan.is_empty());
    parts.extend(plan.map(Part::text));
    let calls: Vec<Fields<'_>> = parsed(message.get("tool_calls")).unwrap_or_default();
    parts.extend({ calls.iter() }.filter_map(call).map(Part::unplaced));
    let reason = { document.get("finish_reason").and_then(text) }.unwrap_or_default();
    Some(Answer {
        id: { document.get("id").and_then(text) }.unwrap_or_default(),
        model: Cow::Borrowed(""),
        finish: wording::finish_of(finish(reason), &parts),
        parts,
        usage: document.get("usage").and_then(usage),
    })
}

fn call<'a>(call: &Fields<'a>) -> Option<PartBody<'a>> {
    let function: Fields<'_> = parsed(call.get("function"))?;
    let arguments = { function.get("arguments").and_then(text) };
    Some(PartBody::ToolCall(ToolCall {
        id: call.get("id").and_then(text).unwrap_or_default(),
        name: function.get("name").and_then(text)?,
        arguments: Arguments(arguments.unwrap_or(Cow::Borrowed(Arguments::NONE))),
        proof: None,
        is_custom: false,
    }))
}

/// Why the lane says that it ended. Failures never come here.
pub(super) fn finish(reason: Cow<'_, str>) -> Finish<'_> {
    match reason.as_ref() {
        "" | "COMPLETE" => Finish::Stop,
        "STOP_SEQUENCE" => Finish::StopSequence(None),
        "MAX_TOKENS" => Finish::Length,
        "TOOL_CALL" => Finish::ToolCalls,
        "ERROR_TOXIC" => Finish::Filter,
        _ => Finish::Other(reason),
    }
}

/// What a `usage` counts: `tokens` is what the model saw, `billed_units` what is paid for.
pub(super) fn usage(usage: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Counts {
        tokens: Option<Tokens>,
        billed_units: Option<Tokens>,
        cached_tokens: Option<f64>,
    }
    #[derive(Deserialize)]
    struct Tokens {
        input_tokens: Option<f64>,
        output_tokens: Option<f64>,
    }
    let counts: Counts = serde_json::from_str::<Option<Counts>>(usage.get()).ok()??;
    let tokens = counts.tokens.or(counts.billed_units)?;
    Some(wording::usage(
        whole(tokens.input_tokens),
        whole(tokens.output_tokens),
        (counts.cached_tokens.map(|count| whole(Some(count))), None),
        None,
    ))
}

/// Counts are written as floats.
fn whole(count: Option<f64>) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float to an integer keeps within its range"
    )]
    let whole = count.unwrap_or_default() as u64;
    whole
}
