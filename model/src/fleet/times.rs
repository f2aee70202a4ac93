//! How the API writes times.

/// Milliseconds as the API's seconds.
pub(super) fn secs(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// Unix milliseconds as RFC 3339 in UTC; a time past the calendar's end is the end of year 9999.
pub fn rfc3339(unix_ms: u64) -> String {
    use time::format_description::well_known::Rfc3339;

    let nanos = i128::from(unix_ms).saturating_mul(1_000_000);
    time::OffsetDateTime::from_unix_timestamp_nanos(nanos)
        .ok()
        .and_then(|moment| moment.format(&Rfc3339).ok())
        .unwrap_or_else(|| "9999-12-31T23:59:59Z".to_owned())
}
