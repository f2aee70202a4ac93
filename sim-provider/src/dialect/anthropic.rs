//! The messages dialect.

pub(super) mod turn;

use super::{PROMPT_TOKENS, event};
use serde_json::{Value, json};

const ID: &str = "msg_simulated";

pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_simulated"})
}

fn message(model: &str, content: &Value, stop_reason: Option<&str>, words: usize) -> Value {
    json!({
        "id": ID,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": words},
    })
}

pub(super) fn answer(model: &str, text: &str, words: usize) -> Value {
    let content = if text.is_empty() {
        json!([])
    } else {
        json!([{"type": "text", "text": text}])
    };
    message(model, &content, Some("end_turn"), words)
}

pub(super) fn models() -> Value {
    json!({
        "data": [{
            "type": "model",
            "id": "simulated",
            "display_name": "Simulated",
            "created_at": "2026-01-01T00:00:00Z",
        }],
        "has_more": false,
        "first_id": "simulated",
        "last_id": "simulated",
    })
}

pub(super) fn opening(model: &str) -> String {
    let start = json!({"type": "message_start", "message": message(model, &json!([]), None, 1)});
    let block = json!({
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    });
    event("message_start", &start)
        + &event("content_block_start", &block)
        + &event("ping", &json!({"type": "ping"}))
}

pub(super) fn content(word: &str) -> String {
    let delta = json!({
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": word},
    });
    event("content_block_delta", &delta)
}

pub(super) fn closing(words: usize) -> String {
    let delta = json!({
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": null},
        "usage": {"output_tokens": words},
    });
    event(
        "content_block_stop",
        &json!({"type": "content_block_stop", "index": 0}),
    ) + &event("message_delta", &delta)
        + &event("message_stop", &json!({"type": "message_stop"}))
}

pub(super) fn error_frame() -> String {
    event("error", &error(529, "Overloaded"))
}
