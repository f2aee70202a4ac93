//! Scripted turns as chat answers; a text before tool calls is their plan.

use super::super::{
    event,
    played::{Played, tokens},
};
use super::{ID, usage};
use crate::script::Cue;
use serde_json::{Value, json};

fn id(number: usize) -> String {
    format!("call_simulated_{number}")
}

fn delta(kind: &str, index: usize, message: Value) -> String {
    event(
        kind,
        &json!({"type": kind, "index": index, "delta": {"message": message}}),
    )
}

pub(in crate::dialect) fn play(cue: Cue<'_>) -> Played {
    let (text, calls) = (&cue.turn.text, &cue.turn.tool_calls);
    let reason = if calls.is_empty() {
        "COMPLETE"
    } else {
        "TOOL_CALL"
    };
    let message = if calls.is_empty() {
        json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
    } else {
        let calls: Vec<Value> = { cue.numbered_calls() }
            .map(|(number, call)| {
                json!({
                    "id": id(number),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments_text()},
                })
            })
            .collect();
        json!({"role": "assistant", "tool_plan": text, "tool_calls": calls})
    };
    let start = json!({"id": ID, "type": "message-start", "delta": {"message": {
        "role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": [],
    }}});
    let end = json!({
        "type": "message-end",
        "delta": {"finish_reason": reason, "usage": usage(tokens(cue))},
    });
    Played {
        whole: json!({
            "id": ID, "finish_reason": reason, "message": message, "usage": usage(tokens(cue)),
        }),
        opening: event("message-start", &start),
        content: if calls.is_empty() {
            answer(cue)
        } else {
            tool_calls(cue)
        },
        closing: event("message-end", &end),
    }
}

fn answer(cue: Cue<'_>) -> Vec<String> {
    let mut frames: Vec<String> = { cue.turn.words() }
        .map(|word| delta("content-delta", 0, json!({"content": {"text": word}})))
        .collect();
    if let Some(first) = frames.first_mut() {
        let start = json!({"content": {"type": "text", "text": ""}});
        first.insert_str(0, &delta("content-start", 0, start));
    }
    if let Some(last) = frames.last_mut() {
        let end = json!({"type": "content-end", "index": 0});
        last.push_str(&event("content-end", &end));
    }
    frames
}

fn tool_calls(cue: Cue<'_>) -> Vec<String> {
    let mut frames: Vec<String> = { cue.turn.words() }
        .map(|word| {
            let plan =
                json!({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": word}}});
            event("tool-plan-delta", &plan)
        })
        .collect();
    for (index, (number, call)) in cue.numbered_calls().enumerate() {
        let begun = json!({"tool_calls": {
            "id": id(number), "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }});
        frames.push(delta("tool-call-start", index, begun));
        for piece in call.argument_pieces() {
            let more = json!({"tool_calls": {"function": {"arguments": piece}}});
            frames.push(delta("tool-call-delta", index, more));
        }
        if let Some(last) = frames.last_mut() {
            let end = json!({"type": "tool-call-end", "index": index});
            last.push_str(&event("tool-call-end", &end));
        }
    }
    frames
}
