//! The breaker cell: a pure state machine that decides, for one lane in one pool, whether an
//! attempt may go out, from what earlier attempts proved.
//!
//! Closed passes, open refuses, half-open lets probes through. A [`Cell`] is a plain value: time
//! (monotonic) and randomness are arguments, state changes are return values, and nothing in here
//! waits, locks, logs or calls back.
//!
//! Every attempt begins with [`Cell::admit`] and ends with exactly one [`Cell::settle`] or
//! [`Cell::abandon`]; [`Cell::commit`] comes between when the attempt delivers its first content.
//! The [`Ticket`] that links them carries the generation of the cell, which every state change
//! moves on, so that a late result cannot decide about a state it never saw.
//!
//! | state | event | effect |
//! |---|---|---|
//! | Closed | commit | the window gains a good outcome (a failure, when the content came slowly) |
//! | Closed | success | streak 0, a soft park ends, the window gains a good outcome unless it has it already |
//! | Closed | transient | the window gains a failure (a committed stream turns into one), streak + 1; a trip rule met: Open with k = 0; else the lane is parked |
//! | Closed | hard-down | Open with the sticky cooldown, whatever the window holds |
//! | Closed, HalfOpen | neutral, abandon | nothing recorded; a committed stream is taken back, a probe slot is free at once |
//! | Closed, hard-parked | admit | refused, with the time left |
//! | Open | admit before the deadline | refused, with the time left |
//! | Open | admit after the deadline | HalfOpen; this attempt is the probe |
//! | HalfOpen | admit | a probe while a slot is free, else refused |
//! | HalfOpen | probe commits (where `closes_at` is content) or succeeds | with enough successes Closed: window, streak and k cleared, the ramp begins |
//! | HalfOpen | probe fails, or succeeds slowly | Open with k + 1, whatever the window holds |
//! | HalfOpen | probe's hard-down | Open with k + 1 and the sticky cooldown |
//! | HalfOpen | probe's lease ends | its slot is free; its late result is ignored |
//! | any | result of an older generation | nothing, but a longer Retry-After puts off the end of a cooldown |
//! | any | active probe succeeds | Closed, unless a hard-down arrived since that probe began |
//! | Open by hard-down | credential changed | HalfOpen, no slot taken |
//! | any | force open, drain | refuses until released or ended; the machine beneath goes on |
//! | any | force close | the machine closes; everything passes and is recorded, nothing trips |
//! | any | reset | Closed without history |
//!
//! A cooldown lasts `min(base * 2^k, max)`, moved within a jitter band, and never less than the
//! server's Retry-After (up to [`limits::RETRY_AFTER_MAX`]). A park is soft for the policy's time
//! (chosen only when nothing else can be) and hard for the server's (refused).
//!
//! In [`Mode::Observe`] the whole machine runs and its transitions are returned, marked
//! [`observed`](Transition::observed), but nothing is refused and the state shown stays closed.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::{Duration, Instant};
//! use lanekeeper_breaker::{Admission, Cause, CauseKind, Cell, Outcome, State, presets};
//!
//! # fn main() -> Result<(), &'static str> {
//! # #[expect(clippy::disallowed_methods)]
//! let start = Instant::now();
//! let attempt_timeout = Duration::from_secs(10);
//! let mut cell = Cell::new(Arc::new(presets::rolter()), start);
//!
//! let failure = Outcome::Transient {
//!     cause: Cause::with_status(CauseKind::Status, 503),
//!     retry_after: None,
//! };
//! let mut last = None;
//! for _ in 0..5 {
//!     let Admission::Pass(ticket) = cell.admit(start, attempt_timeout) else {
//!         return Err("a closed cell passes");
//!     };
//!     last = cell.settle(ticket, failure, start, 0.5);
//! }
//! assert_eq!(last.map(|change| change.to), Some(State::Open));
//!
//! // After the cooldown the first attempt is the probe, and its first content closes the cell.
//! let later = start + Duration::from_secs(30);
//! let Admission::Probe(mut probe, _) = cell.admit(later, attempt_timeout) else {
//!     return Err("the cooldown is over");
//! };
//! assert!(matches!(cell.admit(later, attempt_timeout), Admission::Refuse(_)));
//! let closed = cell.commit(&mut probe, later);
//! assert_eq!(closed.map(|change| change.to), Some(State::Closed));
//! cell.settle(probe, Outcome::Success, later, 0.5);
//! # Ok(())
//! # }
//! ```

mod admission;
mod cell;
mod cooldown;
pub mod limits;
mod names;
mod outcome;
mod overrides;
mod policy;
pub mod presets;
mod transition;
mod view;
mod window;

pub use admission::{Admission, Refusal, RefusalReason, Ticket};
pub use cell::Cell;
pub use outcome::{Cause, CauseKind, Outcome};
pub use overrides::{Override, OverrideAction};
pub use policy::{
    ClosesAt, HardDownScope, Mode, Policy, PolicyProblem, Recovery, Rules, StreamDeath, Trip,
    TripMode, Uncounted, WindowKind,
};
pub use transition::{Reason, State, Transition};
pub use view::{OverrideView, Selectable, View};
