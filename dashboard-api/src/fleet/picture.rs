//! One reading of everything the fleet view is made of.

use super::cells::RevisionCells;
use crate::app::App;
use crate::clock;
use crate::error::Error;
use lanekeeper_model::fleet::{GatewayCells, agent_state};
use lanekeeper_model::{AgentRecord, AgentState, FreshWindows, GatewayName};
use lanekeeper_store::AgentFacts;
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
    pub(super) fn windows(&self) -> FreshWindows {
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
    let (records, facts, heads) = tokio::join!(
        in_time("live view", app.live.records(None)),
        in_time("configuration store", app.store.agent_facts(None)),
        in_time("configuration store", app.store.heads())
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
    let targets = match heads {
        Ok(heads) => heads
            .into_iter()
            .map(|(gateway, revision, hash)| (GatewayName::from(gateway), (revision, hash)))
            .collect(),
        Err(error) => {
            let fault = missing("configuration store", error);
            match &before {
                Some(before) => before.targets.clone(),
                None => {
                    failure = Some(fault);
                    BTreeMap::new()
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
        partial,
        failure,
    }
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
