//! Every error the agent itself makes, in the shape of the caller's dialect.
//!
//! Client packages choose their exception by status and read the message from their vendor's
//! shape, so both must be right.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, UPGRADE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::coding::READABLE;
use crate::dialect::Dialect;
pub use crate::error_kind::whole_seconds;

pub use crate::error_kind::{ErrorKind, PSEUDONYM, Shortage};

/// The whole answer: status, headers (`content-type`, and what the kind calls for: `retry-after`,
/// `allow`, `accept-encoding`, `upgrade`) and body.
#[must_use]
pub fn render(
    dialect: Dialect,
    kind: &ErrorKind,
    request_id: &str,
) -> (StatusCode, HeaderMap, Bytes) {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(wait) = kind.retry_after() {
        headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
    }
    match kind {
        ErrorKind::MethodNotAllowed { allow } => {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        ErrorKind::UnsupportedCoding => {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(READABLE));
        }
        ErrorKind::Loop => {
            headers.insert(VIA, HeaderValue::from_static("1.1 lanekeeper"));
        }
        ErrorKind::UpgradeRefused => {
            // RFC 9110, 15.5.22: the answer names the protocol to use.
            headers.insert(UPGRADE, HeaderValue::from_static("HTTP/1.1"));
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        }
        _ => {}
    }
    let id_header = dialect.vendor().request_id_header();
    if let (Some(name), Ok(value)) = (id_header, HeaderValue::from_str(request_id)) {
        headers.insert(HeaderName::from_static(name), value);
    }
    let body = dialect
        .vendor()
        .error_document(kind, request_id)
        .to_string();
    (kind.status(), headers, Bytes::from(body))
}

/// The event that ends a running stream in failure. No success terminator may follow it.
#[must_use]
pub fn stream_event(dialect: Dialect, kind: &ErrorKind, request_id: &str) -> Bytes {
    Bytes::from(dialect.vendor().error_event(kind, request_id))
}

#[cfg(test)]
mod tests;
