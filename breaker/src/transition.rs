//! State changes as values: a cell never logs or calls back, it returns what happened.

use std::time::Duration;

use crate::names::names;
use crate::outcome::Cause;

names! {
    /// The state of a cell. Closed passes, open refuses.
    pub enum State {
        /// Attempts pass.
        Closed = "closed",
        /// Attempts are refused until the cooldown ends.
        Open = "open",
        /// A bounded number of probes passes.
        HalfOpen = "half_open",
    }
}

names! {
    /// Why a cell changed its state.
    pub enum Reason {
        /// The share of failures in the window reached the threshold.
        ErrorRate = "error_rate",
        /// Enough failures in a row.
        Consecutive = "consecutive",
        /// Enough failures in the window.
        Count = "count",
        /// An authentication or billing failure.
        HardDown = "hard_down",
        /// The cooldown ended and an attempt became the probe.
        CooldownEnded = "cooldown_ended",
        /// A probe failed.
        ProbeFailed = "probe_failed",
        /// Enough probes succeeded.
        ProbeSucceeded = "probe_succeeded",
        /// An active probe succeeded.
        Recovered = "recovered",
        /// Another agent's probe succeeded.
        FleetProbeSucceeded = "fleet_probe_succeeded",
        /// The credential behind a hard-down changed.
        CredentialChanged = "credential_changed",
        /// The policy's mode changed.
        Policy = "policy",
        /// An operator's override began.
        Override = "override",
        /// An operator's override ended.
        OverrideEnded = "override_ended",
        /// An operator reset the cell.
        Reset = "reset",
    }
}

/// One change of a cell's state, for logs, counters and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
    /// Why.
    pub reason: Reason,
    /// Failures behind the decision: the streak for a consecutive trip, else those in the window.
    pub failures: u32,
    /// Outcomes in the window at the decision.
    pub samples: u32,
    /// How long the cell stays open, when it opened.
    pub cooldown: Option<Duration>,
    /// The last failure's cause, when there is one.
    pub cause: Option<Cause>,
    /// The change happened in [`Mode::Observe`](crate::Mode::Observe): nothing is refused.
    pub observed: bool,
}
