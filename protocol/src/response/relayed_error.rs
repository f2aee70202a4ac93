//! A lane's error in the words of another dialect.

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::dialect::{Dialect, Protocol, Vendor};
use crate::error_kind::ErrorKind;
use crate::response::error_signal::ErrorSignal;

/// Longest message that is passed on, in bytes.
const MESSAGE_MAX_BYTES: usize = 4 * 1024;
/// How ids of accounts and keys begin, in the messages of the vendors.
const ACCOUNT_PREFIXES: &[&str] = &[
    "org-",
    "org_",
    "proj_",
    "sk-",
    "acct_",
    "user-",
    "projects/",
];
/// What stands in their place.
const REDACTED: &str = "[redacted]";

/// The error that `body`, an answer of `lane` with `status`, reports, for a caller of `caller`.
#[must_use]
pub fn of_body(
    lane: &dyn Vendor,
    caller: Dialect,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> ErrorKind {
    kind(caller, status, ErrorSignal::from_body(lane, headers, body))
}

/// As [`of_body`], of the data of a frame that reports an error which stands for `status`.
#[must_use]
pub fn of_frame(lane: &dyn Vendor, caller: Dialect, status: StatusCode, data: &[u8]) -> ErrorKind {
    let value = serde_json::from_slice(data).unwrap_or(Value::Null);
    kind(caller, status, ErrorSignal::from_value(lane, &value))
}

fn kind(caller: Dialect, status: StatusCode, signal: ErrorSignal) -> ErrorKind {
    let message = if signal.message.is_empty() {
        format!("The provider answered {}.", status.as_u16())
    } else {
        without_accounts(&signal.message)
    };
    ErrorKind::Upstream {
        status: shown(caller, status),
        message,
    }
}

/// The status as the caller's dialect has it: 529 is Anthropic's alone.
fn shown(caller: Dialect, status: StatusCode) -> StatusCode {
    match status.as_u16() {
        529 if caller.protocol() != Protocol::Anthropic => StatusCode::SERVICE_UNAVAILABLE,
        _ => status,
    }
}

/// The message without words that name an account or look like a key.
fn without_accounts(message: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "-_*/.".contains(letter);
    let mut shown = String::with_capacity(message.len().min(MESSAGE_MAX_BYTES));
    for piece in message.split_inclusive(|letter: char| !is_word(letter)) {
        if shown.len() + piece.len() > MESSAGE_MAX_BYTES {
            break;
        }
        let word = piece.trim_end_matches(|letter: char| !is_word(letter));
        if ACCOUNT_PREFIXES
            .iter()
            .any(|prefix| word.starts_with(prefix))
        {
            shown.push_str(REDACTED);
            shown.push_str(piece.get(word.len()..).unwrap_or_default());
        } else {
            shown.push_str(piece);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendors_words_pass_without_what_names_its_account() {
        for (message, expected) in [
            ("max_tokens is too large", "max_tokens is too large"),
            (
                "Rate limit reached in organization org-AbC123 on tokens.",
                "Rate limit reached in organization [redacted] on tokens.",
            ),
            (
                "Incorrect API key: sk-ab**yz!",
                "Incorrect API key: [redacted]!",
            ),
            ("größe: org-1", "größe: [redacted]"),
        ] {
            assert_eq!(without_accounts(message), expected);
        }
        assert!(without_accounts(&"x ".repeat(9000)).len() <= MESSAGE_MAX_BYTES);
    }

    #[test]
    fn statuses_that_a_dialect_lacks_become_the_nearest() {
        let overloaded = StatusCode::from_u16(529).expect("a status");
        let body =
            br#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        for (caller, status) in [
            (Dialect::OPENAI_CHAT, StatusCode::SERVICE_UNAVAILABLE),
            (Dialect::ANTHROPIC, overloaded),
        ] {
            let lane = crate::vendor(Protocol::Anthropic);
            let kind = of_body(lane, caller, overloaded, &HeaderMap::new(), body);
            let message = "Overloaded".to_owned();
            assert_eq!(kind, ErrorKind::Upstream { status, message });
        }
    }
}
