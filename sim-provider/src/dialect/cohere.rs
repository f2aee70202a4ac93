//! The second chat dialect of Cohere.

pub(super) mod turn;

use super::{FAILED_WITHIN, PROMPT_TOKENS, event};
use serde_json::{Value, json};

const ID: &str = "c14c80c3-18eb-4519-9460-6c92edd8cfb4";

pub(super) fn error(message: &str) -> Value {
    json!({"id": ID, "message": message})
}

fn usage(words: usize) -> Value {
    json!({
        "billed_units": {"input_tokens": PROMPT_TOKENS, "output_tokens": words},
        "tokens": {"input_tokens": PROMPT_TOKENS, "output_tokens": words},
    })
}

pub(super) fn answer(text: &str, words: usize) -> Value {
    let content = if text.is_empty() {
        json!([])
    } else {
        json!([{"type": "text", "text": text}])
    };
    json!({
        "id": ID,
        "finish_reason": "COMPLETE",
        "message": {"role": "assistant", "content": content},
        "usage": usage(words),
    })
}

pub(super) fn opening() -> String {
    let message = json!({
        "role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": [],
    });
    let start = json!({"id": ID, "type": "message-start", "delta": {"message": message}});
    let content = json!({
        "type": "content-start",
        "index": 0,
        "delta": {"message": {"content": {"type": "text", "text": ""}}},
    });
    event("message-start", &start) + &event("content-start", &content)
}

pub(super) fn content(word: &str) -> String {
    let delta = json!({
        "type": "content-delta",
        "index": 0,
        "delta": {"message": {"content": {"text": word}}},
    });
    event("content-delta", &delta)
}

pub(super) fn closing(words: usize) -> String {
    let end = json!({
        "type": "message-end",
        "delta": {"finish_reason": "COMPLETE", "usage": usage(words)},
    });
    event("content-end", &json!({"type": "content-end", "index": 0})) + &event("message-end", &end)
}

pub(super) fn error_frame() -> String {
    let end = json!({
        "type": "message-end",
        "delta": {"finish_reason": "ERROR", "error": FAILED_WITHIN},
    });
    event("message-end", &end)
}
