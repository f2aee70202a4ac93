//! Stage one of classification: what a vendor's error body says, without judging it.
//!
//! Bodies arrive from strangers: HTML, plain text, truncated or compressed JSON, `null`. Whatever
//! cannot be read says nothing, and the status decides alone.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Map, Value};

use super::coding::{Codings, UnknownCoding};
use super::{Protocol, retry_after};

/// Error bodies are read, and decompressed, up to this many bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// What an error body says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorSignal {
    /// The vendor's codes, the most telling first: `error.code`, `error.type`, `error.status`, and
    /// Gemini's reasons. Numbers are written in decimal.
    pub codes: Vec<String>,
    /// The text for people.
    pub message: String,
    /// A wait the body asks for.
    pub retry_after: Option<Duration>,
}

impl ErrorSignal {
    /// Reads the body of an answer that failed by its status. `headers` tell the compression.
    #[must_use]
    pub fn from_body(protocol: Protocol, headers: &HeaderMap, body: &[u8]) -> Self {
        let plain = decoded(headers, body);
        serde_json::from_slice(&plain)
            .map(|value: Value| Self::from_value(protocol, &value))
            .unwrap_or_default()
    }

    /// Reads an error document: the body of a failed answer, or the payload of an error frame.
    #[must_use]
    pub fn from_value(protocol: Protocol, value: &Value) -> Self {
        // Gemini's REST streams wrap the error in an array.
        let value = match value {
            Value::Array(items) => items.first().unwrap_or(&Value::Null),
            other => other,
        };
        let Value::Object(top) = value else {
            return Self::default();
        };
        let nested = top.get("error").or_else(|| {
            top.get("response")
                .and_then(|response| response.get("error"))
        });
        let mut signal = Self::default();
        match nested {
            Some(Value::Object(error)) => signal.read(protocol, error),
            Some(Value::String(message)) => signal.message.clone_from(message),
            _ => signal.read(protocol, top),
        }
        signal
    }

    fn read(&mut self, protocol: Protocol, error: &Map<String, Value>) {
        for key in ["code", "type", "status"] {
            match error.get(key) {
                Some(Value::String(code)) => self.push(code),
                Some(Value::Number(code)) => self.push(&code.to_string()),
                _ => {}
            }
        }
        let text = error.get("message").or_else(|| error.get("detail"));
        if let Some(Value::String(message)) = text {
            self.message.clone_from(message);
        }
        if protocol == Protocol::Gemini {
            self.read_details(error.get("details"));
        }
    }

    /// Gemini's `ErrorInfo.reason` and `RetryInfo.retryDelay`.
    fn read_details(&mut self, details: Option<&Value>) {
        let details = details
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        for detail in details {
            if let Some(reason) = detail.get("reason").and_then(Value::as_str) {
                // The reason is finer than the status word, so it is looked up first.
                self.codes.insert(0, reason.to_owned());
            }
            let is_retry = detail
                .get("@type")
                .and_then(Value::as_str)
                .is_some_and(|name| name.ends_with("google.rpc.RetryInfo"));
            if is_retry {
                let delay = detail.get("retryDelay").and_then(Value::as_str);
                self.retry_after = self
                    .retry_after
                    .max(delay.and_then(retry_after::parse_delay));
            }
        }
    }

    fn push(&mut self, code: &str) {
        if !code.is_empty() && !self.codes.iter().any(|known| known == code) {
            self.codes.push(code.to_owned());
        }
    }
}

/// `body` without its content encoding, bounded by [`MAX_BODY_BYTES`]. A broken encoding gives what
/// could be read of it, an unknown one the bytes as they are.
#[must_use]
pub fn decoded<'a>(headers: &HeaderMap, body: &'a [u8]) -> Cow<'a, [u8]> {
    match Codings::of(headers) {
        Ok(codings) if !codings.is_empty() => Cow::Owned(codings.beginning(body, MAX_BODY_BYTES)),
        Ok(_) | Err(UnknownCoding) => Cow::Borrowed(body.get(..MAX_BODY_BYTES).unwrap_or(body)),
    }
}
