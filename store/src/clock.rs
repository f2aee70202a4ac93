//! The only place that reads the clock.

use std::time::Instant;

/// Monotonic time.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
