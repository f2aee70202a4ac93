//! Scripted turns as messages.

use super::super::{
    event,
    played::{Manner, Played, tokens},
};
use super::message;
use crate::script::Cue;
use serde_json::{Value, json};

fn id(number: usize) -> String {
    format!("toolu_simulated_{number}")
}

/// The frames of one block, the outer ones joined to the first and last piece of content.
fn block(index: usize, start: &Value, deltas: impl Iterator<Item = Value>) -> Vec<String> {
    let mut frames: Vec<String> = deltas
        .map(|delta| {
            let data = json!({"type": "content_block_delta", "index": index, "delta": delta});
            event("content_block_delta", &data)
        })
        .collect();
    let start = json!({"type": "content_block_start", "index": index, "content_block": start});
    if let Some(first) = frames.first_mut() {
        first.insert_str(0, &event("content_block_start", &start));
    }
    if let Some(last) = frames.last_mut() {
        let stop = json!({"type": "content_block_stop", "index": index});
        last.push_str(&event("content_block_stop", &stop));
    }
    frames
}

pub(in crate::dialect) fn play(cue: Cue<'_>, manner: &Manner<'_>) -> Played {
    let text = &cue.turn.text;
    let reason = if cue.turn.tool_calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    let mut blocks = Vec::new();
    let mut content = Vec::new();
    if !text.is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
        let words = cue
            .turn
            .words()
            .map(|word| json!({"type": "text_delta", "text": word}));
        content.extend(block(0, &json!({"type": "text", "text": ""}), words));
    }
    for (number, call) in cue.numbered_calls() {
        let tool_use = |input: Value| json!({"type": "tool_use", "id": id(number), "name": call.name, "input": input});
        let pieces = { call.argument_pieces().into_iter() }
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        content.extend(block(blocks.len(), &tool_use(json!({})), pieces));
        blocks.push(tool_use(json!(call.arguments)));
    }
    let start = message(manner.model, &json!([]), None, 1);
    let delta = json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": tokens(cue)},
    });
    Played {
        whole: message(manner.model, &json!(blocks), Some(reason), tokens(cue)),
        opening: event(
            "message_start",
            &json!({"type": "message_start", "message": start}),
        ) + &event("ping", &json!({"type": "ping"})),
        content,
        closing: event("message_delta", &delta)
            + &event("message_stop", &json!({"type": "message_stop"})),
    }
}
