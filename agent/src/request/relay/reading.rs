//! What the frames of a running answer show, and which of them pass.
//!
//! Runs of plain frames pass unread; every other one is classified once.

use super::Relay;
use super::death::{Death, speaks_for_itself};
use lanekeeper_breaker::CauseKind;
use lanekeeper_protocol::frame::{self, FrameKind};
use lanekeeper_protocol::sse::{self, SseReader};
use lanekeeper_protocol::verdict::{Rules, Verdict};

/// What became of a frame.
pub(super) enum Next {
    /// It passes.
    Frame,
    None,
    /// The answer is over, and what follows it takes too long.
    Enough,
    Death(Death),
}

impl Relay {
    /// Passes on every whole frame the reader has.
    pub(super) fn pass(&mut self, mut reader: Box<SseReader>) {
        let mut death = None;
        let mut enough = false;
        // Once for the frames of this chunk, and again behind one that began in an earlier one.
        let mut glances: u8 = 2;
        while death.is_none() {
            if glances > 0 {
                glances -= 1;
                self.pass_plain(&mut reader);
            }
            match self.next(&mut reader) {
                Next::Frame => reader.keep(),
                Next::None => break,
                Next::Enough => {
                    enough = true;
                    break;
                }
                Next::Death(found) => {
                    if found.is_shown {
                        reader.keep();
                    }
                    death = Some(found);
                }
            }
        }
        reader.hand_out(&mut self.ready);
        self.reader = Some(reader);
        if let Some(death) = &death {
            self.die(death);
        } else if enough {
            self.end_well();
        }
    }

    /// Passes on the frames ahead that need no reading, all at once.
    fn pass_plain(&mut self, reader: &mut SseReader) {
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
        let run = frame::plain_run(self.origin.dialect.vendor(), reader.ahead());
        if run > 0 {
            reader.keep_ahead(run);
            self.silence.end();
        }
    }

    /// The next frame, judged.
    fn next(&mut self, reader: &mut SseReader) -> Next {
        match reader.next_frame() {
            Ok(Some(frame)) if self.closed && !self.tail.takes(frame.raw.len()) => Next::Enough,
            Ok(Some(frame)) => self.judge(&frame),
            Ok(None) if self.closed && !self.tail.has_room(reader.held_bytes()) => Next::Enough,
            Ok(None) => Next::None,
            Err(_) => Next::Death(Death::of(Verdict::transient(CauseKind::BadBody))),
        }
    }

    pub(super) fn judge(&mut self, frame: &sse::Frame) -> Next {
        if let Some(trace) = self.books.as_mut().and_then(|(attempt, _)| attempt.trace()) {
            trace.frame(frame);
        }
        let kind = match &self.books {
            Some((attempt, _)) => {
                let rules = Rules {
                    vendor: self.origin.dialect.vendor(),
                    error_map: &attempt.lane().provider.error_map,
                    passthrough: self.origin.passthrough,
                };
                if self.awaits_content {
                    frame::classify(rules, self.origin.dialect, frame)
                } else {
                    frame::watch(rules, self.origin.dialect, frame)
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
                return Next::Death(Death {
                    is_shown: speaks_for_itself(&verdict),
                    verdict: *verdict,
                });
            }
            FrameKind::Ping => {}
            FrameKind::Content | FrameKind::Lifecycle => self.progress(),
            FrameKind::Finish { .. } => {
                self.finished = true;
                self.progress();
                if frame::closes_by_finish(self.origin.dialect.vendor()) {
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
        Next::Frame
    }

    /// Something of the answer came. Nothing behind its closing frame is part of it.
    fn progress(&mut self) {
        if !self.closed || frame::closes_by_finish(self.origin.dialect.vendor()) {
            self.silence.end();
        }
    }
}
