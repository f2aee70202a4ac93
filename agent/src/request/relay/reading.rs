//! What the frames of a running answer show, and which of them pass.
//!
//! Runs of plain frames pass unread; every other one is classified once.

use super::Relay;
use super::death::{Death, speaks_for_itself};
use crate::request::attempt::Passage;
use http::StatusCode;
use lanekeeper_breaker::CauseKind;
use lanekeeper_protocol::frame::{self, FrameKind};
use lanekeeper_protocol::relayed_error;
use lanekeeper_protocol::sse;
use lanekeeper_protocol::verdict::{Rules, Verdict};

/// What the lane's stream has next.
enum Found {
    Frame(sse::Frame),
    Nothing,
    /// The answer is over, and what follows it takes too long.
    Enough,
    /// It cannot be read any further.
    Death(Death),
}

impl Relay {
    /// Passes on every whole frame the reader has.
    pub(super) fn pass(&mut self, mut passage: Box<Passage>) {
        let mut death = None;
        let mut enough = false;
        // Once for the frames of this chunk, and again behind one that began in an earlier one.
        let mut glances: u8 = 2;
        while death.is_none() {
            if glances > 0 {
                glances -= 1;
                self.pass_plain(&mut passage);
            }
            match self.next(&mut passage) {
                Found::Frame(frame) => {
                    death = match self.judge(&frame) {
                        None => keep(&mut passage, &frame),
                        Some(found) => Some(self.shown(&mut passage, &frame, found)),
                    };
                }
                Found::Nothing => break,
                Found::Enough => {
                    enough = true;
                    break;
                }
                Found::Death(found) => death = Some(found),
            }
        }
        passage.hand_out(&mut self.ready);
        self.passage = Some(passage);
        if let Some(death) = &death {
            self.die(death);
        } else if enough {
            self.end_well();
        }
    }

    /// Passes on the frames ahead that need no reading, all at once.
    fn pass_plain(&mut self, passage: &mut Passage) {
        let Some((attempt, _)) = self
            .books
            .as_mut()
            .filter(|_| !self.awaits_content && !self.closed)
        else {
            return;
        };
        // A span wants to see every frame.
        if attempt.trace().is_some() {
            return;
        }
        let run = frame::plain_run(self.origin.spoken.vendor(), passage.ahead());
        if run > 0 {
            passage.keep_ahead(run);
            self.silence.end();
        }
    }

    fn next(&mut self, passage: &mut Passage) -> Found {
        match passage.next_frame() {
            Ok(Some(frame)) if self.closed && !self.tail.takes(frame.raw.len()) => Found::Enough,
            Ok(Some(frame)) => Found::Frame(frame),
            Ok(None) if self.closed && !self.tail.has_room(passage.held_bytes()) => Found::Enough,
            Ok(None) => Found::Nothing,
            Err(_) => Found::Death(Death::of(Verdict::transient(CauseKind::BadBody))),
        }
    }

    /// Judges a frame; `Some` when the answer dies of it.
    pub(super) fn judge(&mut self, frame: &sse::Frame) -> Option<Death> {
        if let Some(trace) = self.books.as_mut().and_then(|(attempt, _)| attempt.trace()) {
            trace.frame(frame);
        }
        let kind = match &self.books {
            Some((attempt, _)) => {
                let rules = Rules {
                    vendor: self.origin.spoken.vendor(),
                    error_map: &attempt.lane().provider.error_map,
                    passthrough: self.origin.passthrough,
                };
                if self.awaits_content {
                    frame::classify(rules, self.origin.spoken, frame)
                } else {
                    frame::watch(rules, self.origin.spoken, frame)
                }
            }
            None => FrameKind::Content,
        };
        if self.awaits_content && kind.says_something() {
            self.commit();
        }
        match kind {
            // What follows the closing frame changes nothing any more.
            FrameKind::Error(_) if self.closed => {}
            FrameKind::Error(verdict) => {
                return Some(Death {
                    is_shown: speaks_for_itself(&verdict),
                    verdict: *verdict,
                    kind: None,
                });
            }
            FrameKind::Ping => {}
            FrameKind::Content | FrameKind::Lifecycle => self.progress(),
            FrameKind::Finish { .. } => {
                self.finished = true;
                self.progress();
                if frame::closes_by_finish(self.origin.spoken.vendor()) {
                    self.closed = true;
                    self.silence.restart();
                }
            }
            FrameKind::Terminal { .. } if self.closed => {}
            FrameKind::Terminal { .. } => {
                self.closed = true;
                self.silence.restart();
            }
        }
        None
    }

    /// Lets the lane's own error pass where the caller may see it: as it is, or in the words of the
    /// caller's dialect.
    pub(super) fn shown(
        &self,
        passage: &mut Passage,
        frame: &sse::Frame,
        mut death: Death,
    ) -> Death {
        if !death.is_shown {
            return death;
        }
        if !passage.translates() {
            passage.keep_error(frame);
            return death;
        }
        let status = { death.verdict.status }
            .and_then(|status| StatusCode::from_u16(status).ok())
            .unwrap_or(StatusCode::BAD_GATEWAY);
        let lane = self.origin.spoken.vendor();
        let data = frame.data().unwrap_or_default();
        death.is_shown = false;
        death.kind = Some(relayed_error::of_frame(
            lane,
            self.origin.dialect,
            status,
            &data,
        ));
        death
    }

    /// Something of the answer came. Nothing behind its closing frame is part of it.
    fn progress(&mut self) {
        if !self.closed || frame::closes_by_finish(self.origin.spoken.vendor()) {
            self.silence.end();
        }
    }
}

/// Lets a frame pass; `Some` when the answer dies because it cannot be translated.
pub(super) fn keep(passage: &mut Passage, frame: &sse::Frame) -> Option<Death> {
    let error = passage.keep(frame).err()?;
    tracing::debug!(%error, "an answer cannot be translated any further");
    Some(Death::of(Verdict::transient(CauseKind::BadBody)))
}
