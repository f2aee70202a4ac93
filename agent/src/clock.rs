//! The only place of the agent that reads time or chance; everything else gets both as arguments.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock, for every decision.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the agent's one clock reader"
)]
pub(crate) fn now() -> Instant {
    // Through tokio so that a paused runtime's time is the time of every decision.
    tokio::time::Instant::now().into_std()
}

/// Time since the Unix epoch, for display and for absolute dates that servers send.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the agent's one clock reader"
)]
pub(crate) fn unix_now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// The name of this start of the machine and how long ago it was, suspensions included; `None`
/// where the system does not tell.
pub(crate) fn boot() -> Option<(String, Duration)> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let secs = uptime.split_whitespace().next()?.parse::<f64>().ok()?;
    let since = Duration::try_from_secs_f64(secs).ok()?;
    Some((id.trim().to_owned(), since))
}

/// A fresh random number in `[0, 1)`, which spreads cooldowns and backoffs.
pub(crate) fn jitter() -> f64 {
    rand::random::<f64>()
}
