//! Why a pool cannot serve a request now, and how long that is known to last.

use lanekeeper_breaker::{Refusal, RefusalReason};
use lanekeeper_protocol::error_body::Shortage;
use std::time::Duration;

/// Retry-After floor when nothing but a permit or a probe's result is missing.
pub(crate) const SATURATION_RETRY_AFTER: Duration = Duration::from_secs(2);

/// Why no member could be chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Exhaustion {
    /// The soonest moment one of the members this request may use can be asked again.
    pub(crate) soonest: Option<Duration>,
    /// A member's cell would admit, but its lane has no permit left.
    pub(crate) saturated: bool,
}

impl Exhaustion {
    /// What either of two pools says.
    pub(crate) fn or(mut self, other: Self) -> Self {
        if let Some(soonest) = other.soonest {
            self.wait(soonest);
        }
        self.saturated |= other.saturated;
        self
    }

    pub(super) fn wait(&mut self, retry_in: Duration) {
        self.soonest = Some(
            self.soonest
                .map_or(retry_in, |soonest| soonest.min(retry_in)),
        );
    }

    pub(super) fn refuse(&mut self, refusal: Refusal) {
        match (refusal.retry_in, refusal.reason) {
            (Some(retry_in), _) => self.wait(retry_in),
            // Nobody knows how long a probe takes, but it is one request.
            (None, RefusalReason::ProbeBusy) => self.wait(SATURATION_RETRY_AFTER),
            (None, _) => {}
        }
    }

    pub(super) fn saturate(&mut self) {
        self.saturated = true;
    }

    /// What is short, where no member was asked.
    pub(crate) fn shortage(&self) -> Shortage {
        match self {
            Self {
                soonest: None,
                saturated: true,
            } => Shortage::LanesBusy,
            _ => Shortage::CircuitOpen,
        }
    }

    /// What the caller is told to wait, before rounding: genuine expiries, and the floor for
    /// saturation where a permit is what is missing.
    pub(crate) fn retry_in(&self) -> Option<Duration> {
        match (self.soonest, self.saturated) {
            (Some(soonest), true) => Some(soonest.min(SATURATION_RETRY_AFTER)),
            (Some(soonest), false) => Some(soonest),
            (None, true) => Some(SATURATION_RETRY_AFTER),
            (None, false) => None,
        }
    }
}
