//! One probe for the fleet: who may probe a lane whose cooldown is over, and what became of it.
//!
//! The board is a plain value with the time as an argument. A server that works alone keeps one in
//! memory; several keep the same in Redis, by the same rules.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{GatewayName, LaneName};
use crate::report::CauseReport;

/// Shortest life of a lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// Longest life of a lease: what a dead holder can cost the others.
pub const LEASE_MAX: Duration = Duration::from_secs(30);
/// How long the success of a probe is remembered for those who ask late.
pub const SUCCESS_KEPT: Duration = Duration::from_secs(5);
/// Longest time for which a failed probe speaks for the fleet.
pub const FAILURE_KEPT_MAX: Duration = Duration::from_secs(300);
/// Ramp of a closing that a whole fleet makes at once, at least.
pub const CLOSING_RAMP: Duration = Duration::from_secs(10);
/// Most lanes on one board. Beyond it nobody is granted anything, and agents probe by themselves.
pub const BOARD_MAX: usize = 100_000;

/// A lane as probes see it: all its cells for one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProbedLane {
    /// The lane.
    pub lane: LaneName,
    /// The endpoint, where a policy keeps a cell for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// An agent's question whether it may probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeAsk {
    /// The lane.
    pub lane: ProbedLane,
    /// How long the lease should last, in milliseconds.
    pub ttl_ms: u64,
}

/// The answer, when nobody has probed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The lane.
    pub lane: ProbedLane,
    /// The agent may probe. If not, another one does.
    pub granted: bool,
    /// Until the lease ends, in milliseconds.
    pub remaining_ms: u64,
}

/// What a probe proved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeVerdict {
    /// The lane.
    pub lane: ProbedLane,
    /// Distinguishes what was probed: where the lane is, which model, by which credential. It
    /// proves nothing to an agent with another number.
    pub subject: u64,
    /// What made it fail; `None` when it succeeded.
    pub failure: Option<CauseReport>,
    /// Milliseconds since the probe began.
    pub age_ms: u64,
    /// Milliseconds until the fleet may probe again, after a failure.
    pub next_ms: u64,
}

impl ProbeVerdict {
    /// How long it speaks for the fleet.
    pub fn kept(&self) -> Duration {
        match self.failure {
            None => SUCCESS_KEPT,
            Some(_) => Duration::from_millis(self.next_ms).min(FAILURE_KEPT_MAX),
        }
    }

    /// The same, so much later.
    #[must_use]
    pub fn after(mut self, passed: Duration) -> Self {
        let passed_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        self.age_ms = self.age_ms.saturating_add(passed_ms);
        self.next_ms = self.next_ms.saturating_sub(passed_ms);
        self
    }
}

/// Names one lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// The gateway.
    pub gateway: GatewayName,
    /// The lane.
    pub lane: ProbedLane,
}

/// What comes of asking for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leased {
    /// The asker probes, for so long.
    Granted(Duration),
    /// Another one does, for so long.
    Held(Duration),
    /// Somebody has, and what it proved still counts.
    Decided(ProbeVerdict),
}

/// A lease's life within its bounds.
pub fn lease_life(ttl_ms: u64) -> Duration {
    Duration::from_millis(ttl_ms).clamp(LEASE_MIN, LEASE_MAX)
}

/// All leases and verdicts that count. Times are durations since any one moment.
#[derive(Debug, Default)]
pub struct LeaseBoard {
    leases: BTreeMap<LeaseKey, (String, Duration)>,
    verdicts: BTreeMap<LeaseKey, (ProbeVerdict, Duration)>,
}

impl LeaseBoard {
    /// Asks for a lease. The holder who asks again gets its own anew.
    pub fn ask(&mut self, key: &LeaseKey, holder: &str, ttl: Duration, now: Duration) -> Leased {
        self.forget(now);
        if let Some(verdict) = self.verdict(key, now) {
            return Leased::Decided(verdict);
        }
        if let Some((held_by, until)) = self.leases.get(key)
            && held_by != holder
        {
            return Leased::Held(until.saturating_sub(now));
        }
        if self.leases.len() >= BOARD_MAX {
            return Leased::Held(Duration::ZERO);
        }
        let until = now.saturating_add(ttl);
        self.leases.insert(key.clone(), (holder.to_owned(), until));
        Leased::Granted(ttl)
    }

    /// Gives a lease back, with what the probe proved if it proved anything. False when it is not
    /// the holder's any more: it took too long, and what it says is not passed on.
    pub fn settle(
        &mut self,
        key: &LeaseKey,
        holder: &str,
        verdict: Option<&ProbeVerdict>,
        now: Duration,
    ) -> bool {
        self.forget(now);
        let is_holder = self.leases.get(key).is_some_and(|(by, _)| by == holder);
        if is_holder {
            self.leases.remove(key);
            if let Some(verdict) = verdict {
                self.verdicts.insert(key.clone(), (verdict.clone(), now));
            }
        }
        is_holder
    }

    /// What the latest probe proved, while that counts.
    pub fn verdict(&self, key: &LeaseKey, now: Duration) -> Option<ProbeVerdict> {
        let (verdict, at) = self.verdicts.get(key)?;
        let passed = now.saturating_sub(*at);
        (passed < verdict.kept()).then(|| verdict.clone().after(passed))
    }

    fn forget(&mut self, now: Duration) {
        self.leases.retain(|_, (_, until)| *until > now);
        self.verdicts
            .retain(|_, (verdict, at)| now.saturating_sub(*at) < verdict.kept());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> LeaseKey {
        LeaseKey {
            gateway: "edge".into(),
            lane: lane(),
        }
    }

    fn lane() -> ProbedLane {
        ProbedLane {
            lane: "a".into(),
            endpoint: None,
        }
    }

    fn verdict(failed: bool) -> ProbeVerdict {
        ProbeVerdict {
            lane: lane(),
            subject: 7,
            failure: failed.then(|| CauseReport {
                kind: "status".to_owned(),
                status: Some(503),
                count: 1,
            }),
            age_ms: 200,
            next_ms: 30_000,
        }
    }

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn one_probes_and_the_others_wait_for_it() {
        let mut board = LeaseBoard::default();
        assert_eq!(
            board.ask(&key(), "one", secs(10), secs(0)),
            Leased::Granted(secs(10))
        );
        assert_eq!(
            board.ask(&key(), "two", secs(10), secs(4)),
            Leased::Held(secs(6))
        );
        assert_eq!(
            board.ask(&key(), "one", secs(10), secs(5)),
            Leased::Granted(secs(10))
        );
        assert!(!board.settle(&key(), "two", Some(&verdict(false)), secs(6)));
        assert!(board.settle(&key(), "one", Some(&verdict(true)), secs(6)));
        let Leased::Decided(decided) = board.ask(&key(), "two", secs(10), secs(16)) else {
            panic!("the failure speaks for the fleet until its next probe");
        };
        assert_eq!((decided.age_ms, decided.next_ms), (10_200, 20_000));
        assert_eq!(
            board.ask(&key(), "two", secs(10), secs(36)),
            Leased::Granted(secs(10))
        );
    }

    #[test]
    fn a_dead_holder_costs_its_lease_and_a_late_verdict_is_not_passed_on() {
        let mut board = LeaseBoard::default();
        board.ask(&key(), "dead", secs(10), secs(0));
        assert_eq!(
            board.ask(&key(), "two", secs(10), secs(10)),
            Leased::Granted(secs(10))
        );
        assert!(!board.settle(&key(), "dead", Some(&verdict(false)), secs(11)));
        assert_eq!(board.verdict(&key(), secs(11)), None);
    }

    #[test]
    fn a_success_is_remembered_briefly_and_a_probe_that_proved_nothing_not_at_all() {
        let mut board = LeaseBoard::default();
        board.ask(&key(), "one", secs(10), secs(0));
        assert!(board.settle(&key(), "one", None, secs(1)));
        assert_eq!(
            board.ask(&key(), "two", secs(10), secs(1)),
            Leased::Granted(secs(10))
        );
        assert!(board.settle(&key(), "two", Some(&verdict(false)), secs(2)));
        assert!(matches!(
            board.ask(&key(), "one", secs(10), secs(6)),
            Leased::Decided(_)
        ));
        assert_eq!(
            board.ask(&key(), "one", secs(10), secs(7)),
            Leased::Granted(secs(10))
        );
    }

    #[test]
    fn lives_are_bounded() {
        assert_eq!(lease_life(0), LEASE_MIN);
        assert_eq!(lease_life(u64::MAX), LEASE_MAX);
        let absurd = ProbeVerdict {
            next_ms: u64::MAX,
            ..verdict(true)
        };
        assert_eq!(absurd.kept(), FAILURE_KEPT_MAX);
    }
}
