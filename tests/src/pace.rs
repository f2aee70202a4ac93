//! How busy this machine is while a test runs, so that a promise in seconds is not broken by what
//! else runs beside the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Between two looks at the machine.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Watches the machine from its start to its drop.
///
/// The measure is the number of threads that want to run, per core: with three for each core, work
/// that takes a second alone takes three. Where the machine does not publish it, promises hold as
/// written.
#[derive(Debug, Default)]
pub struct Pace {
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    looks: AtomicU64,
    /// The sum over all looks.
    runnable: AtomicU64,
    is_over: AtomicBool,
}

impl Seen {
    fn look(&self) {
        if let Some(runnable) = runnable() {
            self.runnable.fetch_add(runnable, Ordering::Relaxed);
            self.looks.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Pace {
    /// Looks at the machine once, for who does not watch it.
    pub(crate) fn look(&self) {
        self.seen.look();
    }

    /// Begins to watch.
    #[must_use]
    pub fn watch() -> Self {
        let seen = Arc::new(Seen::default());
        let watched = Arc::clone(&seen);
        std::thread::spawn(move || {
            while !watched.is_over.load(Ordering::Relaxed) {
                watched.look();
                std::thread::sleep(LOOK_INTERVAL);
            }
        });
        Self { seen }
    }

    /// How many times longer than alone things may have taken since the watching began; at least 1.
    #[must_use]
    pub fn stretch(&self) -> f64 {
        let looks = self.seen.looks.load(Ordering::Relaxed).max(1);
        let runnable = self.seen.runnable.load(Ordering::Relaxed);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let per_core = runnable as f64 / (looks as f64 * cores as f64);
        // A chain of several processes waits for a core at each of its steps.
        (2.0 * per_core).max(1.0)
    }

    /// The bound for a promise of `alone` on a machine that does nothing else.
    #[must_use]
    pub fn allowed(&self, alone: Duration) -> Duration {
        alone.mul_f64(self.stretch())
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.seen.is_over.store(true, Ordering::Relaxed);
    }
}

/// The threads that run or wait for a core now, this one left out.
fn runnable() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let (running, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    Some(running.parse::<u64>().ok()?.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_never_shortened() {
        let pace = Pace::watch();
        let alone = Duration::from_secs(2);
        assert!(pace.allowed(alone) >= alone);
        assert!(pace.stretch() >= 1.0);
    }
}
