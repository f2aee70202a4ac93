//! Stage one of classification: what a vendor's error body says, without judging it.
//!
//! Bodies arrive from strangers: HTML, plain text, truncated or compressed JSON, `null`. Whatever
//! cannot be read says nothing, and the status decides alone.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Map, Value};

use crate::coding::{Codings, UnknownCoding};
use crate::dialect::Vendor;
use crate::response::retry_after;

/// Error bodies are read, and decompressed, up to this many bytes.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// What an error body says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorSignal {
    /// The vendor's codes, the most telling first: `error.code`, `error.type`, `error.status`, and the
    /// reasons in the details. Numbers are written in decimal.
    pub codes: Vec<String>,
    /// The text for people.
    pub message: String,
    /// A wait the body asks for.
    pub retry_after: Option<Duration>,
}

impl ErrorSignal {
    /// Reads the body of an answer that failed by its status. `headers` tell the compression.
    #[must_use]
    pub fn from_body(vendor: &dyn Vendor, headers: &HeaderMap, body: &[u8]) -> Self {
        let plain = decoded(headers, body);
        serde_json::from_slice(&plain)
            .map(|value: Value| Self::from_value(vendor, &value))
            .unwrap_or_default()
    }

    /// Reads an error document: the body of a failed answer, or the payload of an error frame.
    #[must_use]
    pub fn from_value(vendor: &dyn Vendor, value: &Value) -> Self {
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
            Some(Value::Object(error)) => signal.read(vendor, error),
            Some(Value::String(message)) => signal.message.clone_from(message),
            _ => signal.read(vendor, top),
        }
        signal
    }

    fn read(&mut self, vendor: &dyn Vendor, error: &Map<String, Value>) {
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
        let details = vendor.error_details(error);
        for reason in details.reasons {
            // The reason is finer than the status word, so it is looked up first.
            self.codes.insert(0, reason.to_owned());
        }
        let delays = details
            .delays
            .into_iter()
            .filter_map(retry_after::parse_delay);
        self.retry_after = self.retry_after.max(delays.max());
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
