//! What is done to a fleet and when: harm of every kind and the work of operators between.

use crate::chance::Chance;
use crate::documents::{FAILING, document, poison};
use crate::store::Write;
use lanekeeper_model::OverrideAction;
use lanekeeper_model::rollout::{Canary, RolloutOrder, RolloutPlan, StagedPlan};
use std::collections::BTreeMap;
use std::time::Duration;

/// One deed. A share is of all agents, drawn when it happens.
#[derive(Debug, Clone)]
pub enum Deed {
    /// A replica dies and comes back with nothing.
    KillReplica { replica: usize, down: Duration },
    /// A replica says goodbye, ends and comes back with nothing.
    StopReplica { replica: usize, down: Duration },
    /// A replica stands still, its sockets open.
    FreezeReplica { replica: usize, lasts: Duration },
    /// Agents die and start again, with their disks or without.
    KillAgents {
        share: f64,
        disk: bool,
        down: Duration,
    },
    /// An agent says Bye and starts again.
    StopAgent { down: Duration },
    /// Agents stand still, their sockets open.
    FreezeAgents { share: f64, lasts: Duration },
    /// Nothing gets through between agents and one replica, or all.
    Cut {
        share: f64,
        replica: Option<usize>,
        lasts: Duration,
    },
    /// Connections are reset.
    Reset { share: f64 },
    /// Connections are reset and only one end hears of it.
    HalfOpen { share: f64 },
    /// Everything takes up to seconds.
    SlowNetwork { lasts: Duration },
    /// The configuration database does not answer.
    StoreAway { lasts: Duration },
    /// It answers later.
    StoreStalls { lasts: Duration },
    /// It commits and does not say so.
    StoreMute { lasts: Duration },
    /// The live view does not answer.
    LiveAway { lasts: Duration },
    /// It is full.
    LiveFull { lasts: Duration },
    /// It writes and does not say so.
    LiveMute { lasts: Duration },
    /// It forgets everything.
    LiveFlush,
    /// Hints are lost.
    HintsLost { lasts: Duration },
    /// A lane fails for some agents.
    LaneFails {
        lane: &'static str,
        share: f64,
        lasts: Duration,
    },
    /// Agents take up to more than a minute to try a revision.
    SlowAgents { share: f64, lasts: Duration },
    /// Agents refuse revisions that are good, now and then.
    WeakAgents { share: f64, lasts: Duration },
    /// Operators take agents out of service.
    DrainAgents { share: f64 },
    /// The identities of agents are revoked; they start again with others a while later.
    RevokeAgents { share: f64, restart: Duration },
    /// A second process comes up under the instance of an agent, for as long as that one lives.
    CopyAgent,
    /// A replica asks its agents to report this often.
    PaceReports { replica: usize, interval: Duration },
    /// The database is copied.
    Dump,
    /// The copy is brought back, and a new control epoch begins this much later.
    Restore { renewed_after: Duration },
    /// An operator asks for something.
    Operate(Write),
}

fn plan(chance: &mut Chance) -> RolloutPlan {
    let canary = BTreeMap::from([("canary".to_owned(), "yes".to_owned())]);
    RolloutPlan::Staged(StagedPlan {
        canary: chance.hits(0.5).then_some(Canary::Labels(canary)),
        percents: vec![10 + chance.below(40) as u8],
        hold_secs: 1 + chance.below(8) as u64,
        answer_timeout_secs: 5 + chance.below(30) as u64,
        auto_rollback: chance.hits(0.5),
        ..StagedPlan::default()
    })
}

fn order(chance: &mut Chance) -> Write {
    let mut agents = BTreeMap::new();
    if chance.hits(0.5) {
        let zone = *chance.pick(&["x", "y", "z"]);
        agents.insert("zone".to_owned(), zone.to_owned());
    }
    Write::Order {
        action: *chance.pick(&OverrideAction::ALL),
        pool: chance.hits(0.5).then(|| "chat".into()),
        lane: (*chance.pick(&FAILING)).to_owned(),
        agents,
        lasts: chance.secs(10, 60),
    }
}

fn work(chance: &mut Chance, number: u64) -> Write {
    match chance.below(13) {
        0..3 => Write::Revision(document(number), None),
        3 => Write::Revision(poison(number), None),
        4 => Write::RollBack,
        5 => Write::Revision(document(number), Some(plan(chance))),
        6 => {
            let orders = [
                RolloutOrder::Pause,
                RolloutOrder::Resume,
                RolloutOrder::Stop,
            ];
            Write::Rollout(*chance.pick(&orders))
        }
        7 => Write::Release,
        8 => Write::Undrain,
        _ => order(chance),
    }
}

fn harm(chance: &mut Chance, replicas: usize) -> Deed {
    let share = chance.share().powi(2);
    let replica = chance.below(replicas);
    match chance.below(28) {
        0 | 1 => Deed::KillReplica {
            replica,
            down: chance.secs(0, 40),
        },
        2 => Deed::StopReplica {
            replica,
            down: chance.secs(0, 20),
        },
        3 | 4 => Deed::FreezeReplica {
            replica,
            lasts: chance.secs(1, 90),
        },
        5 => Deed::KillAgents {
            share,
            disk: chance.hits(0.7),
            down: chance.secs(0, 30),
        },
        6 => Deed::StopAgent {
            down: chance.secs(0, 30),
        },
        7 => Deed::FreezeAgents {
            share,
            lasts: chance.secs(1, 60),
        },
        8 | 9 => Deed::Cut {
            share,
            replica: chance.hits(0.6).then_some(replica),
            lasts: chance.secs(1, 60),
        },
        10 => Deed::Reset { share },
        11 => Deed::HalfOpen { share },
        12 => Deed::SlowNetwork {
            lasts: chance.secs(5, 60),
        },
        13 => Deed::StoreAway {
            lasts: chance.secs(1, 40),
        },
        14 => Deed::StoreStalls {
            lasts: chance.secs(1, 30),
        },
        15 => Deed::StoreMute {
            lasts: chance.secs(1, 20),
        },
        16 => Deed::LiveAway {
            lasts: chance.secs(1, 60),
        },
        17 => Deed::LiveFull {
            lasts: chance.secs(1, 40),
        },
        18 => Deed::LiveMute {
            lasts: chance.secs(1, 20),
        },
        19 => Deed::LiveFlush,
        20 => Deed::HintsLost {
            lasts: chance.secs(5, 60),
        },
        21 => Deed::LaneFails {
            lane: FAILING[chance.below(FAILING.len())],
            share: chance.share(),
            lasts: chance.secs(5, 60),
        },
        22 => Deed::DrainAgents { share },
        23 => Deed::RevokeAgents {
            share: share / 4.0,
            restart: chance.secs(2, 20),
        },
        24 => Deed::CopyAgent,
        25 => Deed::PaceReports {
            replica,
            interval: chance.secs(10, 15),
        },
        26 => Deed::SlowAgents {
            share,
            lasts: chance.secs(5, 60),
        },
        _ => Deed::WeakAgents {
            share,
            lasts: chance.secs(5, 60),
        },
    }
}

/// Deeds over a time, the earliest first.
pub fn draw(chance: &mut Chance, replicas: usize, lasts: Duration) -> Vec<(Duration, Deed)> {
    let secs = lasts.as_secs();
    let mut deeds: Vec<(Duration, Deed)> = Vec::new();
    for _ in 0..secs / 8 {
        deeds.push((chance.secs(5, secs), harm(chance, replicas)));
    }
    for number in 0..secs / 10 {
        let write = work(chance, number + 2);
        deeds.push((chance.secs(2, secs), Deed::Operate(write)));
    }
    if chance.hits(0.4) {
        let dumped = chance.secs(2, secs / 2);
        deeds.push((dumped, Deed::Dump));
        let renewed_after = chance.millis(0, 3000);
        let restored = dumped + chance.secs(5, secs / 2);
        deeds.push((restored, Deed::Restore { renewed_after }));
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}
