//! The end of all harm, and what the fleet has to come to after it.

use super::{Event, Sabotage, World};
use crate::checker::CLOCKS_DIFFER;
use crate::documents::{GATEWAY, document};
use crate::network::ServerEnd;
use crate::plan::Action;
use crate::store::Write;
use lanekeeper_agent::simulation::Agent;
use lanekeeper_model::rollout::{RolloutPlan, RolloutState, StagedPlan};
use lanekeeper_model::{AgentRecord, OverrideAction};
use lanekeeper_store::OverrideRow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest the fleet may take to agree: waits of agents that were sent away for up to two
/// minutes, and a trial that was begun under pressure.
const PATIENCE: Duration = Duration::from_secs(240);
/// From the last reset to the first look: what was agreed on before it does not count.
const SETTLES: Duration = Duration::from_secs(10);
/// How long it has to stay so.
const STEADY_FOR: Duration = Duration::from_secs(45);
/// How long a rollout in stages may take then.
const ROLLOUT_PATIENCE: Duration = Duration::from_secs(180);

/// How often the replicas ask for reports in the end, one after the other.
const INTERVALS: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(10)];
/// Share of its interval that a report may be off by: agents vary it, and messages take time.
const SPREAD: f64 = 0.2;
/// How long the agent whose identity is revoked in the end has to lose its session.
const REVOKED_FOR: Duration = Duration::from_secs(5);
/// The agent that has a copy in the end.
const COPIED: usize = 3;
/// A part of the problem that such an agent is shown with.
const COPY: &str = "another living process claims this agent's instance";

/// How far healing has come.
#[derive(Debug, Default)]
pub struct Healing {
    since: Duration,
    /// The last request from before; operators no longer repeat such.
    pub last_request: Option<u64>,
    agreed_since: Option<Duration>,
    agreed: bool,
    rollout: Option<(u64, Duration)>,
    /// Instances whose identities are revoked in the end.
    revoked: BTreeSet<String>,
    /// Agents that have a copy in the end.
    copied: BTreeSet<usize>,
    over: bool,
}

impl Healing {
    pub fn is_over(&self) -> bool {
        self.over
    }
}

impl World {
    /// Undoes every harm. Agents under pressure stay so a little longer.
    pub(super) fn heal(&mut self) {
        self.note(|| "--- everything heals".to_owned());
        self.store.heal();
        self.live.heal();
        self.cuts.clear();
        self.failing.clear();
        (self.slow_until, self.deaf_until) = (self.now, self.now);
        for replica in 0..self.hosts.len() {
            self.freeze_ends(replica);
            self.start_replica(replica);
        }
        for agent in 0..self.nodes.len() {
            let node = &mut self.nodes[agent];
            node.slow_until = self.now;
            if node.frozen_until.is_some() {
                node.frozen_until = Some(self.now);
                self.after(Duration::ZERO, Event::ThawAgent { agent });
            }
            self.after(Duration::ZERO, Event::Start { agent });
        }
        // One that lost its identity before the harm ended gets another one now.
        for agent in 0..self.nodes.len() {
            if self.store.revoked().contains(&self.nodes[agent].instance()) {
                self.end_agent(agent, true, Duration::ZERO);
            }
        }
        self.copies.clear();
        for (replica, interval) in (0..self.hosts.len()).zip(INTERVALS.into_iter().cycle()) {
            self.pace_reports(replica, interval);
        }
        self.healing.since = self.now;
        self.healing.last_request = Some(self.requests);
        if self.sabotaged(Sabotage::NeverPoll) {
            self.deaf_until = self.now + Duration::from_secs(3600);
        }
        self.after(Duration::from_secs(2), Event::FinalWrites);
    }

    fn freeze_ends(&mut self, replica: usize) {
        let host = &self.hosts[replica];
        if host.is_frozen() {
            self.thaw_now(replica);
        }
    }

    /// The last writes, one of each kind. Agents that refused the revision under pressure get it
    /// again with their next session.
    pub(super) fn final_writes(&mut self) {
        let in_y = (0..self.nodes.len()).filter(|number| number % 3 == 1);
        let drained = in_y.map(|number| self.nodes[number].instance());
        let writes = [
            Write::Undrain,
            Write::Drain(drained.collect()),
            Write::ReleaseAll,
            Write::Override {
                action: OverrideAction::ForceOpen,
                pool: Some("chat".into()),
                lane: "a".to_owned(),
                agents: BTreeMap::from([("zone".to_owned(), "x".to_owned())]),
                lasts: Duration::from_secs(7200),
            },
            Write::Revision(document(1000), None),
        ];
        for write in writes {
            self.operate(write);
        }
        for node in &mut self.nodes {
            if node.weak_until > self.now {
                node.weak_until = self.now + Duration::from_secs(5);
            }
        }
        let resets = self.now + Duration::from_secs(8);
        self.plan.push((resets, Action::Reset { share: 2.0 }));
        let number = self.plan.len() - 1;
        self.at(resets, Event::Action { number });
        // Notes about earlier copies ended with the sessions.
        self.healing.copied.insert(COPIED);
        self.copy_agent(COPIED, resets + SETTLES - self.now);
        self.at(resets + SETTLES, Event::FinalRevocation);
        self.at(resets + SETTLES + REVOKED_FOR, Event::Check);
    }

    /// Revokes the identity of one agent while no session ends for another reason.
    pub(super) fn final_revocation(&mut self) {
        // Only a session's end removes a record here, so it has to be one that has a session.
        let revoked = (0..self.nodes.len()).find(|number| {
            let connection = self.nodes[*number].connection;
            let connection = connection.and_then(|id| self.connections.get(&id));
            let known = connection.is_some_and(|it| it.server == ServerEnd::Open && !it.half_open);
            *number != COPIED
                && known
                && self.nodes[*number]
                    .agent
                    .as_ref()
                    .is_some_and(Agent::is_open)
        });
        if let Some(revoked) = revoked {
            self.healing.revoked.insert(self.nodes[revoked].instance());
            self.revoke(revoked, REVOKED_FOR);
        }
    }

    pub(super) fn check_healing(&mut self) {
        self.after(Duration::from_secs(1), Event::Check);
        self.checker.audits(&self.store);
        if let Some((revision, since)) = self.healing.rollout {
            return self.check_rollout(revision, since);
        }
        match self.disagreement() {
            None => {
                let since = *self.healing.agreed_since.get_or_insert(self.now);
                self.healing.agreed = true;
                if self.now - since >= STEADY_FOR {
                    self.begin_rollout();
                }
            }
            Some((invariant, what)) if self.healing.agreed => {
                self.checker
                    .broken(invariant, format!("after all was well, {what}"));
            }
            Some((invariant, what)) => {
                if self.now - self.healing.since > PATIENCE {
                    self.checker
                        .broken(invariant, format!("{PATIENCE:?} after healing, {what}"));
                }
            }
        }
    }

    fn begin_rollout(&mut self) {
        self.note(|| "--- a rollout in stages".to_owned());
        let plan = RolloutPlan::Staged(StagedPlan {
            percents: vec![20, 60],
            hold_secs: 5,
            ..StagedPlan::default()
        });
        self.requests += 1;
        let (request, write) = (self.requests, Write::Revision(document(1001), Some(plan)));
        self.ask(request, write, 5);
        let (revision, _) = self.store.head();
        self.healing.rollout = Some((revision, self.now));
    }

    fn check_rollout(&mut self, revision: u64, since: Duration) {
        let rollout = self.store.rollout(revision).map(|stored| &stored.rollout);
        let done = rollout.is_some_and(|it| it.state == RolloutState::Done);
        let stands = rollout.map(|it| format!("{:?} {:?}", it.state, it.stop));
        let what = if done {
            self.disagreement()
        } else {
            Some(("I2", format!("the rollout is {stands:?}")))
        };
        match what {
            None => self.healing.over = true,
            Some((invariant, what)) if self.now - since > ROLLOUT_PATIENCE => {
                self.checker.broken(invariant, what);
            }
            Some(_) => {}
        }
    }

    /// The first thing that is not as it should be, and the invariant that it breaks.
    fn disagreement(&self) -> Option<(&'static str, String)> {
        let agreement = self.not_agreed().map(|what| ("I2", what));
        agreement
            .or_else(|| self.wrongly_drained().map(|what| ("I10", what)))
            .or_else(|| self.not_forgotten().map(|what| ("I11", what)))
            .or_else(|| self.wrongly_named().map(|what| ("I12", what)))
            .or_else(|| self.wrongly_paced().map(|what| ("I13", what)))
    }

    fn not_agreed(&self) -> Option<String> {
        let (revision, hash) = self.store.head();
        let epoch = self.store.epoch();
        let (now, true_ms) = (self.instant(), self.true_ms());
        let standing = self.store.standing(true_ms).rows;
        // Clocks differ about when an order ends.
        let slack = CLOCKS_DIFFER.as_millis() as u64;
        let ends = |row: &OverrideRow| row.order.expires_ms.abs_diff(true_ms) <= slack;
        let some_end = self.store.overrides_ever.iter().any(ends);
        let mut living = BTreeSet::new();
        for node in &self.nodes {
            let instance = node.instance();
            let Some(agent) = &node.agent else {
                return Some(format!("{instance} does not run"));
            };
            if !agent.is_open() {
                return Some(format!("{instance} has no session"));
            }
            if agent.applied() != Some((revision, hash, Some(epoch))) {
                let applied = agent.applied();
                return Some(format!(
                    "{instance} serves {applied:?}, not {revision} of {epoch}"
                ));
            }
            if !some_end && let Some(what) = disobeyed(agent, &standing, now) {
                return Some(format!("{instance} {what}"));
            }
            let facts = self.store.facts().get(&instance);
            if facts.is_none_or(|it| it.applied_revision != revision || it.left_ms.is_some()) {
                return Some(format!("the database knows {facts:?}"));
            }
            living.insert(instance);
        }
        for (api, reader) in self.apis.iter().enumerate() {
            if reader.partial {
                return Some(format!("api {api} is partial"));
            }
            let fresh = reader.fresh(true_ms);
            let shown: BTreeSet<String> = fresh.iter().map(|it| it.instance.clone()).collect();
            if shown != living {
                let differ: Vec<_> = shown.symmetric_difference(&living).take(3).collect();
                return Some(format!("api {api} differs about {differ:?}"));
            }
            for record in fresh {
                if (record.applied_revision, record.applied_hash.as_str()) != (revision, hash) {
                    let (shows, instance) = (record.applied_revision, &record.instance);
                    return Some(format!("api {api} shows {instance} with {shows}"));
                }
                let selected = standing
                    .iter()
                    .filter(|row| row.order.selects(&record.labels));
                let selected: BTreeSet<&String> = selected.map(|row| &row.order.id).collect();
                // Of an order that ended by itself nobody is told.
                let ever = |id: &str| {
                    self.store
                        .overrides_ever
                        .iter()
                        .find(|it| it.order.id == *id)
                };
                let lasts = |id: &str| ever(id).is_none_or(|it| it.order.expires_ms > true_ms);
                let applied = record.overrides.applied.keys();
                let applied: BTreeSet<&String> = applied.filter(|id| lasts(id)).collect();
                if selected != applied && !some_end {
                    let instance = &record.instance;
                    return Some(format!("api {api} shows {instance} under {applied:?}"));
                }
            }
            if self.apis.len() > 1 && api > 0 && !self.views_agree(api) {
                return Some(format!("api {api} shows another fleet than api 0"));
            }
        }
        None
    }

    /// The records of an instance as the APIs show them.
    fn shown(&self, instance: &str) -> impl Iterator<Item = &Arc<AgentRecord>> {
        let records = self.apis.iter().flat_map(|api| api.index.records());
        records.filter(move |record| record.instance == instance)
    }

    fn wrongly_drained(&self) -> Option<String> {
        for node in &self.nodes {
            let instance = node.instance();
            let wanted = self.store.drained().contains(&instance);
            let agent = node.agent.as_ref()?;
            if agent.is_out_of_service() != wanted {
                return Some(format!("{instance} is wanted out of service: {wanted}"));
            }
            if self.shown(&instance).any(|it| it.draining != wanted) {
                return Some(format!("{instance} is not shown as draining: {wanted}"));
            }
        }
        None
    }

    fn not_forgotten(&self) -> Option<String> {
        let mut revoked = self.healing.revoked.iter();
        let shown = revoked.find(|instance| self.shown(instance).next().is_some())?;
        Some(format!("{shown} was sent away and is shown"))
    }

    /// An agent whose identity was revoked is about to start again: it had time to lose its
    /// session.
    pub(super) fn check_revoked(&mut self, number: usize) {
        let instance = self.nodes[number].instance();
        let agent = self.nodes[number].agent.as_ref();
        if self.healing.revoked.contains(&instance) && agent.is_some_and(Agent::is_open) {
            let what = format!("{instance} has a session without authorization");
            self.checker.broken("I11", what);
        }
    }

    fn wrongly_named(&self) -> Option<String> {
        for (number, node) in self.nodes.iter().enumerate() {
            let (instance, wanted) = (node.instance(), self.healing.copied.contains(&number));
            let named = |record: &AgentRecord| record.problems.iter().any(|it| it.contains(COPY));
            if self.shown(&instance).any(|record| named(record) != wanted) {
                return Some(format!("{instance} is not shown as copied: {wanted}"));
            }
        }
        None
    }

    fn wrongly_paced(&self) -> Option<String> {
        for node in &self.nodes {
            let connection = self.connections.get(&node.connection?)?;
            let asked = INTERVALS[connection.replica % INTERVALS.len()];
            let gap = self.checker.longest_gap(&node.instance(), self.now);
            if gap < asked.mul_f64(1.0 - SPREAD) || gap > asked.mul_f64(1.0 + SPREAD) {
                let instance = node.instance();
                return Some(format!("{instance} reports after {gap:?}, not {asked:?}"));
            }
        }
        None
    }

    /// Two APIs tell the same of who reports what, whenever they read last.
    fn views_agree(&self, api: usize) -> bool {
        let picture = |api: usize| -> BTreeMap<String, (u64, String)> {
            let fresh = self.apis[api].fresh(self.true_ms());
            let told = fresh.iter().map(|record| {
                let applied = (record.applied_revision, record.applied_hash.clone());
                (record.instance.clone(), applied)
            });
            told.collect()
        };
        picture(0) == picture(api)
    }
}

/// What an agent's cells obey else than the active overrides.
fn disobeyed(agent: &Agent, standing: &[OverrideRow], now: Instant) -> Option<String> {
    for cell in agent.cells(now) {
        let about = standing
            .iter()
            .map(|row| &row.order)
            .filter(|order| order.selects(&agent.facts().labels) && order.concerns(&cell.owner()));
        let mut obeyed = None;
        for order in about.filter(|order| order.action != OverrideAction::Reset) {
            if obeyed.is_none_or(|other| order.takes_precedence_over(other)) {
                obeyed = Some(order);
            }
        }
        let wanted = obeyed.map(|order| order.action.as_str().to_owned());
        if cell.override_action != wanted {
            let (pool, lane, obeys) = (&cell.pool, &cell.lane, &cell.override_action);
            return Some(format!(
                "obeys {obeys:?} on {GATEWAY}/{pool}/{lane}, not {wanted:?}"
            ));
        }
    }
    None
}
