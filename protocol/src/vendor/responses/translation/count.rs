//! How many tokens a request has.

use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Counted {
    input_tokens: u64,
}

#[derive(Serialize)]
struct Written {
    object: &'static str,
    input_tokens: u64,
}

/// The count in an answer; `None` when there is none.
pub(super) fn read(body: &[u8]) -> Option<u64> {
    let counted: Counted = serde_json::from_slice(body).ok()?;
    Some(counted.input_tokens)
}

/// The answer with a count.
pub(super) fn write(tokens: u64) -> Vec<u8> {
    let written = Written {
        object: "response.input_tokens",
        input_tokens: tokens,
    };
    serde_json::to_vec(&written).unwrap_or_default()
}
