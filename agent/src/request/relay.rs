//! The answer after its commit point: bytes go to the caller as they come, and the attempt is
//! booked when the stream ends.
//!
//! There is no total time limit here, only one on silence. Silence is measured from the moment the
//! upstream had nothing to give, so a caller that reads slowly is never taken for a stalled lane.

use crate::clock;
use crate::lanes::attempt_guard::AttemptGuard;
use crate::observe::metrics::RequestOutcome;
use crate::proof::{Circumstances, Proof};
use crate::request::attempt::{Passage, Running};
use crate::request::guard::{Counters, RequestGuard};
use crate::request::shutdown_deadline::ShutdownDeadline;
use crate::upstream;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use lanekeeper_breaker::CauseKind;
use lanekeeper_model::gateway::Timeouts;
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::error_body::{self, ErrorKind};
use lanekeeper_protocol::frame;
use lanekeeper_protocol::verdict::Verdict;
use lanekeeper_serve::BodyEnd;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

mod burst;
mod death;
mod reading;
mod silence;
mod tail;

use burst::Burst;
use death::Death;
use reading::keep;
use silence::{Longest, Silence};
use tail::Tail;

/// How long the upstream may keep the connection after the answer's closing frame, whatever it
/// sends meanwhile.
const AFTER_TERMINAL: Duration = Duration::from_secs(5);

/// What a relay needs to know about its request.
pub(crate) struct Origin {
    /// What the caller speaks.
    pub(crate) dialect: Dialect,
    /// What the lane was asked in.
    pub(crate) spoken: Dialect,
    pub(crate) request_id: String,
    pub(crate) passthrough: bool,
    pub(crate) counters: Arc<Counters>,
    /// Set when the agent's grace for running answers is over.
    pub(crate) shutdown: ShutdownDeadline,
}

/// The body of a relayed answer.
pub(crate) struct Relay {
    ready: VecDeque<Bytes>,
    upstream: upstream::Body,
    passage: Option<Box<Passage>>,
    origin: Origin,
    timeouts: Timeouts,
    silence: Silence,
    /// The model's turn has ended.
    finished: bool,
    /// The protocol's closing frame has passed.
    closed: bool,
    tail: Tail,
    burst: Burst,
    /// No content has passed yet: there was only too much before it to be held.
    awaits_content: bool,
    state: State,
    /// The answer is a stream of frames, so that the caller can be told of its death.
    has_frames: bool,
    /// What is booked at the end; gone once it is booked.
    books: Option<(Box<AttemptGuard>, Box<RequestGuard>)>,
    /// The proof and outcome of a good end.
    good_end: (Proof, RequestOutcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// The last bytes are queued; the body ends well after them.
    Ending,
    /// The last bytes are queued; the connection breaks after they have been written.
    Breaking {
        /// The writer has had its turn to send what was queued.
        flushed: bool,
    },
}

impl Relay {
    /// Takes over an answer whose content has begun.
    ///
    /// `good_end` is booked when the body ends well: an error of the lane that is relayed is no
    /// success.
    pub(crate) fn new(
        running: Running,
        origin: Origin,
        attempt: Box<AttemptGuard>,
        request: Box<RequestGuard>,
        good_end: (Proof, RequestOutcome),
    ) -> Self {
        let mut relay = Self {
            ready: running.held,
            upstream: running.upstream,
            passage: None,
            timeouts: attempt.lane().timeouts,
            closed: running.finished && frame::closes_by_finish(origin.spoken.vendor()),
            tail: Tail::new(origin.spoken.vendor()),
            burst: Burst::default(),
            origin,
            silence: Silence::default(),
            finished: running.finished,
            awaits_content: !running.content,
            state: State::Running,
            has_frames: running.passage.is_some(),
            books: Some((attempt, request)),
            good_end,
        };
        if let Some(passage) = running.passage {
            // Frames that came in one chunk with the first content.
            relay.pass(passage);
        }
        relay
    }

    /// Takes the next bytes of the upstream.
    fn take(&mut self, chunk: Bytes) {
        self.burst.add(chunk.len());
        self.silence.heard();
        let Some(mut passage) = self.passage.take() else {
            self.silence.end();
            self.ready.push_back(chunk);
            return;
        };
        passage.push(chunk);
        self.pass(passage);
    }

    fn poll_running(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyEnd>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match self.state {
                State::Running if self.burst.is_over() => {
                    self.burst.end();
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Running => {}
                State::Ending => return Poll::Ready(None),
                State::Breaking { flushed: false } => {
                    // The server writes what it has when a body has nothing more to give; an
                    // error would make it drop those bytes.
                    self.state = State::Breaking { flushed: true };
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                // Clients throw an error event away when the body behind it breaks off, so a stream
                // ends well; its missing terminator says that the answer is not whole.
                State::Breaking { flushed: true } if self.has_frames => {
                    return Poll::Ready(Some(Err(BodyEnd::WithConnection)));
                }
                State::Breaking { flushed: true } => {
                    return Poll::Ready(Some(Err(BodyEnd::BrokenOff)));
                }
            }
            match Pin::new(&mut self.upstream).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(chunk) = frame.into_data() {
                        self.take(chunk);
                    }
                    // With a known length the server asks for no further frame after the last.
                    if self.upstream.is_end_stream() {
                        self.finish();
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.die(&Death::of(error.verdict()));
                }
                Poll::Ready(None) => self.finish(),
                Poll::Pending => {
                    if self.is_silent(cx) {
                        self.die(&Death::of(Verdict::transient(CauseKind::Stalled)));
                    } else if self.origin.shutdown.is_set() {
                        self.cut_off();
                    } else {
                        self.burst.end();
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// The upstream has said all it has to say.
    fn finish(&mut self) {
        if self.state != State::Running {
            return;
        }
        if let Some(mut passage) = self.passage.take() {
            let last = passage.last_frame();
            let death = last.and_then(|frame| match self.judge(&frame) {
                None => keep(&mut passage, &frame),
                Some(death) => Some(self.shown(&mut passage, &frame, death)),
            });
            passage.hand_out(&mut self.ready);
            self.passage = Some(passage);
            if let Some(death) = &death {
                return self.die(death);
            }
            let vendor = self.origin.spoken.vendor();
            if !frame::is_whole(vendor, self.finished, self.closed) {
                return self.die(&Death::of(Verdict::transient(CauseKind::Truncated)));
            }
        }
        self.end_well();
    }

    /// The first content passes now.
    fn commit(&mut self) {
        self.awaits_content = false;
        if let Some((attempt, request)) = &mut self.books {
            let now = clock::now();
            attempt.commit(now);
            request.first_content(now);
        }
    }

    fn end_well(&mut self) {
        if let Some(mut passage) = self.passage.take() {
            if let Err(error) = passage.end() {
                tracing::debug!(%error, "the end of an answer could not be translated");
            }
            passage.hand_out(&mut self.ready);
        }
        self.state = State::Ending;
        let (proof, outcome) = self.good_end;
        // A whole answer that said nothing.
        let proof = if self.awaits_content {
            Proof::Neutral
        } else {
            proof
        };
        self.book(proof, outcome);
    }

    /// The answer broke after its content began.
    fn die(&mut self, death: &Death) {
        if self.closed {
            return self.end_well();
        }
        self.book(Proof::of(&death.verdict), RequestOutcome::Failed);
        let kind = death.kind.as_ref().unwrap_or(&ErrorKind::BadGateway);
        self.break_off((!death.is_shown).then_some(kind));
    }

    /// The agent itself failed; that says nothing about the lane.
    fn give_up(&mut self) {
        tracing::error!(
            request_id = self.origin.request_id,
            "the relay of an answer panicked"
        );
        self.origin.counters.count_panic();
        if matches!(self.state, State::Ending | State::Breaking { .. }) {
            self.state = State::Breaking { flushed: true };
            return;
        }
        self.book(Proof::Neutral, RequestOutcome::Failed);
        self.break_off(Some(&ErrorKind::Internal));
    }

    /// The agent is being shut down; that says nothing about the lane.
    fn cut_off(&mut self) {
        self.book(Proof::Neutral, RequestOutcome::Failed);
        self.break_off(Some(&ErrorKind::ShuttingDown));
    }

    fn break_off(&mut self, told: Option<&ErrorKind>) {
        if let (Some(kind), true) = (told, self.has_frames) {
            let event =
                error_body::stream_event(self.origin.dialect, kind, &self.origin.request_id);
            let event = match &self.passage {
                Some(passage) => passage.failure(event),
                None => event,
            };
            self.ready.push_back(event);
        }
        self.state = State::Breaking { flushed: false };
    }

    fn book(&mut self, proof: Proof, outcome: RequestOutcome) {
        if let Some((attempt, request)) = self.books.take() {
            let circumstances = Circumstances {
                after_content: !self.awaits_content,
                ..Circumstances::default()
            };
            attempt.settle(proof, circumstances, clock::now());
            request.end(outcome);
        }
    }

    /// True when the upstream has been silent for too long; registers to be woken then.
    fn is_silent(&mut self, cx: &mut Context<'_>) -> bool {
        let longest = if self.closed {
            Longest {
                bytes: AFTER_TERMINAL,
                content: AFTER_TERMINAL,
            }
        } else {
            Longest {
                bytes: self.timeouts.idle,
                content: self.timeouts.content_idle,
            }
        };
        self.silence.exceeds(longest, cx)
    }
}

impl http_body::Body for Relay {
    type Data = Bytes;
    type Error = BodyEnd;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyEnd>>> {
        let this = self.get_mut();
        loop {
            let polled = catch_unwind(AssertUnwindSafe(|| this.poll_running(cx)));
            match polled {
                Ok(polled) => return polled,
                Err(_) => this.give_up(),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Ending && self.ready.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Many clients hang up at the closing frame; their answer was whole.
        if self.closed {
            self.end_well();
        }
    }
}
