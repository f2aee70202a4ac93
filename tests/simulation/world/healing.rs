//! The end of all harm, and what the fleet has to come to after it.

use super::{Event, Sabotage, World};
use crate::documents::{GATEWAY, document};
use crate::judge::CLOCKS_DIFFER;
use crate::plan::Deed;
use crate::store::Write;
use lanekeeper_agent::simulation::Agent;
use lanekeeper_model::OverrideAction;
use lanekeeper_model::rollout::{RolloutPlan, RolloutState, StagedPlan};
use lanekeeper_store::OverrideRow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The longest the fleet may take to agree: waits of agents that were sent away for up to two minutes,
/// and a trial that was begun under pressure.
const PATIENCE: Duration = Duration::from_secs(240);
/// From the last reset to the first look: what was agreed on before it does not count.
const SETTLES: Duration = Duration::from_secs(10);
/// How long it has to stay so.
const STEADY_FOR: Duration = Duration::from_secs(45);
/// How long a rollout in stages may take then.
const ROLLOUT_PATIENCE: Duration = Duration::from_secs(180);

/// How far healing has come.
#[derive(Debug, Default)]
pub struct Healing {
    since: Duration,
    /// The last request from before; operators no longer repeat such.
    pub last_request: Option<u64>,
    agreed_since: Option<Duration>,
    agreed: bool,
    rollout: Option<(u64, Duration)>,
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

    /// The last writes, one of each kind. Agents that refused the revision under pressure get it again
    /// with their next session.
    pub(super) fn final_writes(&mut self) {
        let writes = [
            Write::ReleaseAll,
            Write::Order {
                action: OverrideAction::ForceOpen,
                pool: Some("chat".into()),
                lane: "a".to_owned(),
                agents: BTreeMap::from([("zone".to_owned(), "x".to_owned())]),
                lasts: Duration::from_secs(7200),
            },
            Write::Revision(document(1000), None),
        ];
        for write in writes {
            self.requests += 1;
            let (request, tries) = (self.requests, 5);
            self.after(
                Duration::ZERO,
                Event::Ask {
                    request,
                    write,
                    tries,
                },
            );
        }
        for node in &mut self.nodes {
            if node.weak_until > self.now {
                node.weak_until = self.now + Duration::from_secs(5);
            }
        }
        let resets = self.now + Duration::from_secs(8);
        self.plan.push((resets, Deed::Reset { share: 2.0 }));
        let number = self.plan.len() - 1;
        self.at(resets, Event::Deed { number });
        self.at(resets + SETTLES, Event::Judge);
    }

    pub(super) fn judge_healing(&mut self) {
        self.after(Duration::from_secs(1), Event::Judge);
        self.judge.audits(&self.store);
        if let Some((revision, since)) = self.healing.rollout {
            return self.judge_rollout(revision, since);
        }
        match self.disagreement() {
            None => {
                let since = *self.healing.agreed_since.get_or_insert(self.now);
                self.healing.agreed = true;
                if self.now - since >= STEADY_FOR {
                    self.begin_rollout();
                }
            }
            Some(what) if self.healing.agreed => {
                self.judge
                    .broken("I2", format!("after all was well, {what}"));
            }
            Some(what) => {
                if self.now - self.healing.since > PATIENCE {
                    self.judge
                        .broken("I2", format!("{PATIENCE:?} after healing, {what}"));
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

    fn judge_rollout(&mut self, revision: u64, since: Duration) {
        let rollout = self.store.rollout(revision).map(|stored| &stored.rollout);
        let done = rollout.is_some_and(|it| it.state == RolloutState::Done);
        let stands = rollout.map(|it| format!("{:?} {:?}", it.state, it.stop));
        let what = if done {
            self.disagreement()
        } else {
            Some(format!("the rollout is {stands:?}"))
        };
        match what {
            None => self.healing.over = true,
            Some(what) if self.now - since > ROLLOUT_PATIENCE => self.judge.broken("I2", what),
            Some(_) => {}
        }
    }

    /// The first thing that is not as it should be.
    fn disagreement(&self) -> Option<String> {
        let (revision, hash) = self.store.head();
        let epoch = self.store.epoch();
        let (now, true_ms) = (self.instant(), self.true_ms());
        let standing = self.store.standing(true_ms).rows;
        // Clocks differ about when an order ends.
        let slack = CLOCKS_DIFFER.as_millis() as u64;
        let ends = |row: &OverrideRow| row.order.expires_ms.abs_diff(true_ms) <= slack;
        let some_end = self.store.orders_ever.iter().any(ends);
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
                let ever = |id: &str| self.store.orders_ever.iter().find(|it| it.order.id == *id);
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

/// What an agent's cells obey else than the standing orders.
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
