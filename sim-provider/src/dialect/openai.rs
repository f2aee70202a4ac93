//! The dialect of OpenAI's chat completions, completions and embeddings.

pub(super) mod turn;

use super::{FAILED_WITHIN, PROMPT_TOKENS, VECTOR, VECTOR_BASE64};
use serde_json::{Value, json};

const ID: &str = "chatcmpl-simulated";
const CREATED: u64 = 1_764_000_000;
const COMPLETION_ID: &str = "cmpl-simulated";

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
    let message = json!({"role": "assistant", "content": text, "refusal": null});
    completed(model, &message, "stop", words)
}

fn completed(model: &str, message: &Value, finish_reason: &str, words: usize) -> Value {
    json!({
        "id": ID,
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": finish_reason,
        }],
        "usage": usage(words),
    })
}

pub(super) fn models() -> Value {
    json!({"object": "list", "data": [
        {"id": "simulated", "object": "model", "created": CREATED, "owned_by": "sim-provider"},
    ]})
}

pub(super) fn completion(model: &str, text: &str, words: usize) -> Value {
    json!({
        "id": COMPLETION_ID,
        "object": "text_completion",
        "created": CREATED,
        "model": model,
        "choices": [{"text": text, "index": 0, "logprobs": null, "finish_reason": "stop"}],
        "usage": usage(words),
    })
}

pub(super) fn embeddings(model: &str, inputs: usize, in_base64: bool) -> Value {
    let vector = if in_base64 {
        json!(VECTOR_BASE64)
    } else {
        json!(VECTOR)
    };
    let data: Vec<Value> = (0..inputs)
        .map(|index| json!({"object": "embedding", "index": index, "embedding": vector}))
        .collect();
    json!({
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": PROMPT_TOKENS, "total_tokens": PROMPT_TOKENS},
    })
}

fn chunk(model: &str, choices: &Value, usage: Option<Value>) -> String {
    framed(ID, "chat.completion.chunk", model, choices, usage)
}

fn framed(id: &str, object: &str, model: &str, choices: &Value, usage: Option<Value>) -> String {
    let mut chunk = json!({
        "id": id,
        "object": object,
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

fn completion_chunk(model: &str, text: &str, finish_reason: Option<&str>) -> String {
    let choices = json!([
        {"text": text, "index": 0, "logprobs": null, "finish_reason": finish_reason},
    ]);
    framed(COMPLETION_ID, "text_completion", model, &choices, None)
}

pub(super) fn completion_content(model: &str, word: &str) -> String {
    completion_chunk(model, word, None)
}

pub(super) fn completion_closing(model: &str, words: usize, include_usage: bool) -> String {
    let mut frames = completion_chunk(model, "", Some("stop"));
    if include_usage {
        let usage = Some(usage(words));
        frames += &framed(COMPLETION_ID, "text_completion", model, &json!([]), usage);
    }
    frames + "data: [DONE]\n\n"
}

pub(super) fn error_frame() -> String {
    format!("data: {}\n\n", error(500, FAILED_WITHIN))
}
