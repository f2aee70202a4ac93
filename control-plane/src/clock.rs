//! The only place of this crate that reads a clock or rolls a die.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time, for decisions.
#[expect(clippy::disallowed_methods, reason = "the crate's one reader of time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Unix milliseconds, for what is shown and stored.
#[expect(clippy::disallowed_methods, reason = "the crate's one reader of time")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A duration up to `share` longer or shorter than `around`; `share` is within 0 to 1.
pub(crate) fn jittered(around: Duration, share: f64) -> Duration {
    around.mul_f64(1.0 + share * (2.0 * rand::random::<f64>() - 1.0))
}

/// A name that nobody else has.
pub(crate) fn random_name() -> String {
    format!("{:032x}", rand::random::<u128>())
}
