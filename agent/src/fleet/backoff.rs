//! When to dial again: full jitter, so that a fleet that lost its server at one moment does not
//! come back at one moment.

use std::time::Duration;

use lanekeeper_proto::message::Goodbye;

/// Upper end of the first wait.
const BASE: Duration = Duration::from_secs(1);
/// Upper end of every later wait.
const CAP: Duration = Duration::from_secs(30);
/// A session this long was healthy and ends the growth of waits.
const HEALTHY_SESSION: Duration = Duration::from_secs(60);
/// Longest wait that a server can ask for. One that stops for longer is dialled in vain, which
/// costs nothing; one that sent nonsense does not lose its fleet.
const REQUESTED_MAX: Duration = Duration::from_secs(600);

/// The waits between sessions.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Takes in how long the session lasted that just ended; zero when none came about.
    pub(crate) fn ended(&mut self, lasted: Duration) {
        self.failures = if lasted >= HEALTHY_SESSION {
            1
        } else {
            self.failures.saturating_add(1)
        };
    }

    /// How long to wait now, for `jitter` in `[0, 1)`. At least what the server asked for.
    pub(crate) fn wait(&self, goodbye: Option<&Goodbye>, jitter: f64) -> Duration {
        let exponent = self.failures.saturating_sub(1).min(16);
        let ceiling = BASE.saturating_mul(1 << exponent).min(CAP);
        let own = ceiling.mul_f64(jitter);
        let requested = goodbye.map_or(Duration::ZERO, |goodbye| {
            let after = goodbye.reconnect_after.min(REQUESTED_MAX);
            after + goodbye.jitter.min(REQUESTED_MAX).mul_f64(jitter)
        });
        own.max(requested)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanekeeper_proto::message::GoodbyeReason;

    /// The largest jitter, for the upper end of a wait.
    const MOST: f64 = 1.0;

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut backoff = Backoff::default();
        let ends: Vec<_> = (0..8)
            .map(|_| {
                backoff.ended(Duration::ZERO);
                backoff.wait(None, MOST).as_secs()
            })
            .collect();
        assert_eq!(ends, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(backoff.wait(None, 0.0), Duration::ZERO);
        assert_eq!(backoff.wait(None, 0.5), Duration::from_secs(15));
    }

    #[test]
    fn only_a_healthy_session_ends_the_growth() {
        let mut backoff = Backoff::default();
        for _ in 0..5 {
            backoff.ended(Duration::ZERO);
        }
        backoff.ended(HEALTHY_SESSION - Duration::from_millis(1));
        assert_eq!(backoff.wait(None, MOST), CAP);
        backoff.ended(HEALTHY_SESSION);
        assert_eq!(backoff.wait(None, MOST), BASE);
    }

    #[test]
    fn failures_without_end_do_not_overflow() {
        let backoff = Backoff { failures: u32::MAX };
        assert_eq!(backoff.wait(None, MOST), CAP);
    }

    #[test]
    fn a_goodbye_is_obeyed_within_reason() {
        let mut goodbye = Goodbye {
            reason: GoodbyeReason::Shutdown,
            detail: String::new(),
            reconnect_after: Duration::from_secs(5),
            jitter: Duration::from_secs(10),
        };
        let backoff = Backoff::default();
        assert_eq!(backoff.wait(Some(&goodbye), 0.0), Duration::from_secs(5));
        assert_eq!(backoff.wait(Some(&goodbye), 0.5), Duration::from_secs(10));
        goodbye.reconnect_after = Duration::MAX;
        goodbye.jitter = Duration::ZERO;
        assert_eq!(backoff.wait(Some(&goodbye), MOST), REQUESTED_MAX);
    }

    /// Small pseudo-random numbers in `[0, 1)`, the same in every run.
    fn randoms() -> impl FnMut() -> f64 {
        let mut state = 7_u64;
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn a_fleet_that_lost_its_server_does_not_storm_it() {
        const AGENTS: usize = 1000;
        const SECONDS: usize = 300;
        let mut random = randoms();
        let mut dials = vec![0_usize; SECONDS];
        for _ in 0..AGENTS {
            let (mut backoff, mut at) = (Backoff::default(), 0.0);
            while (at as usize) < SECONDS {
                dials[at as usize] += 1;
                backoff.ended(Duration::ZERO);
                at += backoff.wait(None, random()).as_secs_f64();
            }
        }
        let busiest = dials[60..].iter().max().unwrap();
        // The cap's mean wait is 15 s, so an even spread is 67 a second.
        assert!(*busiest < AGENTS / 8, "{busiest} dials in one second");
    }
}
