//! Writing JSON and server-sent events into a buffer.

use serde::Serialize;

/// What keeps a connection busy in dialects that have no event for it: a comment.
pub(crate) const COMMENT: &[u8] = b": ping\n\n";

/// Appends `value` as JSON.
pub(crate) fn json(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    // A buffer takes everything, and the writers' own types have no value that JSON lacks.
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// `value` as a document.
pub(crate) fn document(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    json(&mut out, value);
    out
}

/// Appends an event that says its kind.
pub(crate) fn event(out: &mut Vec<u8>, kind: &str, data: &impl Serialize) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    json(out, data);
    out.extend_from_slice(b"\n\n");
}
