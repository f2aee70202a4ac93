//! One probe for the fleet: replicas carry agents' questions to the board that all share, and what
//! a probe proved to everybody.

use super::replicas::Work;
use super::{Event, Sabotage, World};
use crate::documents::GATEWAY;
use lanekeeper_model::lease::{
    LeaseBoard, LeaseKey, Leased, ProbeAnswer, ProbeVerdict, ProbedLane, lease_life,
};
use lanekeeper_model::{LaneName, PoolName};
use lanekeeper_proto::message::ProbeLeaseRequest;
use lanekeeper_store::Hint;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest cooldown of the simulated policy, and the shortest.
const COOLDOWN_MAX: Duration = Duration::from_secs(20);
/// Longer than any wait of an agent for an answer, a request and its attempt.
const SLACK: Duration = Duration::from_secs(10);

/// What comes of leases in one history.
#[derive(Debug, Default)]
pub struct LeaseBook {
    pub board: LeaseBoard,
    /// Leases that run, by lane: holder and end.
    running: BTreeMap<LaneName, (String, Duration)>,
    /// When the last failure of a lane's probe counted from, and until when.
    resting: BTreeMap<LaneName, (Duration, Duration)>,
    pub granted: u64,
    pub verdicts: u64,
    /// Probes that went out, by lease or not.
    pub probes: u64,
}

/// What an agent asked through a replica, on its way to the board.
pub struct Carried {
    pub key: (String, String),
    pub request: ProbeLeaseRequest,
}

impl World {
    /// Takes what agents asked a replica, and carries it to the board.
    pub(super) fn carry_leases(&mut self, replica: usize) {
        let Some(it) = &mut self.hosts[replica].replica else {
            return;
        };
        for (key, request) in it.take_lease_requests() {
            let latency = self.latency();
            let life = self.hosts[replica].life;
            let carried = Box::new(Carried { key, request });
            self.after(
                latency,
                Event::Lease {
                    replica,
                    life,
                    carried,
                },
            );
        }
    }

    /// A request reaches the board, whatever has become of the replica that carried it.
    pub(super) fn lease(&mut self, replica: usize, life: u32, carried: Carried) {
        if self.now < self.live.away_until || self.now < self.live.full_until {
            return;
        }
        let Carried { key, request } = carried;
        let (gateway, instance) = &key;
        let of = |lane: &ProbedLane| LeaseKey {
            gateway: gateway.as_str().into(),
            lane: lane.clone(),
        };
        for lane in &request.returned {
            let now = self.now;
            self.leases.board.settle(&of(lane), instance, None, now);
            self.ended(lane, instance);
        }
        for verdict in &request.verdicts {
            let now = self.now;
            let at = of(&verdict.lane);
            if !self.leases.board.settle(&at, instance, Some(verdict), now) {
                continue;
            }
            self.ended(&verdict.lane, instance);
            self.leases.verdicts += 1;
            let rest = (now, now + Duration::from_millis(verdict.next_ms));
            if verdict.failure.is_some() {
                self.leases.resting.insert(verdict.lane.lane.clone(), rest);
            }
            self.note(|| {
                format!(
                    "{instance} proved {:?} of {:?}",
                    verdict.failure, verdict.lane
                )
            });
            self.tell(replica, life, None, verdict.clone());
            self.publish(&Hint::ProbeVerdict {
                gateway: at.gateway,
                lane: at.lane,
            });
        }
        for ask in &request.asks {
            let (at, ttl) = (of(&ask.lane), lease_life(ask.ttl_ms));
            let leased = if self.sabotaged(Sabotage::PermitAll) {
                Leased::Granted(ttl)
            } else {
                self.leases.board.ask(&at, instance, ttl, self.now)
            };
            if let Leased::Granted(ttl) = leased {
                self.check_lease(&ask.lane, instance, ttl);
            }
            let answer = |granted, remaining: Duration| ProbeAnswer {
                lane: ask.lane.clone(),
                granted,
                remaining_ms: remaining.as_millis() as u64,
            };
            match leased {
                Leased::Granted(ttl) => self.answer(replica, life, &key, answer(true, ttl)),
                Leased::Held(left) => self.answer(replica, life, &key, answer(false, left)),
                Leased::Decided(verdict) => {
                    self.tell(replica, life, Some(instance.clone()), verdict);
                }
            }
        }
    }

    fn ended(&mut self, lane: &ProbedLane, holder: &str) {
        let running = &mut self.leases.running;
        if running.get(&lane.lane).is_some_and(|(by, _)| by == holder) {
            running.remove(&lane.lane);
        }
    }

    /// At most one leased probe per lane, and none while the last one's failure speaks for all.
    fn check_lease(&mut self, lane: &ProbedLane, holder: &str, ttl: Duration) {
        self.leases.granted += 1;
        let lane = &lane.lane;
        let running = self.leases.running.get(lane);
        if let Some((by, until)) = running
            && by != holder
            && *until > self.now
        {
            let what = format!("{holder} may probe {lane} while {by} does");
            self.checker.broken("I7", what);
        }
        if let Some((_, until)) = self.leases.resting.get(lane)
            && *until > self.now
        {
            let what = format!("{holder} may probe {lane} before the next cooldown is over");
            self.checker.broken("I7", what);
        }
        let until = self.now + ttl;
        let running = &mut self.leases.running;
        running.insert(lane.clone(), (holder.to_owned(), until));
    }

    fn answer(&mut self, replica: usize, life: u32, key: &(String, String), answer: ProbeAnswer) {
        let latency = self.latency();
        let work = Work::LeaseAnswer {
            key: key.clone(),
            answer,
        };
        self.after(
            latency,
            Event::Work {
                replica,
                life,
                work,
            },
        );
    }

    fn tell(&mut self, replica: usize, life: u32, to: Option<String>, verdict: ProbeVerdict) {
        let latency = self.latency();
        let work = Work::Verdict { to, verdict };
        self.after(
            latency,
            Event::Work {
                replica,
                life,
                work,
            },
        );
    }

    pub(super) fn answer_lease(
        &mut self,
        replica: usize,
        key: &(String, String),
        answer: ProbeAnswer,
    ) {
        if let Some(it) = &mut self.hosts[replica].replica {
            it.answer_lease(key, answer);
        }
        self.spread_news(replica);
    }

    pub(super) fn tell_verdict(
        &mut self,
        replica: usize,
        to: Option<&str>,
        verdict: &ProbeVerdict,
    ) {
        if let Some(it) = &mut self.hosts[replica].replica {
            it.tell_verdict(GATEWAY, to, verdict);
        }
        self.spread_news(replica);
    }

    /// A hint says that an agent of some replica probed for all.
    pub(super) fn hear_of_verdict(&mut self, replica: usize, lane: &ProbedLane) {
        if self.now < self.live.away_until {
            return;
        }
        let key = LeaseKey {
            gateway: GATEWAY.into(),
            lane: lane.clone(),
        };
        if let Some(verdict) = self.leases.board.verdict(&key, self.now) {
            self.tell_verdict(replica, None, &verdict);
        }
    }

    /// No request finds a cell waiting for another agent's probe for longer than one cooldown.
    /// `waited` is since the first one that found it so.
    pub(super) fn check_wait(
        &mut self,
        instance: &str,
        cell: &(PoolName, LaneName),
        waited: Duration,
    ) {
        if waited > COOLDOWN_MAX + SLACK {
            let what = format!("{instance} has waited {waited:?} for a probe of {cell:?}");
            self.checker.broken("I18", what);
        }
    }
}
