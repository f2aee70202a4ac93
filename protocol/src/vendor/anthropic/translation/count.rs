//! How many tokens a request has.

use serde::{Deserialize, Serialize};

#[derive(Deserialize, Serialize)]
struct Counted {
    input_tokens: u64,
}

/// The count in an answer; `None` when there is none.
pub(super) fn read(body: &[u8]) -> Option<u64> {
    let counted: Counted = serde_json::from_slice(body).ok()?;
    Some(counted.input_tokens)
}

/// The answer with a count.
pub(super) fn write(tokens: u64) -> Vec<u8> {
    let counted = Counted {
        input_tokens: tokens,
    };
    serde_json::to_vec(&counted).unwrap_or_default()
}
