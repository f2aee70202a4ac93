//! A lane's whole Responses answers, read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::item::own_proof;
use crate::ir::{Answer, Arguments, Finish, Part, PartBody, Reasoning, ToolCall, Usage};
use crate::json::fields::Fields;
use crate::json::filled::parsed;
use crate::translation::document::text;
use crate::vendor::openai::translation::wording;

pub(super) fn read(body: &[u8]) -> Option<Answer<'_>> {
    let document: Fields<'_> = serde_json::from_slice(body).ok()?;
    let items: Vec<Fields<'_>> = parsed(document.get("output"))?;
    let mut parts = Vec::new();
    for item in &items {
        read_item(item, &mut parts);
    }
    let member = |name| document.get(name).and_then(text).unwrap_or_default();
    let finish = finish(&document)?;
    Some(Answer {
        id: member("id"),
        model: member("model"),
        finish: wording::finish_of(finish, &parts),
        parts,
        usage: document.get("usage").and_then(usage),
    })
}

fn read_item<'a>(item: &Fields<'a>, parts: &mut Vec<Part<'a>>) {
    let member = |name| item.get(name).and_then(text);
    match member("type").as_deref() {
        Some("message") => {
            let pieces: Vec<Fields<'_>> = parsed(item.get("content")).unwrap_or_default();
            for piece in &pieces {
                let member = |name| piece.get(name).and_then(text);
                if let Some(text) = member("refusal").filter(|text| !text.is_empty()) {
                    parts.push(Part::unplaced(PartBody::Refusal(text)));
                } else if let Some(text) = member("text").filter(|text| !text.is_empty()) {
                    parts.push(Part::text(text));
                }
            }
        }
        Some("reasoning") => {
            let reasoning = reasoning(item);
            if !reasoning.text.is_empty() || reasoning.proof.is_some() {
                parts.push(Part::unplaced(PartBody::Reasoning(reasoning)));
            }
        }
        Some("function_call") => {
            let Some(name) = member("name") else {
                return;
            };
            parts.push(Part::unplaced(PartBody::ToolCall(ToolCall {
                id: member("call_id").unwrap_or_default(),
                name,
                arguments: Arguments(member("arguments").unwrap_or(Cow::Borrowed(Arguments::NONE))),
                proof: None,
                is_custom: false,
            })));
        }
        // What the vendor's own tools did is none of the caller's calls.
        _ => {}
    }
}

/// A reasoning item.
pub(super) fn reasoning<'a>(item: &Fields<'a>) -> Reasoning<'a> {
    let mut thoughts = Cow::Borrowed("");
    for name in ["summary", "content"] {
        let pieces: Vec<Fields<'_>> = parsed(item.get(name)).unwrap_or_default();
        for text in pieces
            .iter()
            .filter_map(|piece| piece.get("text").and_then(text))
        {
            if thoughts.is_empty() {
                thoughts = text;
            } else {
                thoughts.to_mut().push_str("\n\n");
                thoughts.to_mut().push_str(&text);
            }
        }
    }
    let proof = { item.get("encrypted_content").and_then(text) }
        .filter(|text| !text.is_empty())
        .map(own_proof);
    Reasoning {
        text: thoughts,
        proof,
    }
}

/// Why an answer ended; `None` for one that failed.
pub(super) fn finish(response: &Fields<'_>) -> Option<Finish<'static>> {
    let status = response.get("status").and_then(text);
    Some(match status.as_deref() {
        Some("failed" | "cancelled") => return None,
        Some("incomplete") => {
            let details: Option<Fields<'_>> = parsed(response.get("incomplete_details"));
            let reason = details.and_then(|details| details.get("reason").and_then(text));
            match reason.as_deref() {
                None | Some("max_output_tokens") => Finish::Length,
                Some("content_filter") => Finish::Filter,
                Some(other) => Finish::Other(Cow::Owned(other.to_owned())),
            }
        }
        _ => Finish::Stop,
    })
}

/// What a `usage` counts.
pub(super) fn usage(usage: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Counts {
        input_tokens: Option<u64>,
        output_tokens: Option<u64>,
        input_tokens_details: Option<Input>,
        output_tokens_details: Option<Output>,
    }
    #[derive(Deserialize)]
    struct Input {
        cached_tokens: Option<u64>,
        cache_write_tokens: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Output {
        reasoning_tokens: Option<u64>,
    }
    let counts: Counts = serde_json::from_str::<Option<Counts>>(usage.get()).ok()??;
    let input = counts.input_tokens_details.as_ref();
    let cached = input.and_then(|input| input.cached_tokens);
    let written = input.and_then(|input| input.cache_write_tokens);
    Some(wording::usage(
        counts.input_tokens.unwrap_or_default(),
        counts.output_tokens.unwrap_or_default(),
        (cached, written),
        { counts.output_tokens_details }.and_then(|output| output.reasoning_tokens),
    ))
}
