//! A lane's whole chat answers, read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wording;
use crate::ir::{Answer, Arguments, Finish, Part, PartBody, Reasoning, ToolCall, Usage};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::translation::document::text;

pub(super) fn read(body: &[u8]) -> Option<Answer<'_>> {
    let document: Fields<'_> = serde_json::from_slice(body).ok()?;
    let choices: Vec<Fields<'_>> = parsed(document.get("choices"))?;
    let choice = choices.first()?;
    let member = |name| document.get(name).and_then(text).unwrap_or_default();
    let model = member("model");
    let mut parts = Vec::new();
    if let Some(message) = parsed::<Fields<'_>>(choice.get("message")) {
        read_message(&message, &model, &mut parts);
    }
    let reason = { choice.get("finish_reason") }.and_then(text);
    Some(Answer {
        id: member("id"),
        model,
        finish: wording::finish_of(finish(reason.unwrap_or_default()), &parts),
        parts,
        usage: document.get("usage").and_then(usage),
    })
}

fn read_message<'a>(message: &Fields<'a>, model: &str, parts: &mut Vec<Part<'a>>) {
    let member = |name| { message.get(name).and_then(text) }.filter(|text| !text.is_empty());
    let thought = member("reasoning_content").or_else(|| member("reasoning"));
    if let Some(text) = thought {
        parts.push(Part::unplaced(PartBody::Reasoning(Reasoning {
            text,
            proof: Some(wording::own_thought(model)),
        })));
    }
    if let Some(text) = member("content") {
        parts.push(Part::text(text));
    } else {
        // Some servers give a list of parts.
        let pieces: Vec<Fields<'_>> = parsed(message.get("content")).unwrap_or_default();
        let texts = pieces
            .iter()
            .filter_map(|piece| piece.get("text").and_then(text));
        parts.extend(texts.filter(|text| !text.is_empty()).map(Part::text));
    }
    if let Some(text) = member("refusal") {
        parts.push(Part::unplaced(PartBody::Refusal(text)));
    }
    let calls: Vec<Fields<'_>> = parsed(message.get("tool_calls")).unwrap_or_default();
    parts.extend({ calls.iter() }.filter_map(call).map(Part::unplaced));
}

fn call<'a>(call: &Fields<'a>) -> Option<PartBody<'a>> {
    let function: Fields<'_> = parsed(call.get("function"))?;
    let arguments = function.get("arguments");
    Some(PartBody::ToolCall(ToolCall {
        id: call.get("id").and_then(text).unwrap_or_default(),
        name: function.get("name").and_then(text)?,
        arguments: Arguments(match arguments {
            Some(value) => text(value).unwrap_or(Cow::Borrowed(value.get())),
            None => Cow::Borrowed(Arguments::NONE),
        }),
        proof: None,
        is_custom: false,
    }))
}

/// Why the lane says that it ended.
pub(super) fn finish(reason: Cow<'_, str>) -> Finish<'_> {
    match reason.as_ref() {
        "" | "stop" => Finish::Stop,
        "length" => Finish::Length,
        "tool_calls" | "function_call" => Finish::ToolCalls,
        "content_filter" => Finish::Filter,
        _ => Finish::Other(reason),
    }
}

/// What a `usage` counts.
pub(super) fn usage(usage: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Counts {
        prompt_tokens: Option<u64>,
        completion_tokens: Option<u64>,
        prompt_tokens_details: Option<Prompt>,
        completion_tokens_details: Option<Completion>,
        /// How one vendor counts what came from its cache.
        prompt_cache_hit_tokens: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Prompt {
        cached_tokens: Option<u64>,
        cache_write_tokens: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Completion {
        reasoning_tokens: Option<u64>,
    }
    let counts: Counts = serde_json::from_str::<Option<Counts>>(usage.get()).ok()??;
    let prompt = counts.prompt_tokens_details.as_ref();
    let cached =
        { prompt.and_then(|prompt| prompt.cached_tokens) }.or(counts.prompt_cache_hit_tokens);
    let written = prompt.and_then(|prompt| prompt.cache_write_tokens);
    Some(wording::usage(
        counts.prompt_tokens.unwrap_or_default(),
        counts.completion_tokens.unwrap_or_default(),
        (cached, written),
        { counts.completion_tokens_details }.and_then(|completion| completion.reasoning_tokens),
    ))
}
