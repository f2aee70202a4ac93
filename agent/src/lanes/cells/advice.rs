//! The fleet's advisory as one cell follows it. The cell's own experience outranks it: a success
//! since the newest evidence ends it, and a canary now and then sees to it that there can be one.

use std::time::{Duration, Instant};

/// The agents of a fleet share one canary in this time between them.
const CANARY_SPACING: Duration = Duration::from_secs(1);
/// Least time between two canaries of one agent, however small its fleet.
const CANARY_GAP_MIN: Duration = Duration::from_secs(5);

/// What the fleet says of a cell, in this process's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advice {
    /// When it ends unless it is given again.
    pub(crate) until: Instant,
    /// When an agent last saw the lane fail.
    pub(crate) evidence: Instant,
    /// Agents of the fleet.
    pub(crate) agents: u32,
}

impl Advice {
    /// From one canary of this agent to the next.
    fn canary_gap(&self) -> Duration {
        CANARY_SPACING
            .saturating_mul(self.agents)
            .max(CANARY_GAP_MIN)
    }
}

/// Why an advisory is no longer followed, or was not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is followed from now on.
    Began,
    /// The fleet no longer gives it, or its time is over.
    Ended,
    /// The cell has seen a success since.
    Outranked,
}

impl Change {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Ended => "ended",
            Self::Outranked => "ended, this agent's own success is newer",
        }
    }
}

/// What one cell makes of the fleet's advice.
#[derive(Debug, Default)]
pub(super) struct Following {
    active: Option<Active>,
    last_success: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Active {
    advice: Advice,
    next_canary: Instant,
}

impl Following {
    /// Takes the fleet's advice, or its end. `jitter` in [0, 1) spreads the first canaries.
    pub(super) fn take(
        &mut self,
        wanted: Option<Advice>,
        now: Instant,
        jitter: f64,
    ) -> Option<Change> {
        let before = self.active.is_some_and(|it| it.advice.until > now);
        let is_outranked = |it: &Advice| self.last_success.is_some_and(|at| at > it.evidence);
        let outranked = wanted.as_ref().is_some_and(is_outranked);
        self.active = wanted
            .filter(|it| it.until > now && !is_outranked(it))
            .map(|advice| Active {
                advice,
                next_canary: match self.active {
                    Some(active) if before => active.next_canary,
                    Some(_) | None => now + advice.canary_gap().mul_f64(0.5 + jitter),
                },
            });
        match (before, self.active.is_some()) {
            (false, true) => Some(Change::Began),
            (true, false) if outranked => Some(Change::Outranked),
            (true, false) => Some(Change::Ended),
            (true, true) | (false, false) => None,
        }
    }

    /// Until when the advice is followed.
    pub(super) fn until(&self) -> Option<Instant> {
        self.active.map(|active| active.advice.until)
    }

    /// The next request may find out whether the advice is wrong.
    pub(super) fn is_canary_due(&self, now: Instant) -> bool {
        self.active.is_some_and(|it| now >= it.next_canary)
    }

    /// An attempt goes out; true when it is a canary.
    #[inline]
    pub(super) fn attempts(&mut self, now: Instant) -> bool {
        match &mut self.active {
            None => false,
            Some(active) if active.advice.until <= now => false,
            Some(active) => {
                let is_canary = now >= active.next_canary;
                active.next_canary = now + active.advice.canary_gap();
                is_canary
            }
        }
    }

    /// The cell saw a success; what comes of that.
    #[inline]
    pub(super) fn succeeds(&mut self, now: Instant) -> Option<Change> {
        self.last_success = Some(now);
        match &self.active {
            Some(active) if now > active.advice.evidence => {
                let was_followed = active.advice.until > now;
                self.active = None;
                was_followed.then_some(Change::Outranked)
            }
            Some(_) | None => None,
        }
    }

    /// Forgets advice whose time is over, once.
    pub(super) fn end_expired(&mut self, now: Instant) -> Option<Change> {
        self.active
            .take_if(|it| it.advice.until <= now)
            .map(|_| Change::Ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const SECOND: Duration = Duration::from_secs(1);

    fn advice(now: Instant, agents: u32) -> Option<Advice> {
        Some(Advice {
            until: now + 30 * SECOND,
            evidence: now - SECOND,
            agents,
        })
    }

    #[test]
    fn a_success_since_the_evidence_outranks_advice_before_and_after_it_came() {
        let now = clock::now();
        let mut following = Following::default();
        assert_eq!(following.succeeds(now - 2 * SECOND), None);
        assert_eq!(
            following.take(advice(now, 3), now, 0.0),
            Some(Change::Began)
        );
        assert_eq!(following.succeeds(now + SECOND), Some(Change::Outranked));
        assert_eq!(following.until(), None);
        // The same evidence again, renewed.
        assert_eq!(
            following.take(advice(now + SECOND, 3), now + SECOND, 0.0),
            None
        );
        let newer = Advice {
            evidence: now + 2 * SECOND,
            ..advice(now + 3 * SECOND, 3).unwrap()
        };
        let taken = following.take(Some(newer), now + 3 * SECOND, 0.0);
        assert_eq!(taken, Some(Change::Began), "it failed elsewhere since");
    }

    #[test]
    fn a_fleet_shares_one_canary_a_second_and_no_agent_sends_more_than_one_in_five() {
        let now = clock::now();
        for (agents, gap) in [(3, 5), (12, 12), (200, 200), (0, 5)] {
            let mut following = Following::default();
            let lasting = Advice {
                until: now + 10_000 * SECOND,
                ..advice(now, agents).unwrap()
            };
            following.take(Some(lasting), now, 0.5);
            let sent: Vec<u64> = (0..1000)
                .filter(|secs| {
                    let at = now + *secs * SECOND;
                    following.is_canary_due(at) && following.attempts(at)
                })
                .map(u64::from)
                .collect();
            assert_eq!(sent[0], gap, "{agents}");
            assert!(
                sent.windows(2).all(|two| two[1] - two[0] == gap),
                "{agents}"
            );
        }
    }

    #[test]
    fn renewed_advice_keeps_the_time_of_its_canary() {
        let now = clock::now();
        let mut following = Following::default();
        following.take(advice(now, 12), now, 0.0);
        for secs in 1..6 {
            let at = now + secs * SECOND;
            assert_eq!(following.take(advice(at, 12), at, 0.9), None);
        }
        assert!(following.is_canary_due(now + 6 * SECOND));
    }

    #[test]
    fn advice_ends_by_itself_once() {
        let now = clock::now();
        let mut following = Following::default();
        following.take(advice(now, 3), now, 0.0);
        assert_eq!(following.end_expired(now + 29 * SECOND), None);
        assert_eq!(
            following.end_expired(now + 30 * SECOND),
            Some(Change::Ended)
        );
        assert_eq!(following.end_expired(now + 31 * SECOND), None);
        assert!(!following.attempts(now + 31 * SECOND));
    }
}
