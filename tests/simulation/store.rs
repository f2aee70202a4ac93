//! The configuration database as the control plane meets it: one history of transactions, each of
//! which happens whole or not at all, with outages around them. The SQL that makes it so is tested
//! in `store`.

use crate::documents::GATEWAY;
use lanekeeper_model::rollout::{
    NewRollout, Rollout, RolloutOrder, RolloutPlan, cells_of_document,
};
use lanekeeper_model::{ActiveOverride, OverrideAction, PoolName, content_hash};
use lanekeeper_store::{AgentFacts, Course, OverrideRow, Revision, Standing, StoredRollout};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What an operator asks for.
#[derive(Debug, Clone)]
pub enum Write {
    /// A new revision, for everyone at once or by a plan.
    Revision(Value, Option<RolloutPlan>),
    /// The content of the revision before the newest once more, for everyone at once.
    RollBack,
    /// An order on a lane, for agents with these labels, for so long.
    Override {
        action: OverrideAction,
        pool: Option<PoolName>,
        lane: String,
        agents: BTreeMap<String, String>,
        lasts: Duration,
    },
    /// The end of the order that has stood for longest.
    Release,
    /// The end of every order.
    ReleaseAll,
    /// An order to the rollout that goes on.
    Rollout(RolloutOrder),
    /// Instances are taken out of service.
    Drain(Vec<String>),
    /// Every instance is taken back into service.
    Undrain,
    /// The identity of an instance is revoked, and the agent forgotten.
    Revoke(String),
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    Revision(u64, String),
    Override(String),
    Other,
    /// It could not be done, and nothing was.
    Refused,
}

/// The stored rows.
#[derive(Debug, Clone)]
struct Tables {
    epoch: String,
    revision: u64,
    hash: String,
    counter: u64,
    revisions: BTreeMap<u64, Revision>,
    rollouts: BTreeMap<u64, StoredRollout>,
    override_counter: u64,
    overrides: Vec<OverrideRow>,
    drained: BTreeSet<String>,
    revoked: BTreeSet<String>,
    /// The audit trail: which request each entry is of; `None` for a rollout's own step.
    audit: Vec<Option<u64>>,
    /// What was done under each idempotency key.
    done: BTreeMap<u64, Done>,
    facts: BTreeMap<String, AgentFacts>,
}

/// What a call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Fine,
    /// It fails, before anything is done.
    Away,
    /// It waits until then.
    Stalled(Duration),
}

pub struct Store {
    tables: Tables,
    dump: Tables,
    epochs: u32,
    pub away_until: Duration,
    pub stalled_until: Duration,
    /// Commits happen and are not confirmed until then.
    pub mute_until: Duration,
    /// A repeated request is done again.
    pub forgets_keys: bool,
    /// Every order there ever was, whatever was restored since.
    pub overrides_ever: Vec<OverrideRow>,
}

impl Store {
    pub fn new(document: Value, now_ms: u64) -> Self {
        let hash = content_hash(&document);
        let mut tables = Tables {
            epoch: "epoch-1".to_owned(),
            revision: 1,
            hash: hash.clone(),
            counter: 1,
            revisions: BTreeMap::new(),
            rollouts: BTreeMap::new(),
            override_counter: 0,
            overrides: Vec::new(),
            drained: BTreeSet::new(),
            revoked: BTreeSet::new(),
            audit: Vec::new(),
            done: BTreeMap::new(),
            facts: BTreeMap::new(),
        };
        tables.insert(1, document, hash, None, now_ms);
        Self {
            dump: tables.clone(),
            tables,
            epochs: 1,
            away_until: Duration::ZERO,
            stalled_until: Duration::ZERO,
            mute_until: Duration::ZERO,
            forgets_keys: false,
            overrides_ever: Vec::new(),
        }
    }

    pub fn health(&self, now: Duration) -> Health {
        if now < self.away_until {
            Health::Away
        } else if now < self.stalled_until {
            Health::Stalled(self.stalled_until)
        } else {
            Health::Fine
        }
    }

    pub fn heal(&mut self) {
        self.away_until = Duration::ZERO;
        self.stalled_until = Duration::ZERO;
        self.mute_until = Duration::ZERO;
    }

    pub fn epoch(&self) -> &str {
        &self.tables.epoch
    }

    /// The newest revision and its hash.
    pub fn head(&self) -> (u64, &str) {
        (self.tables.revision, &self.tables.hash)
    }

    pub fn courses(&self) -> BTreeMap<String, Course> {
        let tables = &self.tables;
        let course = Course {
            revision: tables.revision,
            hash: tables.hash.clone(),
            rollout: tables.active().map(|stored| stored.rollout.clone()),
        };
        BTreeMap::from([(GATEWAY.to_owned(), course)])
    }

    pub fn revision(&self, number: u64) -> Option<Revision> {
        self.tables.revisions.get(&number).cloned()
    }

    pub fn override_counts(&self) -> BTreeMap<String, u64> {
        let count = self.tables.override_counter;
        let has = (count > 0).then(|| (GATEWAY.to_owned(), count));
        has.into_iter().collect()
    }

    pub fn standing(&self, now_ms: u64) -> Standing {
        let rows = self.tables.overrides.iter();
        Standing {
            generation: self.tables.override_counter,
            rows: rows
                .filter(|row| row.is_standing(now_ms))
                .cloned()
                .collect(),
        }
    }

    pub fn running_rollouts(&self) -> Vec<StoredRollout> {
        let rollouts = self.tables.rollouts.values();
        let running = rollouts
            .filter(|it| it.rollout.state == lanekeeper_model::rollout::RolloutState::Running);
        running.cloned().collect()
    }

    pub fn rollout(&self, revision: u64) -> Option<&StoredRollout> {
        self.tables.rollouts.get(&revision)
    }

    /// Does what an operator asks for, once for each request.
    pub fn write(&mut self, request: u64, write: &Write, now_ms: u64) -> Done {
        if !self.forgets_keys
            && let Some(done) = self.tables.done.get(&request)
        {
            return done.clone();
        }
        let done = match write {
            Write::Revision(document, plan) => {
                self.tables
                    .write_revision(document.clone(), plan.clone(), now_ms)
            }
            Write::RollBack => {
                let before = self.tables.revisions.range(..self.tables.revision);
                match before.last().map(|(_, revision)| revision.document.clone()) {
                    Some(document) => self.tables.write_revision(document, None, now_ms),
                    None => Done::Refused,
                }
            }
            Write::Override {
                action,
                pool,
                lane,
                agents,
                lasts,
            } => {
                self.tables.override_counter += 1;
                let number = self.tables.override_counter;
                let id = format!("order-{request}");
                let row = OverrideRow {
                    gateway: GATEWAY.to_owned(),
                    order: ActiveOverride {
                        id: id.clone(),
                        number,
                        action: *action,
                        pool: pool.clone(),
                        lane: lane.as_str().into(),
                        provider: None,
                        agents: agents.clone(),
                        expires_ms: now_ms + lasts.as_millis() as u64,
                    },
                    reason: String::new(),
                    actor: String::new(),
                    created_ms: now_ms,
                    released_ms: None,
                };
                self.overrides_ever.push(row.clone());
                self.tables.overrides.push(row);
                Done::Override(id)
            }
            Write::Release => self.tables.release(now_ms, 1),
            Write::ReleaseAll => self.tables.release(now_ms, usize::MAX),
            Write::Rollout(order) => match self.tables.active().cloned() {
                Some(mut stored) => match stored.rollout.order(*order, "operator", now_ms) {
                    Ok(()) => {
                        self.tables.save(stored, now_ms);
                        Done::Other
                    }
                    Err(_) => Done::Refused,
                },
                None => Done::Refused,
            },
            Write::Drain(instances) => {
                self.tables.drained.extend(instances.iter().cloned());
                Done::Other
            }
            Write::Undrain => {
                self.tables.drained.clear();
                Done::Other
            }
            Write::Revoke(instance) => {
                self.tables.facts.remove(instance);
                self.tables.drained.remove(instance);
                self.tables.revoked.insert(instance.clone());
                Done::Other
            }
        };
        if done != Done::Refused {
            self.tables.audit.push(Some(request));
            self.tables.done.insert(request, done.clone());
        }
        done
    }

    /// Writes a rollout's next state unless someone wrote in between.
    pub fn advance(&mut self, rollout: Rollout, seen: u64, audited: bool, now_ms: u64) -> bool {
        let Some(stored) = self.tables.seen(&rollout, seen) else {
            return false;
        };
        self.tables
            .save(StoredRollout { rollout, ..stored }, now_ms);
        if audited {
            self.tables.audit.push(None);
        }
        true
    }

    /// Ends a rollout with the old content as a new revision, unless someone wrote in between.
    pub fn revert(&mut self, mut rollout: Rollout, seen: u64, now_ms: u64) -> bool {
        let Some(stored) = self.tables.seen(&rollout, seen) else {
            return false;
        };
        let base = &self.tables.revisions[&rollout.base];
        let document = base.document.clone();
        rollout.rolled_back(self.tables.counter + 1, "rollout");
        self.tables
            .save(StoredRollout { rollout, ..stored }, now_ms);
        self.tables.write_revision(document, None, now_ms);
        self.tables.audit.push(None);
        true
    }

    pub fn record_agent(&mut self, facts: &AgentFacts) {
        if self.tables.revoked.contains(&facts.instance) {
            return;
        }
        let known = self.tables.facts.get(&facts.instance);
        if known.is_none_or(|known| known.session_epoch <= facts.session_epoch) {
            let row = (facts.instance.clone(), facts.clone());
            self.tables.facts.insert(row.0, row.1);
        }
    }

    /// The instances that are out of service.
    pub fn drained(&self) -> &BTreeSet<String> {
        &self.tables.drained
    }

    /// The instances whose identities are revoked.
    pub fn revoked(&self) -> &BTreeSet<String> {
        &self.tables.revoked
    }

    pub fn facts(&self) -> &BTreeMap<String, AgentFacts> {
        &self.tables.facts
    }

    /// Keeps a copy of everything.
    pub fn dump(&mut self) {
        self.dump = self.tables.clone();
    }

    /// Brings the copy back, as it was.
    pub fn restore(&mut self) {
        self.tables = self.dump.clone();
    }

    /// Begins another history, as is to be done after restoring.
    pub fn renew_epoch(&mut self) {
        self.epochs += 1;
        self.tables.epoch = format!("epoch-{}", self.epochs);
        self.tables.audit.push(None);
    }

    /// Entries in the audit trail of one request.
    pub fn entries_of(&self, request: u64) -> usize {
        let audit = self.tables.audit.iter();
        audit.filter(|entry| **entry == Some(request)).count()
    }
}

impl Tables {
    fn active(&self) -> Option<&StoredRollout> {
        let mut rollouts = self.rollouts.values();
        rollouts.find(|stored| stored.rollout.state.is_active())
    }

    fn seen(&self, rollout: &Rollout, seen: u64) -> Option<StoredRollout> {
        let stored = self.rollouts.get(&rollout.revision)?;
        (stored.version == seen).then(|| stored.clone())
    }

    fn save(&mut self, stored: StoredRollout, now_ms: u64) {
        let saved = StoredRollout {
            version: stored.version + 1,
            updated_ms: now_ms,
            ..stored
        };
        self.rollouts.insert(saved.rollout.revision, saved);
    }

    fn insert(
        &mut self,
        number: u64,
        document: Value,
        hash: String,
        parent: Option<u64>,
        now: u64,
    ) {
        let revision = Revision {
            gateway: GATEWAY.to_owned(),
            number,
            document,
            hash,
            author: String::new(),
            message: String::new(),
            created_ms: now,
            parent,
        };
        self.revisions.insert(number, revision);
    }

    fn write_revision(&mut self, document: Value, plan: Option<RolloutPlan>, now_ms: u64) -> Done {
        self.counter += 1;
        let (number, hash) = (self.counter, content_hash(&document));
        let replaced = (self.revision, self.hash.clone());
        let cells_per_agent = cells_of_document(&document);
        self.insert(number, document, hash.clone(), Some(replaced.0), now_ms);
        (self.revision, self.hash) = (number, hash.clone());
        let mut base = replaced;
        if let Some(mut active) = self.active().cloned() {
            active.rollout.supersede();
            base = (active.rollout.base, active.rollout.base_hash.clone());
            self.save(active, now_ms);
        }
        if let Some(plan) = plan {
            let new = NewRollout {
                gateway: GATEWAY.into(),
                revision: (number, hash.clone()),
                base,
                author: String::new(),
                message: String::new(),
                cells_per_agent,
            };
            let stored = StoredRollout {
                rollout: Rollout::new(new, plan, now_ms),
                version: 1,
                updated_ms: now_ms,
            };
            self.rollouts.insert(number, stored);
        }
        Done::Revision(number, hash)
    }

    fn release(&mut self, now_ms: u64, most: usize) -> Done {
        let standing = self
            .overrides
            .iter_mut()
            .filter(|row| row.is_standing(now_ms));
        let mut released = 0;
        for row in standing.take(most) {
            row.released_ms = Some(now_ms);
            released += 1;
        }
        if released == 0 {
            return Done::Refused;
        }
        self.override_counter += released;
        Done::Other
    }
}
