//! Signs of life of the proxy threads: each beats once a second, and one that stopped is stuck.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between beats.
pub(crate) const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Silence after which a thread counts as stuck. Long, so that a busy machine is not mistaken for
/// a broken agent and restarted under load.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// The last beat of each thread.
#[derive(Debug)]
pub(crate) struct Pulse {
    origin: Instant,
    /// Milliseconds from the origin.
    beats: Box<[AtomicU64]>,
}

impl Pulse {
    /// One place per thread, all beating now.
    pub(crate) fn new(threads: usize, now: Instant) -> Self {
        Self {
            origin: now,
            beats: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A thread lives.
    pub(crate) fn beat(&self, thread: usize, now: Instant) {
        if let Some(beat) = self.beats.get(thread) {
            beat.store(self.millis(now), Ordering::Relaxed);
        }
    }

    /// The first thread that has been silent for too long.
    pub(crate) fn stalled(&self, now: Instant) -> Option<usize> {
        let now = self.millis(now);
        let longest = u64::try_from(STALLED_AFTER.as_millis()).unwrap_or(u64::MAX);
        self.beats
            .iter()
            .position(|beat| now.saturating_sub(beat.load(Ordering::Relaxed)) > longest)
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.origin).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_thread_is_found_and_a_beating_one_is_not() {
        let start = crate::clock::now();
        let pulse = Pulse::new(2, start);
        let later = start + STALLED_AFTER + Duration::from_secs(1);
        assert_eq!(pulse.stalled(later), Some(0));
        pulse.beat(0, later);
        assert_eq!(pulse.stalled(later), Some(1));
        pulse.beat(1, later);
        assert_eq!(pulse.stalled(later), None);
        pulse.beat(9, later);
    }
}
