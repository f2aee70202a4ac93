//! The Responses dialect.

pub(super) mod turn;

use super::{FAILED_WITHIN, PROMPT_TOKENS, event};
use serde_json::{Value, json};

const ID: &str = "resp_simulated";
const ITEM_ID: &str = "msg_simulated";
const CREATED: u64 = 1_764_000_000;
/// Frames before the first content.
const OPENING_FRAMES: usize = 4;

fn response(model: &str, status: &str, output: &Value, usage: &Value) -> Value {
    json!({
        "id": ID,
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "store": false,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": null,
    })
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn item(status: &str, content: &Value) -> Value {
    json!({
        "id": ITEM_ID,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    })
}

fn usage(words: usize) -> Value {
    json!({
        "input_tokens": PROMPT_TOKENS,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": words,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": PROMPT_TOKENS + words,
    })
}

fn completed(model: &str, text: &str, words: usize) -> Value {
    let output = json!([item("completed", &json!([part(text)]))]);
    response(model, "completed", &output, &usage(words))
}

pub(super) fn answer(model: &str, text: &str, words: usize) -> Value {
    completed(model, text, words)
}

/// An event whose payload repeats its name and carries its number in the stream.
fn numbered(name: &str, number: usize, mut data: Value) -> String {
    if let Some(fields) = data.as_object_mut() {
        fields.insert("type".to_owned(), json!(name));
        fields.insert("sequence_number".to_owned(), json!(number));
    }
    event(name, &data)
}

pub(super) fn opening(model: &str) -> String {
    let begun = response(model, "in_progress", &json!([]), &Value::Null);
    let frames: [(&str, Value); OPENING_FRAMES] = [
        ("response.created", json!({"response": begun})),
        ("response.in_progress", json!({"response": begun})),
        (
            "response.output_item.added",
            json!({"output_index": 0, "item": item("in_progress", &json!([]))}),
        ),
        (
            "response.content_part.added",
            json!({"item_id": ITEM_ID, "output_index": 0, "content_index": 0, "part": part("")}),
        ),
    ];
    { frames.into_iter().enumerate() }
        .map(|(number, (name, data))| numbered(name, number, data))
        .collect()
}

pub(super) fn content(word: &str, index: usize) -> String {
    let delta = json!({
        "item_id": ITEM_ID, "output_index": 0, "content_index": 0, "delta": word, "logprobs": [],
    });
    numbered("response.output_text.delta", OPENING_FRAMES + index, delta)
}

pub(super) fn closing(model: &str, text: &str, words: usize) -> String {
    let place = || json!({"item_id": ITEM_ID, "output_index": 0, "content_index": 0});
    let with = |mut data: Value, name: &str, value: Value| {
        if let Some(fields) = data.as_object_mut() {
            fields.insert(name.to_owned(), value);
        }
        data
    };
    let done = with(place(), "text", json!(text));
    let done = with(done, "logprobs", json!([]));
    let whole = item("completed", &json!([part(text)]));
    let frames = [
        ("response.output_text.done", done),
        (
            "response.content_part.done",
            with(place(), "part", part(text)),
        ),
        (
            "response.output_item.done",
            json!({"output_index": 0, "item": whole}),
        ),
        (
            "response.completed",
            json!({"response": completed(model, text, words)}),
        ),
    ];
    { frames.into_iter().enumerate() }
        .map(|(number, (name, data))| numbered(name, OPENING_FRAMES + words + number, data))
        .collect()
}

pub(super) fn error_frame(sent: usize) -> String {
    let number = if sent == 0 { 0 } else { OPENING_FRAMES + sent };
    let data = json!({"code": "server_error", "message": FAILED_WITHIN, "param": null});
    numbered("error", number, data)
}
