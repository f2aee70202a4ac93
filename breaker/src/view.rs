//! What a cell shows: a snapshot for selection, statistics and reports. Taking one changes
//! nothing.

use std::time::Duration;

use crate::admission::RefusalReason;
use crate::outcome::Cause;
use crate::overrides::OverrideAction;
use crate::policy::Mode;
use crate::transition::State;

/// Whether selection may choose the member behind a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selectable {
    /// Yes.
    Yes,
    /// Only when no other member can be chosen.
    SoftParked,
    /// Only when no other member can be chosen, for the fleet's advice alone.
    Advised,
    /// Yes, and the attempt will be a probe.
    Probe,
    /// No.
    No {
        /// When asking again can help; `None` when nobody knows.
        retry_in: Option<Duration>,
        /// Why not.
        reason: RefusalReason,
    },
}

/// An override as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverrideView {
    /// What the override does.
    pub action: OverrideAction,
    /// Time until it ends by itself.
    pub remaining: Duration,
}

/// Everything a cell shows about itself at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The mode of its policy.
    pub mode: Mode,
    /// The state as callers meet it: open while an override refuses, closed in observe and off
    /// mode. An open cell whose cooldown has ended stays open, with nothing left, until an attempt
    /// comes.
    pub state: State,
    /// The state the machine would be in if it enforced; differs from `state` only in observe
    /// mode and under an override.
    pub machine_state: State,
    /// How long `state` has held.
    pub state_age: Duration,
    /// Time since callers last met a closed cell, through every probe that failed meanwhile; zero
    /// while it is closed.
    pub open_age: Duration,
    /// Time until the cell may probe, or until an override that refuses ends; zero when neither.
    pub cooldown_remaining: Duration,
    /// Time until the machine beneath an override, or in observe mode, may probe.
    pub machine_cooldown_remaining: Duration,
    /// Time until the park ends, soft or hard; zero when not parked.
    pub parked_remaining: Duration,
    /// The park was asked for by the server and refuses attempts.
    pub parked_hard: bool,
    /// Failures in a row.
    pub streak: u32,
    /// Times the cell opened from closed, ever; in observe mode the would-be ones.
    pub trips: u64,
    /// Times the cell re-opened since it was last closed (k of the cooldown).
    pub reopens: u32,
    /// Good outcomes in the window.
    pub window_ok: u64,
    /// Failures in the window.
    pub window_failed: u64,
    /// Cause of the last failure, while it still matters.
    pub cause: Option<Cause>,
    /// Failures in a row with exactly that cause.
    pub cause_count: u64,
    /// The cell is open because of an authentication or billing failure.
    pub hard_down: bool,
    /// Whether selection may choose this member.
    pub selectable: Selectable,
    /// Share of its weight the member should have now: below 1 during a ramp.
    pub weight_factor: f64,
    /// The override in force.
    pub override_: Option<OverrideView>,
    /// Time until the fleet's advisory ends.
    pub advisory_remaining: Option<Duration>,
}
