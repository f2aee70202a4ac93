//! The beginning of a streamed answer, held back until content, an error or the end shows what it
//! is.
//!
//! Comments, pings and lifecycle frames prove nothing: a caller that had seen them could not be
//! moved to another lane any more.

use super::{
    Answer, AnswerBody, Attempted, Bounds, HELD_MAX_BYTES, Outbound, Passage, Running, stands_for,
};
use crate::clock;
use crate::observe::trace::AttemptTrace;
use crate::upstream;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::response;
use http_body_util::BodyExt as _;
use lanekeeper_breaker::CauseKind;
use lanekeeper_protocol::Vendor;
use lanekeeper_protocol::frame::{self, FrameKind};
use lanekeeper_protocol::headers;
use lanekeeper_protocol::sse::Frame;
use lanekeeper_protocol::verdict::{Rules, Verdict};
use std::collections::VecDeque;
use std::time::Instant;

/// Held frames up to this many bytes are copied out of the network buffer before a wait.
const DETACH_MAX_BYTES: usize = 4 * 1024;

/// Reads a stream, of which `chunks` are here, up to the point where it may go to the caller.
pub(super) async fn read(
    rules: Rules<'_>,
    outbound: Outbound<'_>,
    mut head: response::Parts,
    mut body: upstream::Body,
    chunks: VecDeque<Bytes>,
    bounds: Bounds,
    mut trace: Option<&mut AttemptTrace>,
) -> Attempted {
    let mut passage = outbound.passage();
    for chunk in chunks {
        passage.push(chunk);
    }
    let dialect = outbound.dialect();
    let mut opening = Opening::default();
    let mut held_until: Option<Instant> = None;
    let mut heard = false;
    loop {
        loop {
            let frame = match passage.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(_) => return failed(CauseKind::BadBody),
            };
            if let Some(trace) = &mut trace {
                trace.frame(&frame);
            }
            match frame::classify(rules, dialect, &frame) {
                FrameKind::Error(verdict) if !opening.is_over(rules.vendor) => {
                    return embedded_error(head, *verdict, &frame);
                }
                kind => opening.take(&kind, frame.raw.len()),
            }
            if passage.keep(&frame).is_err() {
                return failed(CauseKind::BadBody);
            }
            if opening.closed {
                return opening.ended(rules.vendor, head, &mut passage);
            }
            if opening.is_full() || (opening.content && bounds.hold.is_zero()) {
                return opening.running(head, body, passage);
            }
        }
        let deadline = if opening.content {
            let now = clock::now();
            *held_until.get_or_insert_with(|| now.checked_add(bounds.hold).unwrap_or(now))
        } else {
            bounds.content
        };
        // Most often the answer is here already, and nothing has to be set up for a wait.
        let next = match body.frame().now_or_never() {
            Some(next) => Ok(next),
            None => {
                headers::detach(&mut head.headers);
                passage.detach(DETACH_MAX_BYTES);
                tokio::time::timeout_at(deadline.into(), body.frame()).await
            }
        };
        match next {
            Err(_) if opening.content => return opening.running(head, body, passage),
            // The time that the caller's request has is not the lane's own.
            Err(_) if heard && bounds.content >= bounds.request => {
                return Attempted::Failed(Verdict::out_of_time(), None);
            }
            Err(_) => return failed(CauseKind::Timeout),
            Ok(Some(Err(error))) => {
                return Attempted::Failed(error.verdict(), None);
            }
            Ok(Some(Ok(frame))) => {
                if let Ok(chunk) = frame.into_data() {
                    heard = true;
                    passage.push(chunk);
                }
            }
            Ok(None) => break,
        }
    }
    // A last frame without its blank line still counts.
    if let Some(frame) = passage.last_frame() {
        if let Some(trace) = &mut trace {
            trace.frame(&frame);
        }
        match frame::classify(rules, dialect, &frame) {
            FrameKind::Error(verdict) if !opening.is_over(rules.vendor) => {
                return embedded_error(head, *verdict, &frame);
            }
            kind => opening.take(&kind, frame.raw.len()),
        }
        if passage.keep(&frame).is_err() {
            return failed(CauseKind::BadBody);
        }
    }
    opening.ended(rules.vendor, head, &mut passage)
}

/// What the held frames show.
#[derive(Default)]
struct Opening {
    /// Bytes of the frames that the reader keeps meanwhile.
    held_bytes: usize,
    /// A document of the answer has come, whatever it says.
    begun: bool,
    /// There is something the caller can use.
    content: bool,
    /// The model's turn has ended.
    finished: bool,
    /// The protocol's closing frame has come.
    closed: bool,
}

impl Opening {
    fn take(&mut self, kind: &FrameKind, bytes: usize) {
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        self.content |= kind.says_something();
        match kind {
            FrameKind::Content | FrameKind::Lifecycle => self.begun = true,
            FrameKind::Finish { .. } => {
                self.begun = true;
                self.finished = true;
            }
            FrameKind::Terminal { .. } => self.closed = true,
            FrameKind::Ping | FrameKind::Error(_) => {}
        }
    }

    /// The answer is whole, and what follows changes nothing any more.
    fn is_over(&self, vendor: &dyn Vendor) -> bool {
        self.finished && frame::closes_by_finish(vendor)
    }

    fn is_full(&self) -> bool {
        self.held_bytes > HELD_MAX_BYTES
    }

    fn running(
        self,
        head: response::Parts,
        upstream: upstream::Body,
        passage: Box<Passage>,
    ) -> Attempted {
        Attempted::Content(Answer {
            head,
            body: AnswerBody::Running(Running {
                held: VecDeque::new(),
                upstream,
                passage: Some(passage),
                finished: self.finished,
                content: self.content,
            }),
        })
    }

    /// The stream is over before anything of it went to the caller.
    fn ended(self, vendor: &dyn Vendor, head: response::Parts, passage: &mut Passage) -> Attempted {
        // OpenAI's closing frame is a bare word: behind nothing it closes nothing.
        let is_bare = frame::closes_by_word(vendor) && !self.begun;
        let regular = frame::is_whole(vendor, self.finished, self.closed) && !is_bare;
        if !regular {
            return failed(CauseKind::Truncated);
        }
        if passage.end().is_err() {
            return failed(CauseKind::BadBody);
        }
        let mut held = VecDeque::new();
        passage.hand_out(&mut held);
        if self.content {
            Attempted::Content(Answer::of_frames(head, held))
        } else {
            Attempted::Empty(Answer::of_frames(head, held))
        }
    }
}

fn failed(kind: CauseKind) -> Attempted {
    Attempted::Failed(Verdict::transient(kind), None)
}

/// An error that opened a stream, as an answer with a status that says so.
fn embedded_error(mut head: response::Parts, verdict: Verdict, frame: &Frame) -> Attempted {
    head.status = stands_for(&verdict);
    head.headers.remove(CONTENT_LENGTH);
    head.headers
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let data = frame.data().unwrap_or_default();
    let body = AnswerBody::Whole(Bytes::copy_from_slice(&data));
    Attempted::Failed(verdict, Some(Answer { head, body }))
}
