//! One cell's part in a probe that is made once for the whole fleet. When its cooldown is over it
//! asks, waits a bounded time for the answer or another agent's verdict, and else probes by itself.
//!
//! | state | event | next |
//! |---|---|---|
//! | Idle | a request comes after the cooldown, the control plane is there | Asked: refused for the answer's time |
//! | Asked | granted | Granted: the next request is the probe |
//! | Asked | denied: another agent probes | Denied: refused until that lease ends |
//! | Asked | no answer in time | Alone: probes by itself |
//! | Denied | that lease ends without a verdict | Asked again, until one cooldown has passed; then Alone |
//! | any | no control plane, or a verdict that cannot apply | Alone |
//! | any | the cell changes its state | Idle |

use std::time::{Duration, Instant};

/// How long an answer may take before the agent probes by itself.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// A cell waits for so long at least, however short its cooldown was.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// Where a cell is in that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lease {
    #[default]
    Idle,
    /// Until `limit` the cell may wait in all.
    Asked {
        limit: Instant,
    },
    Denied {
        limit: Instant,
    },
    Granted {
        since: Instant,
        until: Instant,
    },
    Alone,
}

/// What a cell does whose cooldown is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Probe: by lease, or by itself.
    Probe,
    /// Ask for the lease, and wait until then.
    Ask(Instant),
}

impl Lease {
    /// A request comes, and the cell would make it the probe. `served` is the cooldown that is over.
    pub(super) fn due(&mut self, served: Duration, connected: bool, now: Instant) -> Due {
        if !connected {
            *self = Self::Alone;
            return Due::Probe;
        }
        let limit = match *self {
            Self::Alone => return Due::Probe,
            Self::Granted { until, .. } if now < until => return Due::Probe,
            // Nobody answered.
            Self::Asked { .. } => {
                *self = Self::Alone;
                return Due::Probe;
            }
            Self::Denied { limit } if now >= limit => {
                *self = Self::Alone;
                return Due::Probe;
            }
            Self::Denied { limit } => limit,
            Self::Idle | Self::Granted { .. } => now + served.max(WAIT_MIN),
        };
        *self = Self::Asked { limit };
        Due::Ask(limit.min(now + ANSWER_TIMEOUT))
    }

    /// The lease is the cell's for `ttl`. False when it no longer waits for it.
    pub(super) fn granted(&mut self, ttl: Duration, now: Instant) -> bool {
        let waits = matches!(self, Self::Asked { .. });
        if waits {
            *self = Self::Granted {
                since: now,
                until: now + ttl,
            };
        }
        waits
    }

    /// Another agent's lease lasts for `remaining`; until then the cell waits, if it asked.
    pub(super) fn denied(&mut self, remaining: Duration, now: Instant) -> Option<Instant> {
        let Self::Asked { limit } = *self else {
            return None;
        };
        *self = Self::Denied { limit };
        Some(limit.min(now + remaining))
    }

    /// The cell is refused for the sake of another agent's probe, or of an answer.
    pub(super) fn waits(&self) -> bool {
        matches!(self, Self::Asked { .. } | Self::Denied { .. })
    }

    /// The lease is the cell's now.
    pub(super) fn is_granted(&self, now: Instant) -> bool {
        matches!(self, Self::Granted { until, .. } if now < *until)
    }

    /// Since when the lease has been the cell's.
    pub(super) fn granted_since(&self) -> Option<Instant> {
        match self {
            Self::Granted { since, .. } => Some(*since),
            Self::Idle | Self::Asked { .. } | Self::Denied { .. } | Self::Alone => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const SECOND: Duration = Duration::from_secs(1);
    const COOLDOWN: Duration = Duration::from_secs(10);

    #[test]
    fn without_a_control_plane_a_cell_probes_by_itself_at_once() {
        let now = clock::now();
        let mut lease = Lease::default();
        assert_eq!(lease.due(COOLDOWN, false, now), Due::Probe);
        assert_eq!(lease.due(COOLDOWN, true, now), Due::Probe, "and stays so");
    }

    #[test]
    fn a_lease_that_is_granted_is_used_while_it_lasts_and_asked_for_again_afterwards() {
        let now = clock::now();
        let mut lease = Lease::default();
        assert_eq!(
            lease.due(COOLDOWN, true, now),
            Due::Ask(now + ANSWER_TIMEOUT)
        );
        assert!(lease.granted(5 * SECOND, now));
        assert_eq!(lease.granted_since(), Some(now));
        assert!(lease.is_granted(now) && !lease.is_granted(now + 5 * SECOND));
        assert_eq!(lease.due(COOLDOWN, true, now + 4 * SECOND), Due::Probe);
        let late = now + 6 * SECOND;
        assert_eq!(
            lease.due(COOLDOWN, true, late),
            Due::Ask(late + ANSWER_TIMEOUT)
        );
    }

    #[test]
    fn an_answer_that_does_not_come_is_not_waited_for_twice() {
        let now = clock::now();
        let mut lease = Lease::default();
        lease.due(COOLDOWN, true, now);
        assert_eq!(lease.due(COOLDOWN, true, now + ANSWER_TIMEOUT), Due::Probe);
        assert!(!lease.granted(SECOND, now + ANSWER_TIMEOUT), "too late");
        assert_eq!(lease, Lease::Alone);
    }

    #[test]
    fn denied_for_longer_than_one_cooldown_a_cell_probes_by_itself() {
        let start = clock::now();
        let mut lease = Lease::default();
        let mut now = start;
        let mut asked = 0;
        while lease.due(COOLDOWN, true, now) != Due::Probe {
            asked += 1;
            now = lease.denied(3 * SECOND, now).unwrap();
            assert!(lease.waits());
        }
        assert_eq!(now, start + COOLDOWN, "never longer");
        assert_eq!(asked, 4);
        assert_eq!(lease.denied(SECOND, now), None);
    }

    #[test]
    fn a_short_cooldown_waits_a_second_all_the_same() {
        let now = clock::now();
        let mut lease = Lease::default();
        let due = lease.due(Duration::from_millis(10), true, now);
        assert_eq!(due, Due::Ask(now + SECOND));
    }
}
