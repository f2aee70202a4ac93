//! Whether a success is an event stream, told by its first bytes: what an answer is labelled as
//! depends on proxies and frameworks in front of the model.

use super::HELD_MAX_BYTES;
use crate::upstream;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use lanekeeper_breaker::CauseKind;
use lanekeeper_protocol::verdict::Verdict;
use std::collections::VecDeque;
use std::time::Instant;

/// How the lines of an event stream begin (HTML, 9.2.6).
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// Reads into `chunks` until it is told whether the body is an event stream.
///
/// # Errors
///
/// It did not come in time, or broke off.
pub(super) async fn read(
    body: &mut upstream::Body,
    chunks: &mut VecDeque<Bytes>,
    deadline: Instant,
) -> Result<bool, Verdict> {
    let mut form = Form::default();
    loop {
        // Most often it is here already, and nothing has to be set up for a wait.
        let next = match body.frame().now_or_never() {
            Some(next) => next,
            None => tokio::time::timeout_at(deadline.into(), body.frame())
                .await
                .map_err(|_| Verdict::transient(CauseKind::Timeout))?,
        };
        let Some(frame) = next.transpose().map_err(|error| error.verdict())? else {
            return Ok(false);
        };
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        let told = form.take(&chunk);
        chunks.push_back(chunk);
        match told {
            Told::TooLittle => {}
            Told::Other => return Ok(false),
            Told::Events => return Ok(true),
        }
    }
}

/// What the first bytes that are not blank say.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Events,
    Other,
    TooLittle,
}

/// The beginning of a body.
#[derive(Default)]
struct Form {
    blank: usize,
    /// At most as many bytes as the longest field has, and one chunk.
    first: Vec<u8>,
}

impl Form {
    fn take(&mut self, chunk: &[u8]) -> Told {
        let chunk = if self.first.is_empty() {
            let rest = chunk.trim_ascii_start();
            self.blank = self.blank.saturating_add(chunk.len() - rest.len());
            rest
        } else {
            chunk
        };
        let most = FIELDS.iter().map(|field| field.len()).max();
        let room = most.unwrap_or_default().saturating_sub(self.first.len());
        self.first
            .extend_from_slice(chunk.get(..room).unwrap_or(chunk));
        self.told()
    }

    fn told(&self) -> Told {
        let first = self.first.as_slice();
        if FIELDS.iter().any(|field| first.starts_with(field)) {
            return Told::Events;
        }
        match first.first() {
            None if self.blank > HELD_MAX_BYTES => Told::Other,
            None => Told::TooLittle,
            Some(_) if FIELDS.iter().any(|field| field.starts_with(first)) => Told::TooLittle,
            Some(_) => Told::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_that_are_not_blank_tell_the_form_however_they_are_cut() {
        for (body, expected) in [
            ("data: {}", Told::Events),
            ("\n\r\n  event: x", Told::Events),
            ("id:1", Told::Events),
            ("retry: 3", Told::Events),
            (": ping", Told::Events),
            (" \n{\"data\":1}", Told::Other),
            ("[{}]", Told::Other),
            ("<html>", Told::Other),
            ("database", Told::Other),
            ("data", Told::TooLittle),
            ("  \n", Told::TooLittle),
            ("", Told::TooLittle),
        ] {
            assert_eq!(Form::default().take(body.as_bytes()), expected, "{body:?}");
            let mut form = Form::default();
            let mut told = Told::TooLittle;
            for byte in body.as_bytes().chunks(1) {
                if told == Told::TooLittle {
                    told = form.take(byte);
                }
            }
            assert_eq!(told, expected, "{body:?} byte by byte");
        }
    }
}
