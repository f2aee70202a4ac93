//! Spreads accepted connections over time. A fleet that lost its server dials at one moment; what
//! is admitted slowly enough to be served is back sooner than what is admitted at once and times
//! out.

use std::time::{Duration, Instant};

/// Connections accepted in each second.
const ACCEPTS_PER_SEC: u32 = 1_000;
/// Connections beyond that rate that are accepted at once after a pause.
const ACCEPTS_BURST: u32 = 100;

/// When connections may be accepted.
#[derive(Debug)]
pub(crate) struct Pace {
    next: Instant,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: now }
    }

    /// When the next connection may be accepted; the call takes that place.
    pub(crate) fn next(&mut self, now: Instant) -> Instant {
        let step = Duration::from_secs(1) / ACCEPTS_PER_SEC;
        let earliest = now.checked_sub(step * ACCEPTS_BURST).unwrap_or(now);
        self.next = (self.next + step).max(earliest);
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_herd_is_admitted_at_a_bounded_rate() {
        let now = clock::now();
        let mut pace = Pace::new(now);
        let last = (0..10_000).map(|_| pace.next(now)).max().unwrap();
        let took = last.saturating_duration_since(now);
        assert!(took <= Duration::from_secs(10), "{took:?}");
        assert!(took > Duration::from_secs(9), "{took:?}");
    }

    #[test]
    fn a_pause_is_worth_a_bounded_burst() {
        let now = clock::now();
        let mut pace = Pace::new(now);
        let later = now + Duration::from_secs(3600);
        let at_once = (0..1_000).filter(|_| pace.next(later) <= later).count();
        assert!((100..=101).contains(&at_once), "{at_once}");
    }
}
