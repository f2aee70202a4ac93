//! How long the upstream asked to be left alone.
//!
//! The hint is a floor for cooldowns and parking, so it is read generously in form and strictly in
//! meaning: fractions round up, a date in the past is zero, several hints give the longest, and
//! whatever is no finite, non-negative wait is as good as absent.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{HeaderName, RETRY_AFTER};

/// Longest wait taken over from an upstream; longer ones count as this.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Millisecond twin of `retry-after`, sent by OpenAI and Azure.
pub const RETRY_AFTER_MS: &str = "retry-after-ms";

/// The longest wait the headers ask for; `now` is the wall clock that dates are measured against.
#[must_use]
pub fn from_headers(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let seconds = lines(headers, RETRY_AFTER).filter_map(|line| longest(line, now));
    let millis = lines(headers, HeaderName::from_static(RETRY_AFTER_MS));
    let millis = millis.flat_map(|line| line.split(',').filter_map(parse_millis));
    seconds.chain(millis).max()
}

fn lines(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter();
    values.filter_map(|value| value.to_str().ok())
}

/// The longest wait of one line. Several values in one, between commas, are as good as several
/// lines (RFC 9110, 5.3); two of the forms of a date have a comma of their own.
fn longest(line: &str, now: SystemTime) -> Option<Duration> {
    let mut parts = line.split(',').peekable();
    let mut waits = Vec::new();
    while let Some(part) = parts.next() {
        let date = parts.peek().map(|next| format!("{part},{next}"));
        let wait = parse(part, now).or_else(|| parse(&date?, now));
        waits.extend(wait);
    }
    waits.into_iter().max()
}

/// Reads one `Retry-After` value: seconds with an optional fraction, or an HTTP date in any of its
/// three forms. The result is whole seconds.
#[must_use]
pub fn parse(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Some(seconds) = number(value) {
        return Some(whole_seconds(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let wait = date.duration_since(now).unwrap_or_default();
    Some(whole_seconds(wait.as_secs_f64()))
}

/// Reads one `retry-after-ms` value; the result is whole milliseconds.
#[must_use]
pub fn parse_millis(value: &str) -> Option<Duration> {
    let millis = number(value.trim())?.ceil();
    Some(Duration::try_from_secs_f64(millis / 1000.0).map_or(MAX_WAIT, |wait| wait.min(MAX_WAIT)))
}

/// Reads a duration as protobuf's JSON writes it: seconds, a fraction, and the letter `s`.
#[must_use]
pub fn parse_delay(value: &str) -> Option<Duration> {
    number(value.trim().strip_suffix('s')?).map(whole_seconds)
}

/// The wait of so many seconds, rounded up and capped; `None` unless finite and not negative.
#[must_use]
pub fn from_seconds(seconds: f64) -> Option<Duration> {
    (seconds.is_finite() && seconds >= 0.0).then(|| whole_seconds(seconds))
}

fn whole_seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.ceil()).map_or(MAX_WAIT, |wait| wait.min(MAX_WAIT))
}

/// Digits, and a fraction or none: no sign, no exponent, no `inf`. A number too large for a float
/// is infinite here and ends as the cap.
fn number(value: &str) -> Option<f64> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let is_plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain(whole) && is_plain(fraction)).then(|| value.parse().ok())?
}

#[cfg(test)]
mod tests;
