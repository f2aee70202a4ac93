//! The fleet's advice: replicas look for it, agents follow it, some agents lie, and clocks are set.

use super::replicas::Work;
use super::{Fleet, Sabotage, World};
use crate::checker::CLOCKS_DIFFER;
use crate::documents::{AGENTS_MIN, GATEWAY, QUORUM, cells};
use lanekeeper_model::fleet::{Advice, STALE_AFTER_MS};
use lanekeeper_model::{
    Advisory, AgentRecord, CauseReport, CellReport, CellState, LaneName, PoolName, Report, digest,
};
use lanekeeper_store::Changes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Between two looks when nothing is reported, and from a hint to the look it asks for.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
const LOOK_GAP: Duration = Duration::from_millis(100);
/// Ages travel in whole milliseconds.
const ROUNDED: Duration = Duration::from_millis(2);
/// Votes that one agent has when votes are stuffed.
const STUFFED: usize = 150;

/// What an agent was told of a lane.
pub struct Advised {
    until: Duration,
    evidence: Duration,
}

/// Moments by agent, pool and lane.
pub type Times = BTreeMap<(usize, PoolName, LaneName), Duration>;

/// What came of advice in one history.
#[derive(Debug, Default, Clone)]
pub struct AdviceBook {
    /// How often replicas began to advise against a lane.
    pub begun: u64,
    /// How often an agent that follows advice chose another member.
    pub spared: u64,
    /// When each agent first followed advice about a lane.
    pub followed: Times,
    /// When it first opened the lane itself.
    pub opened: Times,
    /// Attempts on lanes while they failed.
    pub failed_attempts: u64,
}

/// Says that lanes are open which are not.
pub fn lie(report: &mut Report, lies: &BTreeMap<&'static str, Duration>, now: Duration) {
    let lanes = lies.iter().filter(|(_, until)| **until > now);
    let lanes: BTreeSet<&str> = lanes.map(|(lane, _)| *lane).collect();
    if lanes.is_empty() {
        return;
    }
    report.cells.retain(|cell| !lanes.contains(&*cell.lane));
    for (pool, lane) in cells() {
        if lanes.contains(&*lane) {
            report.cells.push(claimed(pool, lane));
        }
    }
    report.digest = Some(digest(&report.cells));
}

fn claimed(pool: PoolName, lane: LaneName) -> CellReport {
    CellReport {
        pool,
        lane,
        provider: "p".into(),
        endpoint: None,
        state: CellState::Open,
        state_age_ms: 10,
        open_age_ms: 10,
        cooldown_remaining_ms: 5000,
        parked_remaining_ms: 0,
        streak: 3,
        trips: 1,
        reopens: 0,
        window_ok: 0,
        window_failed: 3,
        cause: Some(CauseReport {
            kind: "reset".to_owned(),
            status: None,
            count: 3,
        }),
        override_action: None,
        advisory: false,
        advisory_spared: 0,
    }
}

impl World {
    pub(super) fn step_clock(&mut self, replica: usize, by_ms: i64) {
        self.hosts[replica].skew_ms += by_ms;
    }

    /// A report came in somewhere.
    pub(super) fn want_advice(&mut self, replica: usize) {
        if self.settings.fleet == Fleet::Alone {
            return;
        }
        let host = &mut self.hosts[replica];
        if !host.look_due {
            host.look_due = true;
            self.work_after(replica, LOOK_GAP, Work::LookForAdviceSoon);
        }
    }

    /// A replica looks for what the fleet advises.
    pub(super) fn look_for_advice(&mut self, replica: usize, was_asked: bool) {
        if was_asked {
            self.hosts[replica].look_due = false;
        } else {
            let pause = LOOK_INTERVAL.mul_f64(0.8 + 0.4 * self.random.share());
            self.work_after(replica, pause, Work::LookForAdvice);
        }
        let (now, now_ms) = (self.instant(), self.replica_ms(replica));
        let mut place = std::mem::take(&mut self.hosts[replica].place);
        let changes = self.live.changes(&mut place, self.now);
        self.hosts[replica].place = place;
        let Ok(mut changes) = changes else { return };
        if self.sabotaged(Sabotage::StuffVotes) {
            stuff(&mut changes);
        }
        let Some(it) = &mut self.hosts[replica].replica else {
            return;
        };
        let begun = it.take_changes(changes, now, now_ms);
        for (_, advice) in begun {
            self.advice.begun += 1;
            self.note(|| {
                let (lane, open, fresh) = (&advice.cell.lane, advice.open, advice.fresh);
                let withheld = advice.withheld;
                format!("replica {replica} advises against {lane}: {open} of {fresh} {withheld:?}")
            });
            if advice.is_sent() {
                self.check_quorum(replica, &advice);
            }
        }
        self.spread_news(replica);
    }

    /// Counts anew, from what is truly in the live view, who says what is advised.
    fn check_quorum(&mut self, replica: usize, advice: &Advice) {
        let Ok(records) = self.live.records(GATEWAY, self.now) else {
            return;
        };
        let now_ms = self.true_ms();
        let age = |record: &AgentRecord| {
            let received = record.report_received_ms?;
            Some(now_ms.saturating_sub(received))
        };
        let differ = CLOCKS_DIFFER.as_millis() as u64;
        let says_so = |record: &&AgentRecord| {
            record.cells.iter().any(|cell| {
                cell.pool == advice.cell.pool
                    && cell.lane == advice.cell.lane
                    && cell.state != CellState::Closed
            })
        };
        let window_max_ms = match self.checker.clocks_step {
            true => u64::MAX,
            false => STALE_AFTER_MS + differ,
        };
        let within = |window_ms: u64| {
            records.iter().filter(move |record| {
                !record.left && age(record).is_some_and(|age| age <= window_ms)
            })
        };
        let mut open: BTreeSet<&str> = BTreeSet::new();
        open.extend(
            within(window_max_ms)
                .filter(says_so)
                .map(AgentRecord::voter),
        );
        let mut fresh: BTreeSet<&str> = BTreeSet::new();
        // A member that some revisions lack counts for those agents only that have it.
        let everywhere = &*advice.cell.lane != "c";
        if everywhere {
            let served = within(STALE_AFTER_MS - differ).filter(|it| it.applied_revision > 0);
            fresh.extend(served.map(AgentRecord::voter));
        }
        let share = (QUORUM * fresh.len() as f64).ceil() as usize;
        // Reports of the last moments may be on their way to one of the two readers. Where clocks
        // are set, who is fresh is anybody's guess, but a quarter of all there are remains.
        let needed = if self.checker.clocks_step {
            AGENTS_MIN.max(self.nodes.len() / 4)
        } else {
            AGENTS_MIN.max(share.saturating_sub(2))
        };
        if open.len() < needed {
            let (lane, said) = (&advice.cell.lane, open.len());
            let what = format!(
                "replica {replica} advises against {lane} for {said} of {} agents",
                fresh.len()
            );
            self.checker.broken("I15", what);
        }
    }

    /// Notes which cells of an agent follow advice or are open for the first time.
    pub(super) fn note_cells(&mut self, number: usize) {
        let Some(agent) = &self.nodes[number].agent else {
            return;
        };
        for cell in agent.cells(self.instant()) {
            let key = (number, cell.pool, cell.lane);
            if cell.state != CellState::Closed && cell.override_action.is_none() {
                self.advice.opened.entry(key.clone()).or_insert(self.now);
            }
            if cell.advisory {
                self.advice.followed.entry(key).or_insert(self.now);
            }
        }
    }

    pub(super) fn advised_now(
        &self,
        advisories: &[Advisory],
    ) -> BTreeMap<(PoolName, LaneName), Advised> {
        let told = advisories.iter().filter_map(|advisory| {
            let cell = (advisory.pool.clone()?, advisory.lane.clone());
            let advised = Advised {
                until: self.now + Duration::from_millis(advisory.remaining_ms),
                evidence: self
                    .now
                    .saturating_sub(Duration::from_millis(advisory.evidence_age_ms)),
            };
            Some((cell, advised))
        });
        told.collect()
    }

    /// The cell that the next request of an agent goes to: any, or the choice of a pool.
    pub(super) fn choose_cell(&mut self, number: usize) -> Option<(PoolName, LaneName)> {
        let now = self.instant();
        if self.settings.direct >= 1.0 {
            // As it was before there were pools to choose for: seeds keep their histories.
            self.nodes[number].agent.as_ref()?.applied()?;
            return Some(self.random.pick(&cells()).clone());
        }
        let (direct, of_pool) = (
            self.random.hits(self.settings.direct),
            self.random.hits(0.7),
        );
        let (roll, any) = (self.random.share(), self.random.pick(&cells()).clone());
        let node = &self.nodes[number];
        let agent = node.agent.as_ref()?;
        agent.applied()?;
        let instance = node.instance();
        let reports = agent.cells(now);
        let mut broken = None;
        for cell in reports.iter().filter(|cell| cell.advisory) {
            let key = (cell.pool.clone(), cell.lane.clone());
            let known = node.advised.get(&key);
            let known = known.filter(|advised| advised.until + ROUNDED >= self.now);
            let Some(advised) = known else {
                broken = Some((
                    "I17",
                    format!("{instance} follows advice on {key:?} by itself"),
                ));
                continue;
            };
            let success = node.successes.get(&key);
            if success.is_some_and(|at| *at > advised.evidence + ROUNDED) {
                broken = Some(("I16", format!("{instance} knows better of {key:?}")));
            }
        }
        let pool = if of_pool { "chat" } else { "deep" };
        let is_advised = |cell: &CellReport| {
            cell.advisory && cell.state == CellState::Closed && cell.override_action.is_none()
        };
        let of_pool: Vec<&CellReport> = reports.iter().filter(|it| it.pool == *pool).collect();
        let advised: Vec<&CellReport> = of_pool
            .iter()
            .copied()
            .filter(|it| is_advised(it))
            .collect();
        let chosen = agent.pick(pool, roll, now);
        match &chosen {
            None if !advised.is_empty() => {
                broken = Some(("I14", format!("{instance} has no member of {pool} left")));
            }
            Some((_, lane)) if advised.iter().any(|cell| cell.lane != *lane) => {
                self.advice.spared += 1;
            }
            Some(_) | None => {}
        }
        if let Some((invariant, what)) = broken {
            self.checker.broken(invariant, what);
        }
        if direct { Some(any) } else { chosen }
    }
}

/// Gives everyone who holds something open many votes.
fn stuff(changes: &mut Changes) {
    let open = changes
        .records
        .iter()
        .filter(|record| !record.cells.is_empty());
    let open: Vec<Arc<AgentRecord>> = open.cloned().collect();
    for record in open {
        for number in 0..STUFFED {
            let mut copy = AgentRecord::clone(&record);
            copy.instance = format!("{}+{number}", record.instance);
            copy.identity = Some(copy.instance.clone());
            changes.records.push(Arc::new(copy));
        }
    }
}
