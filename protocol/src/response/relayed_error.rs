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

/// The field that an error document refuses: what OpenAI's `param` names, or the word before the
/// colon with which Anthropic's and Cohere's messages begin. Of a path, its last name.
#[must_use]
pub fn refused_field(lane: &dyn Vendor, body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let param = value.pointer("/error/param").and_then(Value::as_str);
    let signal = ErrorSignal::from_value(lane, &value);
    let named = param.or_else(|| signal.message.split_once(':').map(|(field, _)| field))?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.[]".contains(&byte);
    let named = Some(named).filter(|named| !named.is_empty() && named.bytes().all(is_name))?;
    let is_part = |part: &&str| part.bytes().any(|byte| byte.is_ascii_alphabetic());
    { named.rsplit(['.', '[', ']']) }
        .find(is_part)
        .map(str::to_owned)
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
    fn refused_fields_are_found_where_the_vendors_name_them() {
        let openai = crate::vendor(Protocol::Openai);
        let anthropic = crate::vendor(Protocol::Anthropic);
        for (lane, body, expected) in [
            (
                openai,
                r#"{"error":{"message":"m","param":"max_completion_tokens"}}"#,
                Some("max_completion_tokens"),
            ),
            (
                openai,
                r#"{"error":{"message":"m","param":"messages[0].content"}}"#,
                Some("content"),
            ),
            (openai, r#"{"error":{"message":"no","param":null}}"#, None),
            (
                anthropic,
                r#"{"error":{"type":"invalid_request_error","message":"max_tokens: too many"}}"#,
                Some("max_tokens"),
            ),
            (
                anthropic,
                r#"{"error":{"message":"messages.1.content.0: odd"}}"#,
                Some("content"),
            ),
            (anthropic, r#"{"error":{"message":"a b: c"}}"#, None),
            (anthropic, "<html>", None),
        ] {
            let found = refused_field(lane, body.as_bytes());
            assert_eq!(found.as_deref(), expected, "{body}");
        }
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
