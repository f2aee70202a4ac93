//! Waiting on a predicate with a bound, instead of sleeping.

use crate::Pace;
use std::future::Future;
use std::time::{Duration, Instant};

/// The bound for what must happen but was not promised within a time: generous, as other work may
/// take this machine meanwhile.
pub const LIVENESS: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// Polls until `check` gives a value and returns it with the time that took.
///
/// # Panics
///
/// After `bound`, longer as this machine is busy meanwhile ([`Pace`]), with the last reason that
/// `check` gave for not being satisfied.
pub async fn eventually<T, F>(
    what: &str,
    bound: Duration,
    mut check: impl FnMut() -> F,
) -> (T, Duration)
where
    F: Future<Output = Result<T, String>>,
{
    let (start, pace) = (Instant::now(), Pace::default());
    loop {
        let reason = match check().await {
            Ok(value) => return (value, start.elapsed()),
            Err(reason) => reason,
        };
        pace.look();
        assert!(
            start.elapsed() < pace.allowed(bound),
            "not within {bound:?}: {what}; last seen: {reason}"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Checks again and again for `span` that something never happens.
///
/// # Panics
///
/// As soon as `check` gives an error.
pub async fn holds_for<F>(what: &str, span: Duration, mut check: impl FnMut() -> F)
where
    F: Future<Output = Result<(), String>>,
{
    let start = Instant::now();
    while start.elapsed() < span {
        if let Err(reason) = check().await {
            panic!("{what} did not hold after {:?}: {reason}", start.elapsed());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
