//! The waits between sessions, by the rules of a real agent: full jitter, doubled up to a cap, and
//! never less than a farewell asked for.

use lanekeeper_proto::message::Goodbye;
use std::time::Duration;

/// Upper end of the first wait.
const BASE: Duration = Duration::from_secs(1);
/// Upper end of every later wait.
const CAP: Duration = Duration::from_secs(30);
/// A session this long ends the growth of waits.
const HEALTHY_SESSION: Duration = Duration::from_secs(60);

/// How often in a row no healthy session came about.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Tells how long the session lasted that just ended; zero when none came about.
    pub(crate) fn ended(&mut self, lasted: Duration) {
        self.failures = if lasted >= HEALTHY_SESSION {
            1
        } else {
            self.failures.saturating_add(1)
        };
    }

    /// How long to wait now, for `jitter` in `[0, 1)`.
    pub(crate) fn wait(&self, goodbye: Option<&Goodbye>, jitter: f64) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        let own = BASE.saturating_mul(1 << doublings).min(CAP).mul_f64(jitter);
        let asked = goodbye.map_or(Duration::ZERO, |goodbye| {
            goodbye.reconnect_after + goodbye.jitter.mul_f64(jitter)
        });
        own.max(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanekeeper_proto::message::GoodbyeReason;

    #[test]
    fn waits_double_up_to_the_cap_and_a_healthy_session_ends_the_growth() {
        let mut backoff = Backoff::default();
        let ends: Vec<u64> = (0..7)
            .map(|_| {
                backoff.ended(Duration::ZERO);
                backoff.wait(None, 1.0).as_secs()
            })
            .collect();
        assert_eq!(ends, [1, 2, 4, 8, 16, 30, 30]);
        backoff.ended(HEALTHY_SESSION);
        assert_eq!(backoff.wait(None, 1.0), BASE);
    }

    #[test]
    fn a_farewell_is_obeyed() {
        let mut backoff = Backoff::default();
        backoff.ended(Duration::ZERO);
        let goodbye = Goodbye {
            reason: GoodbyeReason::Overloaded,
            detail: String::new(),
            reconnect_after: Duration::from_secs(10),
            jitter: Duration::from_secs(4),
        };
        assert_eq!(backoff.wait(Some(&goodbye), 0.5), Duration::from_secs(12));
    }
}
