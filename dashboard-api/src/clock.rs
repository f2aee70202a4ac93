//! The only place of this crate that reads a clock.
//!
//! Wall time is handed to the store and to the fleet view; monotonic time decides how long a
//! verdict about a token or a snapshot of the fleet may be reused.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Wall time in unix milliseconds; 0 when the system clock stands before 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the crate's one reading of the wall clock"
)]
pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|age| u64::try_from(age.as_millis()).ok())
        .unwrap_or(0)
}

/// Monotonic time.
#[expect(
    clippy::disallowed_methods,
    reason = "the crate's one reading of the monotonic clock"
)]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Unix milliseconds as RFC 3339 in UTC, the form in which the API shows times.
pub(crate) fn rfc3339(unix_ms: u64) -> String {
    let after_epoch = Duration::from_millis(unix_ms);
    OffsetDateTime::UNIX_EPOCH
        .checked_add(time::Duration::try_from(after_epoch).unwrap_or_default())
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_default()
}

/// The unix milliseconds of an RFC 3339 time; `None` for another text and for times before 1970.
pub(crate) fn parse_rfc3339(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_rfc3339, rfc3339};

    #[test]
    fn times_are_read_in_any_offset() {
        assert_eq!(
            parse_rfc3339("2025-05-24T21:50:56.25Z"),
            Some(1_748_123_456_250)
        );
        assert_eq!(
            parse_rfc3339("2025-05-24T23:50:56+02:00"),
            Some(1_748_123_456_000)
        );
        for text in ["yesterday", "", "2025-05-24", "1969-12-31T23:59:59Z"] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_utc_with_their_fraction_only_when_there_is_one() {
        assert_eq!(rfc3339(1_748_123_456_000), "2025-05-24T21:50:56Z");
        assert_eq!(rfc3339(1_748_123_456_250), "2025-05-24T21:50:56.25Z");
    }

    #[test]
    fn a_time_beyond_the_calendar_is_empty_and_not_a_panic() {
        assert_eq!(rfc3339(u64::MAX), "");
    }
}
