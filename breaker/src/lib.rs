//! The breaker cell: a pure state machine that decides, for one lane in one pool, whether an
//! attempt may go out.

mod admission;
mod cell;
mod cooldown;
pub mod limits;
mod outcome;
mod overrides;
mod policy;
pub mod presets;
mod transition;
mod view;
mod window;
mod words;

pub use admission::{Admission, Refusal, RefusalReason, Ticket};
pub use cell::Cell;
pub use outcome::{Cause, CauseKind, Outcome};
pub use overrides::{Override, OverrideAction};
pub use policy::{
    HardDownScope, Mode, Policy, PolicyProblem, Recovery, Rules, StreamDeath, Trip, TripMode,
    WindowKind,
};
pub use transition::{Reason, State, Transition};
pub use view::{OverrideView, Selectable, View};
