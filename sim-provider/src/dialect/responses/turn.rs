//! Scripted turns as responses.

use super::super::played::{Manner, Played, tokens};
use super::{ITEM_ID, item, numbered, part, response, usage};
use crate::script::{Cue, ToolCall};
use serde_json::{Value, json};

fn call_item(number: usize, call: &ToolCall, arguments: &str, status: &str) -> Value {
    json!({
        "id": format!("fc_simulated_{number}"),
        "type": "function_call",
        "call_id": format!("call_simulated_{number}"),
        "name": call.name,
        "arguments": arguments,
        "status": status,
    })
}

/// The events of a stream in their order, in pieces of one content frame each.
#[derive(Default)]
struct Events {
    sent: usize,
    pieces: Vec<String>,
    /// Frames that wait for the next piece of content.
    waiting: String,
}

impl Events {
    fn frame(&mut self, name: &str, data: Value) -> String {
        let frame = numbered(name, self.sent, data);
        self.sent += 1;
        frame
    }

    fn before(&mut self, name: &str, data: Value) {
        let frame = self.frame(name, data);
        self.waiting += &frame;
    }

    fn content(&mut self, name: &str, data: Value) {
        let frame = self.frame(name, data);
        self.pieces.push(std::mem::take(&mut self.waiting) + &frame);
    }

    fn behind(&mut self, name: &str, data: Value) {
        let frame = self.frame(name, data);
        if let Some(last) = self.pieces.last_mut() {
            last.push_str(&frame);
        }
    }
}

fn message(events: &mut Events, cue: Cue<'_>) -> Value {
    let place = |field: &str, value: Value| {
        let mut data = json!({"item_id": ITEM_ID, "output_index": 0, "content_index": 0});
        if let Some(fields) = data.as_object_mut() {
            fields.insert(field.to_owned(), value);
            if field != "part" {
                fields.insert("logprobs".to_owned(), json!([]));
            }
        }
        data
    };
    let text = &cue.turn.text;
    let whole = item("completed", &json!([part(text)]));
    let begun = json!({"output_index": 0, "item": item("in_progress", &json!([]))});
    events.before("response.output_item.added", begun);
    events.before("response.content_part.added", place("part", part("")));
    for word in cue.turn.words() {
        events.content("response.output_text.delta", place("delta", json!(word)));
    }
    events.behind("response.output_text.done", place("text", json!(text)));
    events.behind("response.content_part.done", place("part", part(text)));
    events.behind(
        "response.output_item.done",
        json!({"output_index": 0, "item": whole}),
    );
    whole
}

fn function_call(events: &mut Events, index: usize, number: usize, call: &ToolCall) -> Value {
    let text = call.arguments_text();
    let whole = call_item(number, call, &text, "completed");
    let place = |field: &str, value: &str| {
        json!({
            "item_id": format!("fc_simulated_{number}"), "output_index": index, (field): value,
        })
    };
    let begun = call_item(number, call, "", "in_progress");
    events.before(
        "response.output_item.added",
        json!({"output_index": index, "item": begun}),
    );
    for piece in call.argument_pieces() {
        events.content(
            "response.function_call_arguments.delta",
            place("delta", &piece),
        );
    }
    events.behind(
        "response.function_call_arguments.done",
        place("arguments", &text),
    );
    events.behind(
        "response.output_item.done",
        json!({"output_index": index, "item": whole}),
    );
    whole
}

pub(in crate::dialect) fn play(cue: Cue<'_>, manner: &Manner<'_>) -> Played {
    let mut events = Events::default();
    let begun = response(manner.model, "in_progress", &json!([]), &Value::Null);
    let opening = events.frame("response.created", json!({"response": begun}))
        + &events.frame("response.in_progress", json!({"response": begun}));
    let mut output = Vec::new();
    if !cue.turn.text.is_empty() {
        output.push(message(&mut events, cue));
    }
    for (number, call) in cue.numbered_calls() {
        output.push(function_call(&mut events, output.len(), number, call));
    }
    let usage = usage(tokens(cue));
    let whole = response(manner.model, "completed", &json!(output), &usage);
    let closing = events.frame("response.completed", json!({"response": whole}));
    Played {
        whole,
        opening,
        content: events.pieces,
        closing,
    }
}
