//! The only reader of time and chance in this crate.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time, for the end of faults.
#[expect(clippy::disallowed_methods, reason = "the crate's one clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Wall time since 1970, for what a person reads in the journal.
#[expect(clippy::disallowed_methods, reason = "the crate's one clock")]
pub(crate) fn unix_time() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// A number in [0, 1).
pub(crate) fn chance() -> f64 {
    rand::random()
}
