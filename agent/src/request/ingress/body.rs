//! Reads a caller's body within a bound of bytes and of time.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use lanekeeper_model::gateway::Limits;
use lanekeeper_protocol::error_body::ErrorKind;

/// Most bytes of a refused request's body that are read and thrown away, so that a client which
/// sends first and reads afterwards gets to see the refusal.
const DISCARD_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Largest buffer set aside on a client's word about its body's length.
const RESERVE_MAX_BYTES: usize = 256 * 1024;

/// The whole body.
///
/// # Errors
///
/// Too large, too slow, or broken off.
pub(super) async fn read(
    body: Incoming,
    headers: &HeaderMap,
    limits: &Limits,
) -> Result<Bytes, ErrorKind> {
    tokio::time::timeout(limits.body_timeout, collect(body, headers, limits))
        .await
        .unwrap_or(Err(ErrorKind::RequestTimeout))
}

async fn collect(
    mut body: Incoming,
    headers: &HeaderMap,
    limits: &Limits,
) -> Result<Bytes, ErrorKind> {
    let most = limits.body_max_bytes;
    let too_large = ErrorKind::TooLarge { limit: most };
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<usize>().ok())
        .unwrap_or_default();
    if announced > most {
        // A client that waits for our consent has sent nothing yet.
        if !headers.contains_key(EXPECT) {
            discard(body, 0).await;
        }
        return Err(too_large);
    }
    let mut first: Option<Bytes> = None;
    let mut joined = BytesMut::new();
    let mut len = 0usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ErrorKind::BadRequest {
            message: "The request's body was broken off.".to_owned(),
            field: None,
        })?;
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        len = len.saturating_add(chunk.len());
        if len > most {
            drop(joined);
            discard(body, len).await;
            return Err(too_large);
        }
        match first.take() {
            // Most bodies come in one piece, which is used as it is.
            None if joined.is_empty() => first = Some(chunk),
            None => joined.extend_from_slice(&chunk),
            Some(before) => {
                joined.reserve(announced.min(RESERVE_MAX_BYTES).max(len));
                joined.extend_from_slice(&before);
                joined.extend_from_slice(&chunk);
            }
        }
    }
    Ok(first.unwrap_or_else(|| joined.freeze()))
}

/// Throws the body of a request away that is refused for its head.
pub(super) async fn pass_over(body: Incoming, headers: &HeaderMap, limits: &Limits) {
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    // Who is slower than this finds the connection closed.
    _ = tokio::time::timeout(limits.body_timeout, discard(body, 0)).await;
}

async fn discard(mut body: Incoming, mut read: usize) {
    while read < DISCARD_MAX_BYTES {
        match body.frame().await {
            Some(Ok(frame)) => {
                read = read.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            }
            Some(Err(_)) | None => return,
        }
    }
}
