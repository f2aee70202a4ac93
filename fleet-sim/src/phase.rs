//! What the whole swarm is busy with: answers that are quick on a calm day are slow while thousands
//! dial, and one figure over both tells neither.

use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So long after the last session opened, or came back, the swarm is busy with that: an interval
/// of reports, and what its spread adds.
const OPENING_LASTS: Duration = Duration::from_secs(12);
/// So long after the last push it is busy with that.
const PUSHING_LASTS: Duration = Duration::from_secs(2);

/// What the swarm is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Sessions open for the first time.
    Dialling,
    /// Reports, and transitions of cells.
    Steady,
    /// A revision spreads.
    Pushing,
    /// Sessions were lost and open again.
    Returning,
}

/// Tells the phase from what happened last.
#[derive(Debug)]
pub(crate) struct Phases {
    began: Instant,
    /// Milliseconds from `began` to the last opening and the last push.
    opened_ms: AtomicU64,
    pushed_ms: AtomicU64,
    has_pushed: AtomicBool,
    has_lost: AtomicBool,
}

impl Phases {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: now,
            opened_ms: AtomicU64::new(0),
            pushed_ms: AtomicU64::new(0),
            has_pushed: AtomicBool::new(false),
            has_lost: AtomicBool::new(false),
        }
    }

    /// A session opened.
    pub(crate) fn opened(&self, now: Instant) {
        self.opened_ms
            .fetch_max(self.millis(now), Ordering::Relaxed);
    }

    /// A session that was open is over.
    pub(crate) fn lost(&self) {
        self.has_lost.store(true, Ordering::Relaxed);
    }

    /// A push arrived.
    pub(crate) fn pushed(&self, now: Instant) {
        self.pushed_ms
            .fetch_max(self.millis(now), Ordering::Relaxed);
        self.has_pushed.store(true, Ordering::Relaxed);
    }

    /// The phase; `all_connected` when every agent of the run has a session.
    pub(crate) fn at(&self, now: Instant, all_connected: bool) -> Phase {
        let within = |last: &AtomicU64, lasts: Duration| {
            let since_ms = self
                .millis(now)
                .saturating_sub(last.load(Ordering::Relaxed));
            Duration::from_millis(since_ms) < lasts
        };
        if !all_connected || within(&self.opened_ms, OPENING_LASTS) {
            if self.has_lost.load(Ordering::Relaxed) {
                Phase::Returning
            } else {
                Phase::Dialling
            }
        } else if self.has_pushed.load(Ordering::Relaxed) && within(&self.pushed_ms, PUSHING_LASTS)
        {
            Phase::Pushing
        } else {
            Phase::Steady
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_swarm_dials_is_steady_spreads_a_revision_and_returns() {
        let began = clock::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let phases = Phases::new(began);
        assert_eq!(phases.at(at(1), false), Phase::Dialling);
        phases.opened(at(2));
        phases.pushed(at(2));
        assert_eq!(phases.at(at(13), true), Phase::Dialling);
        assert_eq!(phases.at(at(15), true), Phase::Steady);
        phases.pushed(at(20));
        assert_eq!(phases.at(at(21), true), Phase::Pushing);
        assert_eq!(phases.at(at(23), true), Phase::Steady);
        phases.lost();
        assert_eq!(phases.at(at(30), false), Phase::Returning);
        phases.opened(at(31));
        assert_eq!(phases.at(at(32), true), Phase::Returning);
        assert_eq!(phases.at(at(44), true), Phase::Steady);
    }
}
