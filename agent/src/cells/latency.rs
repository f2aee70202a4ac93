//! How fast a member has answered lately, for the strategy that ranks by it.

use std::sync::atomic::{AtomicU64, Ordering};
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
}

impl Latency {
    pub(super) fn record(&self, now: Instant, sample: Duration) {
        let sample = sample.as_micros().min(u128::from(u64::MAX)) as u64;
        let before = self.average_micros.load(Ordering::Relaxed);
        let after = if before == 0 {
            sample
        } else {
            let blended = before as f64 * (1.0 - SAMPLE_WEIGHT) + sample as f64 * SAMPLE_WEIGHT;
            blended as u64
        };
        self.average_micros.store(after.max(1), Ordering::Relaxed);
        self.touch(now);
    }

    pub(super) fn touch(&self, now: Instant) {
        let origin = *self.origin.get_or_init(|| now);
        let age = now.saturating_duration_since(origin).as_micros() as u64;
        self.fed_micros.store(age, Ordering::Relaxed);
    }

    pub(super) fn read(&self, now: Instant) -> Option<Duration> {
        let origin = *self.origin.get()?;
        let fed = origin + Duration::from_micros(self.fed_micros.load(Ordering::Relaxed));
        (now.saturating_duration_since(fed) < STALE_AFTER)
            .then(|| Duration::from_micros(self.average_micros.load(Ordering::Relaxed)))
    }
}
