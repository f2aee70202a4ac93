//! The chat completions dialect.

use serde_json::{Value, json};

const ID: &str = "chatcmpl-simulated";
const CREATED: u64 = 1_764_000_000;
/// The prompt's tokens are not counted; every prompt is this long.
const PROMPT_TOKENS: usize = 10;

pub(super) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn usage(words: usize) -> Value {
    json!({
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": words,
        "total_tokens": PROMPT_TOKENS + words,
    })
}

pub(super) fn answer(model: &str, text: &str, words: usize) -> Value {
    json!({
        "id": ID,
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": null},
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": usage(words),
    })
}

fn chunk(model: &str, choices: &Value, usage: Option<Value>) -> String {
    let mut chunk = json!({
        "id": ID,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "choices": choices,
    });
    if let (Some(usage), Some(fields)) = (usage, chunk.as_object_mut()) {
        fields.insert("usage".to_owned(), usage);
    }
    format!("data: {chunk}\n\n")
}

fn delta(model: &str, delta: &Value, finish_reason: Option<&str>) -> String {
    let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}]);
    chunk(model, &choices, None)
}

pub(super) fn opening(model: &str) -> String {
    delta(model, &json!({"role": "assistant", "content": ""}), None)
}

pub(super) fn content(model: &str, word: &str) -> String {
    delta(model, &json!({"content": word}), None)
}

pub(super) fn closing(model: &str, words: usize, include_usage: bool) -> String {
    let mut frames = delta(model, &json!({}), Some("stop"));
    if include_usage {
        frames += &chunk(model, &json!([]), Some(usage(words)));
    }
    frames + "data: [DONE]\n\n"
}

pub(super) fn error_frame() -> String {
    format!(
        "data: {}\n\n",
        error(500, "The simulated provider failed within its answer.")
    )
}
