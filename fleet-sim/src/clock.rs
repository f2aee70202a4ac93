//! The only reader of time in this crate.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time, for everything that is measured.
#[expect(clippy::disallowed_methods, reason = "the crate's one clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Wall time in unix milliseconds, to lay figures beside those of other processes.
#[expect(clippy::disallowed_methods, reason = "the crate's one clock")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
