//! How fast a member has answered lately, for the strategy that ranks by it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Weight of a new sample in the moving average of the time to first content.
const SAMPLE_WEIGHT: f64 = 0.2;
/// A moving average nobody has fed for this long is worth nothing; the member is tried again.
const STALE_AFTER: Duration = Duration::from_secs(10);

/// A moving average of one duration, and when it was fed last.
///
/// It only ranks members, so a lost update between two racing writers does no harm.
#[derive(Default)]
pub(super) struct Latency {
    average_micros: AtomicU64,
    origin: std::sync::OnceLock<Instant>,
    fed_micros: AtomicU64,
    /// The next sample replaces the average: it was stale when the member was tried again.
    is_worthless: AtomicBool,
}

impl Latency {
    pub(super) fn record(&self, now: Instant, sample: Duration) {
        let sample = sample.as_micros().min(u128::from(u64::MAX)) as u64;
        let before = self.average_micros.load(Ordering::Relaxed);
        let is_worthless = self.is_worthless.load(Ordering::Relaxed);
        if is_worthless {
            self.is_worthless.store(false, Ordering::Relaxed);
        }
        let after = if is_worthless || before == 0 || self.read(now).is_none() {
            sample
        } else {
            let blended = before as f64 * (1.0 - SAMPLE_WEIGHT) + sample as f64 * SAMPLE_WEIGHT;
            blended as u64
        };
        self.average_micros.store(after.max(1), Ordering::Relaxed);
        self.feed(now);
    }

    /// One request measures the member; until its content comes, or for as long as an average
    /// lasts, the old one ranks it, and without one it comes last.
    pub(super) fn measure(&self, now: Instant) {
        self.is_worthless.store(true, Ordering::Relaxed);
        self.feed(now);
    }

    pub(super) fn read(&self, now: Instant) -> Option<Duration> {
        let origin = *self.origin.get()?;
        let fed = origin + Duration::from_micros(self.fed_micros.load(Ordering::Relaxed));
        if now.saturating_duration_since(fed) >= STALE_AFTER {
            return None;
        }
        Some(match self.average_micros.load(Ordering::Relaxed) {
            0 => Duration::MAX,
            average => Duration::from_micros(average),
        })
    }

    fn feed(&self, now: Instant) {
        let origin = *self.origin.get_or_init(|| now);
        let age = now.saturating_duration_since(origin).as_micros() as u64;
        self.fed_micros.store(age, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Latency, STALE_AFTER};
    use std::time::Duration;

    const SLOW: Duration = Duration::from_millis(200);
    const QUICK: Duration = Duration::from_millis(2);

    #[test]
    fn stale_average_is_replaced_by_the_next_sample_and_a_fresh_one_is_blended() {
        let start = crate::clock::now();
        for tried_again in [true, false] {
            let latency = Latency::default();
            latency.record(start, SLOW);
            let later = start + STALE_AFTER;
            assert_eq!(latency.read(later), None);
            if tried_again {
                latency.measure(later);
                assert_eq!(latency.read(later), Some(SLOW), "nobody follows yet");
            }
            latency.record(later, QUICK);
            assert_eq!(latency.read(later), Some(QUICK));
            latency.record(later, SLOW);
            assert!(latency.read(later) < Some(SLOW));
        }
    }

    #[test]
    fn member_under_its_first_measurement_comes_last_until_it_is_known() {
        let start = crate::clock::now();
        let latency = Latency::default();
        assert_eq!(latency.read(start), None, "it is tried");
        latency.measure(start);
        assert_eq!(latency.read(start), Some(Duration::MAX));
        assert_eq!(latency.read(start + STALE_AFTER), None, "it is tried again");
        latency.record(start, QUICK);
        assert_eq!(latency.read(start), Some(QUICK));
    }
}
