//! The request of a probe: the smallest real generation a protocol knows.
//!
//! A list of models or a bare connection would be cheaper and prove less: providers answer those
//! while every generation fails.

use crate::request::attempt::Asked;
use http::HeaderMap;
use lanekeeper_model::gateway::Protocol;
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::rewrite::ModelPlaces;
use serde_json::json;

/// What the model is asked.
const PROMPT: &str = "hi";
/// Tokens asked for.
const TOKENS: u32 = 1;
/// The least that the Responses API takes as a limit.
const RESPONSES_TOKENS: u32 = 16;

/// The operation a probe of a protocol uses.
pub(super) const fn dialect(protocol: Protocol) -> Dialect {
    match protocol {
        Protocol::Openai => Dialect::OpenAiChat,
        Protocol::Responses => Dialect::Responses,
        Protocol::Anthropic => Dialect::Anthropic,
        Protocol::Gemini => Dialect::GeminiGenerate,
        Protocol::Cohere => Dialect::Cohere,
    }
}

/// The probe of a lane whose provider calls the model `model`.
pub(super) fn of(protocol: Protocol, model: &str) -> Asked {
    let messages = json!([{"role": "user", "content": PROMPT}]);
    let body = match protocol {
        Protocol::Openai | Protocol::Anthropic | Protocol::Cohere => {
            json!({"model": model, "max_tokens": TOKENS, "messages": messages})
        }
        Protocol::Responses => {
            json!({"model": model, "max_output_tokens": RESPONSES_TOKENS, "input": PROMPT})
        }
        Protocol::Gemini => json!({
            "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
            "generationConfig": {"maxOutputTokens": TOKENS},
        }),
    };
    Asked {
        dialect: dialect(protocol),
        headers: HeaderMap::new(),
        body: body.to_string().into(),
        // The body names the provider's own model already.
        model: ModelPlaces::Path,
        query: None,
        streams: false,
    }
}
