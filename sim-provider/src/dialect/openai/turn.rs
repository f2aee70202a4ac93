//! Scripted turns as chat completions.

use super::super::played::{Manner, Played, tokens};
use super::{chunk, completed, delta, usage};
use crate::script::{Cue, ToolCall};
use serde_json::{Value, json};

fn id(number: usize) -> String {
    format!("call_simulated_{number}")
}

fn tool_call(number: usize, call: &ToolCall) -> Value {
    json!({
        "id": id(number),
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments_text()},
    })
}

pub(in crate::dialect) fn play(cue: Cue<'_>, manner: &Manner<'_>) -> Played {
    let model = manner.model;
    let calls: Vec<Value> = cue
        .numbered_calls()
        .map(|(n, call)| tool_call(n, call))
        .collect();
    let reason = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let text = (!cue.turn.text.is_empty()).then_some(&cue.turn.text);
    let mut message = json!({"role": "assistant", "content": text, "refusal": null});
    if let (false, Some(fields)) = (calls.is_empty(), message.as_object_mut()) {
        fields.insert("tool_calls".to_owned(), json!(calls));
    }

    let mut content: Vec<String> = cue
        .turn
        .words()
        .map(|word| super::content(model, word))
        .collect();
    for (index, (number, call)) in cue.numbered_calls().enumerate() {
        let begun = json!({"tool_calls": [{
            "index": index, "id": id(number), "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }]});
        content.push(delta(model, &begun, None));
        for piece in call.argument_pieces() {
            let more = json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]});
            content.push(delta(model, &more, None));
        }
    }
    let mut closing = delta(model, &json!({}), Some(reason));
    if manner.include_usage {
        closing += &chunk(model, &json!([]), Some(usage(tokens(cue))));
    }
    Played {
        whole: completed(model, &message, reason, tokens(cue)),
        opening: super::opening(model),
        content,
        closing: closing + "data: [DONE]\n\n",
    }
}
