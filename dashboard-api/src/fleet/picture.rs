//! One reading of everything the fleet view is made of.

use super::cells::RevisionCells;
use crate::app::App;
use crate::clock;
use crate::error::Error;
use lanekeeper_model::fleet::{GatewayCells, agent_state};
use lanekeeper_model::rollout::Rollout;
use lanekeeper_model::{AgentRecord, AgentState, FreshWindows, GatewayName};
use lanekeeper_store::{AgentFacts, Course};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Agents that were last seen longer ago are left out of every list: one day. Each process is an
/// agent of its own, so what restarts often would fill them.
const REMEMBERED_MS: u64 = 24 * 60 * 60 * 1000;

/// Longest wait for one store: a picture that is partial in time beats a whole one too late.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// The records of all agents and the cells they should have, read at one time.
pub(crate) struct Picture {
    /// When it was taken.
    pub(super) taken: Instant,
    /// Every agent that is known, by gateway and instance.
    pub(super) records: Vec<AgentRecord>,
    /// The cells of the current revision of each gateway, and of others that agents still serve.
    pub(super) gateways: Vec<GatewayCells>,
    /// The current revision and hash of each gateway.
    pub(super) targets: BTreeMap<GatewayName, (u64, String)>,
    /// The rollouts that decide who has the current revision already.
    rollouts: BTreeMap<GatewayName, Rollout>,
    /// True when the live view or the store did not answer and older records stand in.
    pub(super) partial: bool,
    /// Set when there is nothing at all to show.
    failure: Option<Failure>,
}

/// A store that did not answer before anything was known.
struct Failure {
    store: &'static str,
    reason: String,
}

impl Picture {
    /// When agents count as stale and gone.
    pub(crate) fn windows(&self) -> FreshWindows {
        FreshWindows::default()
    }

    /// How many agents of a gateway are live or draining.
    pub(crate) fn live_agents(&self, gateway: &str, now_ms: u64) -> usize {
        self.records
            .iter()
            .filter(|record| *record.gateway == *gateway)
            .filter(|record| {
                let state = agent_state(record, now_ms, self.windows());
                matches!(state, AgentState::Live | AgentState::Draining)
            })
            .count()
    }

    /// The gateway of an agent, if it is known.
    pub(crate) fn gateway_of(&self, instance: &str) -> Option<GatewayName> {
        let record = self.records.iter().find(|it| it.instance == instance)?;
        Some(record.gateway.clone())
    }

    /// The instances of a gateway that take requests.
    pub(crate) fn serving(&self, gateway: &str, now_ms: u64) -> Vec<&str> {
        self.records_of(gateway)
            .filter(|record| agent_state(record, now_ms, self.windows()) == AgentState::Live)
            .map(|record| record.instance.as_str())
            .collect()
    }

    /// What an agent should serve: its revision and that one's content hash; `None` when its
    /// gateway does not exist. While it waits for a rollout's stage, an agent keeps what it took
    /// from a later one than the base: within one epoch it never goes back.
    pub(crate) fn target_of<'a>(&'a self, record: &'a AgentRecord) -> Option<(u64, &'a str)> {
        let (revision, hash) = self.targets.get(&record.gateway)?;
        let Some(rollout) = self.rollouts.get(&record.gateway) else {
            return Some((*revision, hash));
        };
        let target = rollout.target_of(&record.name, &record.labels);
        let keeps = (target.0 + 1..rollout.revision).contains(&record.applied_revision);
        Some(if keeps {
            (record.applied_revision, &record.applied_hash)
        } else {
            target
        })
    }

    /// Whether a share of the reports is missing.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    /// The agents of a gateway.
    pub(crate) fn records_of(&self, gateway: &str) -> impl Iterator<Item = &AgentRecord> {
        self.records
            .iter()
            .filter(move |record| *record.gateway == *gateway)
    }

    /// Whether there is anything to show.
    pub(super) fn is_usable(&self) -> bool {
        self.failure.is_none()
    }

    /// The picture itself, or why there is none.
    pub(super) fn usable(self: Arc<Self>) -> Result<Arc<Self>, Error> {
        match &self.failure {
            None => Ok(self),
            Some(Failure { store, reason }) => {
                Err(Error::Store(lanekeeper_store::Error::Unavailable {
                    store,
                    source: reason.clone().into(),
                }))
            }
        }
    }
}

/// Takes a picture. What cannot be read is filled in from the picture `before`, and the new one
/// says that it is partial.
pub(super) async fn take(
    app: &App,
    cells: &mut RevisionCells,
    before: Option<Arc<Picture>>,
) -> Picture {
    let taken = clock::instant();
    let before = before.filter(|picture| picture.failure.is_none());
    let (records, facts, courses) = tokio::join!(
        in_time("live view", app.live.records(None)),
        in_time("configuration store", app.store.agent_facts(None)),
        in_time("configuration store", app.store.courses())
    );
    let mut partial = false;
    let mut missing = |what: &'static str, error: lanekeeper_store::Error| {
        tracing::warn!(%error, what, "the picture of the fleet is partial");
        partial = true;
        Failure {
            store: what,
            reason: error.to_string(),
        }
    };

    let mut failure = None;
    let live = match records {
        Ok(records) => records,
        Err(error) => {
            let fault = missing("live view", error);
            match &before {
                Some(before) => before.records.clone(),
                None => {
                    failure = Some(fault);
                    Vec::new()
                }
            }
        }
    };
    let facts = facts.unwrap_or_else(|error| {
        missing("configuration store", error);
        Vec::new()
    });
    let (targets, rollouts) = match courses {
        Ok(courses) => split(courses),
        Err(error) => {
            let fault = missing("configuration store", error);
            match &before {
                Some(before) => (before.targets.clone(), before.rollouts.clone()),
                None => {
                    failure = Some(fault);
                    (BTreeMap::new(), BTreeMap::new())
                }
            }
        }
    };

    let records = with_remembered(live, facts, clock::now_ms());
    let gateways = cells.of(&app.store, &targets, &records).await;
    Picture {
        taken,
        records,
        gateways,
        targets,
        rollouts,
        partial,
        failure,
    }
}

/// Current revisions and rollouts of all gateways.
fn split(
    courses: BTreeMap<String, Course>,
) -> (
    BTreeMap<GatewayName, (u64, String)>,
    BTreeMap<GatewayName, Rollout>,
) {
    let mut targets = BTreeMap::new();
    let mut rollouts = BTreeMap::new();
    for (gateway, course) in courses {
        let gateway = GatewayName::from(gateway);
        targets.insert(gateway.clone(), (course.revision, course.hash));
        rollouts.extend(course.rollout.map(|rollout| (gateway, rollout)));
    }
    (targets, rollouts)
}

/// What a store answers, or that it does not within [`READ_TIMEOUT`].
async fn in_time<T>(
    store: &'static str,
    answer: impl Future<Output = Result<T, lanekeeper_store::Error>>,
) -> Result<T, lanekeeper_store::Error> {
    tokio::time::timeout(READ_TIMEOUT, answer)
        .await
        .unwrap_or_else(|elapsed| {
            Err(lanekeeper_store::Error::Unavailable {
                store,
                source: elapsed.into(),
            })
        })
}

/// Adds the agents that only the store remembers. They report nothing: they are silent, not closed.
fn with_remembered(
    mut live: Vec<AgentRecord>,
    facts: Vec<AgentFacts>,
    now_ms: u64,
) -> Vec<AgentRecord> {
    let known: BTreeSet<(GatewayName, String)> = live
        .iter()
        .map(|record| (record.gateway.clone(), record.instance.clone()))
        .collect();
    live.extend(
        facts
            .into_iter()
            .filter(|facts| now_ms.saturating_sub(facts.last_seen_ms) < REMEMBERED_MS)
            .filter(|facts| !known.contains(&(facts.gateway.clone(), facts.instance.clone())))
            .map(silent_record),
    );
    live.sort_by(|a, b| (&a.gateway, &a.instance).cmp(&(&b.gateway, &b.instance)));
    live
}

fn silent_record(facts: AgentFacts) -> AgentRecord {
    AgentRecord {
        gateway: facts.gateway,
        instance: facts.instance,
        name: facts.name,
        labels: facts.labels,
        version: facts.version,
        session_epoch: facts.session_epoch,
        seq: 0,
        connected_ms: facts.last_seen_ms,
        report_received_ms: None,
        left: false,
        draining: false,
        applied_revision: facts.applied_revision,
        applied_hash: facts.applied_hash,
        config_source: facts.config_source,
        problems: facts.problems,
        last_error: facts.rejected,
        clock_skew_ms: 0,
        cells: Vec::new(),
        totals: lanekeeper_model::Totals::default(),
        overrides: lanekeeper_model::fleet::HeldOverrides::default(),
    }
}
