//! What is done to a fleet and when: harm of every kind and the work of operators between.

use crate::documents::{FAILING, document, poison};
use crate::random::Random;
use crate::store::Write;
use lanekeeper_model::OverrideAction;
use lanekeeper_model::rollout::{Canary, RolloutOrder, RolloutPlan, StagedPlan};
use std::collections::BTreeMap;
use std::time::Duration;

/// One action. A share is of all agents, drawn when it happens.
#[derive(Debug, Clone)]
pub enum Action {
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
    /// Agents say that they hold a lane open which they do not.
    Lie {
        lane: &'static str,
        share: f64,
        lasts: Duration,
    },
    /// A replica's wall clock is set.
    StepClock { replica: usize, by_ms: i64 },
    /// The database is copied.
    Dump,
    /// The copy is brought back, and a new control epoch begins this much later.
    Restore { renewed_after: Duration },
    /// An operator asks for something.
    Operate(Write),
}

fn plan(random: &mut Random) -> RolloutPlan {
    let canary = BTreeMap::from([("canary".to_owned(), "yes".to_owned())]);
    RolloutPlan::Staged(StagedPlan {
        canary: random.hits(0.5).then_some(Canary::Labels(canary)),
        percents: vec![10 + random.below(40) as u8],
        hold_secs: 1 + random.below(8) as u64,
        answer_timeout_secs: 5 + random.below(30) as u64,
        auto_rollback: random.hits(0.5),
        ..StagedPlan::default()
    })
}

fn order(random: &mut Random) -> Write {
    let mut agents = BTreeMap::new();
    if random.hits(0.5) {
        let zone = *random.pick(&["x", "y", "z"]);
        agents.insert("zone".to_owned(), zone.to_owned());
    }
    Write::Override {
        action: *random.pick(&OverrideAction::ALL),
        pool: random.hits(0.5).then(|| "chat".into()),
        lane: (*random.pick(&FAILING)).to_owned(),
        agents,
        lasts: random.secs(10, 60),
    }
}

fn work(random: &mut Random, number: u64) -> Write {
    match random.below(13) {
        0..3 => Write::Revision(document(number), None),
        3 => Write::Revision(poison(number), None),
        4 => Write::RollBack,
        5 => Write::Revision(document(number), Some(plan(random))),
        6 => {
            let requests = [
                RolloutOrder::Pause,
                RolloutOrder::Resume,
                RolloutOrder::Stop,
            ];
            Write::Rollout(*random.pick(&requests))
        }
        7 => Write::Release,
        8 => Write::Undrain,
        _ => order(random),
    }
}

fn harm(random: &mut Random, replicas: usize, together: bool) -> Action {
    let share = random.share().powi(2);
    let replica = random.below(replicas);
    match random.below(if together { 30 } else { 28 }) {
        0 | 1 => Action::KillReplica {
            replica,
            down: random.secs(0, 40),
        },
        2 => Action::StopReplica {
            replica,
            down: random.secs(0, 20),
        },
        3 | 4 => Action::FreezeReplica {
            replica,
            lasts: random.secs(1, 90),
        },
        5 => Action::KillAgents {
            share,
            disk: random.hits(0.7),
            down: random.secs(0, 30),
        },
        6 => Action::StopAgent {
            down: random.secs(0, 30),
        },
        7 => Action::FreezeAgents {
            share,
            lasts: random.secs(1, 60),
        },
        8 | 9 => Action::Cut {
            share,
            replica: random.hits(0.6).then_some(replica),
            lasts: random.secs(1, 60),
        },
        10 => Action::Reset { share },
        11 => Action::HalfOpen { share },
        12 => Action::SlowNetwork {
            lasts: random.secs(5, 60),
        },
        13 => Action::StoreAway {
            lasts: random.secs(1, 40),
        },
        14 => Action::StoreStalls {
            lasts: random.secs(1, 30),
        },
        15 => Action::StoreMute {
            lasts: random.secs(1, 20),
        },
        16 => Action::LiveAway {
            lasts: random.secs(1, 60),
        },
        17 => Action::LiveFull {
            lasts: random.secs(1, 40),
        },
        18 => Action::LiveMute {
            lasts: random.secs(1, 20),
        },
        19 => Action::LiveFlush,
        20 => Action::HintsLost {
            lasts: random.secs(5, 60),
        },
        21 => Action::LaneFails {
            lane: FAILING[random.below(FAILING.len())],
            share: random.share(),
            lasts: random.secs(5, 60),
        },
        22 => Action::DrainAgents { share },
        23 => Action::RevokeAgents {
            share: share / 4.0,
            restart: random.secs(2, 20),
        },
        24 => Action::CopyAgent,
        25 => Action::PaceReports {
            replica,
            interval: random.secs(10, 15),
        },
        28 | 29 => Action::Lie {
            lane: FAILING[random.below(FAILING.len())],
            share: random.share(),
            lasts: random.secs(5, 60),
        },
        26 => Action::SlowAgents {
            share,
            lasts: random.secs(5, 60),
        },
        _ => Action::WeakAgents {
            share,
            lasts: random.secs(5, 60),
        },
    }
}

/// Actions over a time, the earliest first.
pub fn draw(
    random: &mut Random,
    replicas: usize,
    lasts: Duration,
    together: bool,
) -> Vec<(Duration, Action)> {
    let secs = lasts.as_secs();
    let mut actions: Vec<(Duration, Action)> = Vec::new();
    for _ in 0..secs / 8 {
        actions.push((random.secs(5, secs), harm(random, replicas, together)));
    }
    for number in 0..secs / 10 {
        let write = work(random, number + 2);
        actions.push((random.secs(2, secs), Action::Operate(write)));
    }
    if random.hits(0.4) {
        let dumped = random.secs(2, secs / 2);
        actions.push((dumped, Action::Dump));
        let renewed_after = random.millis(0, 3000);
        let restored = dumped + random.secs(5, secs / 2);
        actions.push((restored, Action::Restore { renewed_after }));
    }
    actions.sort_by_key(|(at, _)| *at);
    actions
}
