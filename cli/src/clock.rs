//! The only reader of time in this crate.

use lanekeeper_model::fleet::rfc3339;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time, for waits with a bound.
#[expect(clippy::disallowed_methods, reason = "the crate's one clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Wall time in milliseconds since 1970, for records.
#[expect(clippy::disallowed_methods, reason = "the crate's one clock")]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Days until a moment in RFC 3339; negative when it is over.
pub(crate) fn days_until(moment: &str) -> Option<f64> {
    let format = &time::format_description::well_known::Rfc3339;
    let at = time::OffsetDateTime::parse(moment, format).ok()?;
    let now = i64::try_from(unix_ms() / 1000).ok()?;
    Some((at.unix_timestamp() - now) as f64 / 86_400.0)
}

/// The time so many seconds ago, RFC 3339.
pub(crate) fn rfc3339_before(secs: u64) -> String {
    rfc3339(unix_ms().saturating_sub(secs.saturating_mul(1000)))
}
