//! The dialect of Gemini's REST interface.

pub(super) mod turn;

use super::{FAILED_WITHIN, Framing, PROMPT_TOKENS, VECTOR};
use serde_json::{Value, json};

const ID: &str = "simulated";

pub(super) fn error(status: u16, message: &str) -> Value {
    let word = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": word}})
}

pub(super) fn models() -> Value {
    json!({"models": [{
        "name": "models/simulated",
        "version": "001",
        "displayName": "Simulated",
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods":
            ["generateContent", "countTokens", "embedContent", "batchEmbedContents"],
    }]})
}

pub(super) fn count() -> Value {
    json!({
        "totalTokens": PROMPT_TOKENS,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": PROMPT_TOKENS}],
    })
}

pub(super) fn embedding() -> Value {
    json!({"embedding": {"values": VECTOR}})
}

pub(super) fn embeddings(inputs: usize) -> Value {
    json!({"embeddings": vec![json!({"values": VECTOR}); inputs]})
}

fn document(model: &str, text: &str, finish_reason: Option<&str>, words: usize) -> Value {
    candidates(model, &json!([{"text": text}]), finish_reason, words)
}

fn candidates(model: &str, parts: &Value, finish_reason: Option<&str>, words: usize) -> Value {
    let mut candidate = json!({
        "content": {"parts": parts, "role": "model"},
        "index": 0,
    });
    if let (Some(reason), Some(fields)) = (finish_reason, candidate.as_object_mut()) {
        fields.insert("finishReason".to_owned(), json!(reason));
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": PROMPT_TOKENS,
            "candidatesTokenCount": words,
            "totalTokenCount": PROMPT_TOKENS + words,
        },
        "modelVersion": model,
        "responseId": ID,
    })
}

pub(super) fn answer(model: &str, text: &str, words: usize) -> Value {
    document(model, text, Some("STOP"), words)
}

/// One document of a stream; `is_first` begins an array.
fn frame(document: &Value, is_first: bool, framing: Framing) -> String {
    match (framing, is_first) {
        (Framing::Events, _) => format!("data: {document}\r\n\r\n"),
        (Framing::Array, true) => format!("[{document}"),
        (Framing::Array, false) => format!("\n,\r\n{document}"),
    }
}

pub(super) fn content(model: &str, word: &str, index: usize, framing: Framing) -> String {
    let document = document(model, word, None, index + 1);
    frame(&document, index == 0, framing)
}

pub(super) fn closing(model: &str, words: usize, framing: Framing) -> String {
    let last = frame(
        &document(model, "", Some("STOP"), words),
        words == 0,
        framing,
    );
    match framing {
        Framing::Events => last,
        Framing::Array => last + "\n]",
    }
}

pub(super) fn error_frame(sent: usize, framing: Framing) -> String {
    let last = frame(&error(503, FAILED_WITHIN), sent == 0, framing);
    match framing {
        Framing::Events => last,
        Framing::Array => last + "\n]",
    }
}
