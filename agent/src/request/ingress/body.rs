//! Reads a caller's body within bounds of bytes, of silence and of time, and out of its content
//! coding.

use super::budget::Share;
use crate::clock;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use lanekeeper_model::gateway::Limits;
use lanekeeper_protocol::coding::{Codings, DecodeError, UnknownCoding};
use lanekeeper_protocol::error_body::ErrorKind;
use std::time::{Duration, Instant};

/// Most bytes of a refused request's body that are read and thrown away, so that a client which
/// sends first and reads afterwards gets to see the refusal.
const DISCARD_MAX_BYTES: usize = 64 * 1024 * 1024;
/// A peer that is silent for so long while its body is thrown away may be waiting for the answer.
const DISCARD_SILENCE: Duration = Duration::from_millis(500);
/// Largest buffer set aside for a length that a client announces.
const RESERVE_MAX_BYTES: usize = 256 * 1024;
/// Compressed bodies up to this many bytes are decoded in place; larger ones off the worker's
/// thread, where other requests would wait for them.
const DECODE_IN_PLACE_MAX_BYTES: usize = 16 * 1024;

/// Why a body cannot be had.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is larger than allowed, as it came or once it is decoded.
    TooLarge,
    /// It did not come in time.
    TooSlow,
    /// It ended before its end.
    BrokenOff,
    /// The bodies of other requests take all the room.
    NoRoom,
    /// It is in a coding that cannot be read.
    UnknownCoding,
    /// It is not in the coding that it claims.
    Malformed,
}

impl From<DecodeError> for Unread {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::TooLarge => Self::TooLarge,
            DecodeError::NoRoom => Self::NoRoom,
            DecodeError::Malformed => Self::Malformed,
        }
    }
}

impl Unread {
    /// As the caller is answered.
    pub(super) fn refusal(self, limits: &Limits) -> ErrorKind {
        let bad = |message: &str| ErrorKind::BadRequest {
            message: message.to_owned(),
            field: None,
        };
        match self {
            Self::TooLarge => ErrorKind::TooLarge {
                limit: limits.body_max_bytes,
            },
            Self::TooSlow => ErrorKind::RequestTimeout,
            Self::BrokenOff => bad("The request's body was broken off."),
            Self::NoRoom => ErrorKind::Busy,
            Self::UnknownCoding => ErrorKind::UnsupportedCoding,
            Self::Malformed => bad("The request's body is not in the content encoding it claims."),
        }
    }
}

/// A body and its share of the room.
pub(super) struct Held {
    pub(super) bytes: Bytes,
    pub(super) share: Share,
}

/// The whole body, decoded; `share` grows with what is held of it. The headers are left as those of
/// a body without a content coding.
///
/// # Errors
///
/// [`Unread`]; what is left of the body has been thrown away where that lets the caller see why.
pub(super) async fn read(
    mut body: Incoming,
    headers: &mut HeaderMap,
    limits: &Limits,
    mut share: Share,
) -> Result<Held, Unread> {
    let codings = match Codings::of(headers) {
        Ok(codings) => codings,
        Err(UnknownCoding) => {
            pass_over(body, headers, limits).await;
            return Err(Unread::UnknownCoding);
        }
    };
    let bytes = match collect(&mut body, headers, limits, &mut share).await {
        Ok(bytes) => bytes,
        Err(unread) => {
            drop(share);
            if matches!(unread, Unread::TooLarge | Unread::NoRoom) {
                pass_over(body, headers, limits).await;
            }
            return Err(unread);
        }
    };
    if codings.is_empty() {
        return Ok(Held { bytes, share });
    }
    headers.remove(CONTENT_ENCODING);
    headers.remove(CONTENT_LENGTH);
    decode(codings, bytes, limits.body_max_bytes, share).await
}

async fn decode(
    codings: Codings,
    coded: Bytes,
    most: usize,
    mut share: Share,
) -> Result<Held, Unread> {
    let in_place = coded.len() <= DECODE_IN_PLACE_MAX_BYTES;
    let work = move || {
        let plain = codings.decode(&coded, most, |more| share.grow(more))?;
        drop(coded);
        share.shrink_to(plain.len());
        Ok(Held {
            bytes: Bytes::from(plain),
            share,
        })
    };
    if in_place {
        return work();
    }
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(Unread::Malformed))
}

/// The body as it comes, in one piece.
async fn collect(
    body: &mut Incoming,
    headers: &HeaderMap,
    limits: &Limits,
    share: &mut Share,
) -> Result<Bytes, Unread> {
    let most = limits.body_max_bytes;
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<usize>().ok())
        .unwrap_or_default();
    if announced > most {
        return Err(Unread::TooLarge);
    }
    let began = clock::now();
    let end = began.checked_add(limits.body_total).unwrap_or(began);
    let mut first: Option<Bytes> = None;
    let mut joined = BytesMut::new();
    let mut len = 0usize;
    while let Some(frame) = next(body, end, limits.body_timeout).await? {
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        len = len.saturating_add(chunk.len());
        if len > most {
            return Err(Unread::TooLarge);
        }
        if !share.grow(chunk.len()) {
            return Err(Unread::NoRoom);
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

/// The next piece, which may come `silence` from now, and not after `end`.
async fn next(
    body: &mut Incoming,
    end: Instant,
    silence: Duration,
) -> Result<Option<Frame<Bytes>>, Unread> {
    // Most often it is here already, and nothing has to be set up for a wait.
    let frame = match body.frame().now_or_never() {
        Some(frame) => frame,
        None => {
            let now = clock::now();
            let deadline = now.checked_add(silence).unwrap_or(end).min(end);
            tokio::time::timeout_at(deadline.into(), body.frame())
                .await
                .map_err(|_| Unread::TooSlow)?
        }
    };
    frame.transpose().map_err(|_| Unread::BrokenOff)
}

/// Throws away what is left of a refused request's body.
pub(super) async fn pass_over(mut body: Incoming, headers: &HeaderMap, limits: &Limits) {
    // A client that waits for our consent has sent nothing yet.
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let began = clock::now();
    let end = began.checked_add(limits.body_timeout).unwrap_or(began);
    let mut discarded = 0usize;
    while discarded < DISCARD_MAX_BYTES {
        // Who is slower than this finds the connection closed.
        match next(&mut body, end, DISCARD_SILENCE).await {
            Ok(Some(frame)) => {
                discarded = discarded.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            }
            Ok(None) | Err(_) => return,
        }
    }
}
