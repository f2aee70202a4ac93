//! One reading of everything the fleet view is made of.

use super::cells::RevisionCells;
use super::sharing::{self, Sharing};
use super::state::{FleetState, SharedIndex};
use super::traffic;
use crate::clock;
use crate::error::Error;
use lanekeeper_model::fleet::{ExplainedOverride, FoldedFleet, PoolView, agent_state};
use lanekeeper_model::rollout::Rollout;
use lanekeeper_model::traffic::ReplicaTraffic;
use lanekeeper_model::{AgentRecord, AgentState, FreshWindows, GatewayName};
use lanekeeper_store::{ConfigStore, Course, LiveView, OverrideRow, StoredIncident};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for one store: a snapshot that is partial in time beats a whole one too late.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for the configuration store when an earlier snapshot stands in for it. Well below
/// the age up to which a snapshot serves requests, or it would be too old as soon as it is taken.
const READ_AGAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The records of all agents and the cells they should have, read at one time.
pub(crate) struct FleetSnapshot {
    /// When it was taken.
    pub(super) taken: Instant,
    /// Every agent that is known, by gateway and instance.
    pub(crate) records: Vec<Arc<AgentRecord>>,
    /// All of them put together, by the server's clock at [`FleetSnapshot::now_ms`].
    pub(crate) folded: FoldedFleet,
    /// The wall time that ages are told by, in unix milliseconds.
    pub(crate) now_ms: u64,
    /// The current revision and hash of each gateway.
    pub(crate) targets: BTreeMap<GatewayName, (u64, String)>,
    /// The rollouts that decide who has the current revision already.
    pub(crate) rollouts: BTreeMap<GatewayName, Rollout>,
    /// The operators' orders that stand.
    pub(crate) overrides: BTreeMap<GatewayName, Vec<ExplainedOverride>>,
    /// When each of them was given, by its id, unix milliseconds.
    pub(crate) overrides_given_ms: BTreeMap<String, u64>,
    /// The incidents that go on, the earliest first.
    pub(crate) incidents: Vec<Arc<StoredIncident>>,
    /// The agents that hold one certificate with another.
    sharing: Sharing,
    /// What all control planes heard of traffic.
    traffic: ReplicaTraffic,
    /// True when the live view or the store did not answer and older records stand in, and while
    /// agents that were known before a start have not had the time to come back.
    pub(crate) partial: bool,
    /// The latter of the two.
    pub(crate) rebuilding: bool,
    /// Set when there is nothing at all to show.
    failure: Option<Failure>,
}

/// A store that did not answer before anything was known.
struct Failure {
    store: &'static str,
    reason: String,
}

impl FleetSnapshot {
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

    /// True when an agent said goodbye. One that is only silent may come back.
    pub(crate) fn has_left(&self, instance: &str) -> bool {
        let record = self.records.iter().find(|it| it.instance == instance);
        record.is_some_and(|record| record.left)
    }

    /// True when a process is known to live no more: it said goodbye, or every store answers and none
    /// has reported of it lately.
    pub(crate) fn is_over(&self, instance: &str, now_ms: u64) -> bool {
        let record = self.records.iter().find(|it| it.instance == instance);
        match record.map(|record| (record.left, agent_state(record, now_ms, self.windows()))) {
            Some((true, _)) => true,
            Some((false, AgentState::Live | AgentState::Draining)) => false,
            Some((false, AgentState::Stale | AgentState::Gone)) | None => !self.partial,
        }
    }

    /// What is to be said of an agent whose certificate another living process holds.
    pub(crate) fn shares_identity(&self, record: &AgentRecord) -> Option<String> {
        sharing::problem_of(&self.sharing, record)
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

    /// The pools of one gateway or of all.
    pub(crate) fn pools(&self, only: Option<&GatewayName>) -> Vec<PoolView> {
        self.folded.pools(only, &self.traffic)
    }

    /// How many incidents go on, of one gateway or of all.
    pub(crate) fn open_incidents(&self, gateway: Option<&GatewayName>) -> u64 {
        let incidents = self.incidents.iter().map(|stored| &stored.incident);
        let shown = incidents.filter(|it| gateway.is_none_or(|gateway| it.gateway == *gateway));
        shown.count() as u64
    }

    /// Whether a share of the reports is missing.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial
    }

    /// The agents of a gateway.
    pub(crate) fn records_of(&self, gateway: &str) -> impl Iterator<Item = &AgentRecord> {
        self.records
            .iter()
            .map(|record| &**record)
            .filter(move |record| *record.gateway == *gateway)
    }

    /// Whether there is anything to show.
    pub(crate) fn is_usable(&self) -> bool {
        self.failure.is_none()
    }

    /// The snapshot itself, or why there is none.
    pub(crate) fn usable(self: Arc<Self>) -> Result<Arc<Self>, Error> {
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

/// Where a snapshot is read from.
pub(super) struct Sources<'a> {
    /// Targets, rollouts, overrides and the agents of the last day.
    pub(super) store: &'a ConfigStore,
    /// What the agents last reported.
    pub(super) live: &'a dyn LiveView,
    /// The packed fleet.
    pub(super) index: &'a SharedIndex,
}

/// Takes a snapshot. What cannot be read stays as it was in the snapshot `before`, and the new one
/// says that it is partial.
pub(super) async fn take(
    sources: &Sources<'_>,
    cells: &mut RevisionCells,
    state: &mut FleetState,
    before: Option<Arc<FleetSnapshot>>,
) -> FleetSnapshot {
    let taken = clock::instant();
    let before = before.filter(|snapshot| snapshot.failure.is_none());
    let mut reader = std::mem::take(&mut state.reader);
    let config = match before {
        Some(_) => ("configuration store", READ_AGAIN_TIMEOUT),
        None => ("configuration store", READ_TIMEOUT),
    };
    let live = ("live view", READ_TIMEOUT);
    let (changes, shares, heard, stored, courses, orders, incidents) = tokio::join!(
        in_time(live, sources.live.changes(state.cursor())),
        in_time(live, sources.live.shares()),
        in_time(live, sources.live.traffic()),
        in_time(config, reader.poll(sources.store)),
        in_time(config, sources.store.courses()),
        in_time(
            config,
            sources.store.all_standing_overrides(clock::now_ms())
        ),
        in_time(config, sources.store.open_incidents())
    );
    let mut partial = false;
    let mut missing = |what: &'static str, error: lanekeeper_store::Error| {
        tracing::warn!(%error, what, "the fleet snapshot is partial");
        partial = true;
        Failure {
            store: what,
            reason: error.to_string(),
        }
    };

    let mut failure = None;
    state.reader = reader;
    match stored {
        Ok(Some(stored)) => state.take_stored(sources.index, stored),
        Ok(None) => {}
        Err(error) => drop(missing("configuration store", error)),
    }
    match changes {
        Ok(changes) => state.take_changes(sources.index, changes, taken),
        Err(error) => {
            let fault = missing("live view", error);
            if before.is_none() {
                failure = Some(fault);
            }
        }
    }
    let shares = shares.unwrap_or_else(|error| {
        missing("live view", error);
        Vec::new()
    });
    let traffic = match heard {
        Ok(heard) => traffic::sum(&shares, heard),
        Err(error) => {
            missing("live view", error);
            before
                .as_ref()
                .map(|it| it.traffic.clone())
                .unwrap_or_default()
        }
    };
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
    let (overrides, overrides_given_ms) = match (orders, &before) {
        (Ok(rows), _) => {
            let given = rows
                .iter()
                .map(|row| (row.order.id.clone(), row.created_ms));
            let given = given.collect();
            (by_gateway(rows), given)
        }
        (Err(error), before) => {
            missing("configuration store", error);
            before.as_ref().map_or_else(Default::default, |before| {
                (before.overrides.clone(), before.overrides_given_ms.clone())
            })
        }
    };
    let incidents = match incidents {
        Ok(incidents) => incidents.into_iter().map(Arc::new).collect(),
        Err(error) => {
            missing("configuration store", error);
            before
                .as_ref()
                .map_or_else(Vec::new, |before| before.incidents.clone())
        }
    };
    let rebuilding = state.is_rebuilding(&shares, taken);
    let share_missing = state.take_shares(shares, taken);

    let records = state.records();
    let gateways = cells.of(sources.store, &targets, &records).await;
    state.take_cells(sources.index, &gateways);
    let now_ms = clock::now_ms();
    FleetSnapshot {
        taken,
        folded: sources.index.fold(now_ms, FreshWindows::default()),
        now_ms,
        sharing: state.sharing(now_ms),
        records,
        targets,
        rollouts,
        overrides,
        traffic,
        overrides_given_ms,
        incidents,
        partial: partial || share_missing || rebuilding,
        rebuilding,
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

fn by_gateway(rows: Vec<OverrideRow>) -> BTreeMap<GatewayName, Vec<ExplainedOverride>> {
    let mut orders: BTreeMap<GatewayName, Vec<ExplainedOverride>> = BTreeMap::new();
    for row in rows {
        let of_gateway = orders.entry(GatewayName::from(row.gateway)).or_default();
        of_gateway.push(ExplainedOverride {
            override_: row.order,
            reason: row.reason,
        });
    }
    orders
}

/// What a store answers, or that it does not within its time.
async fn in_time<T>(
    (store, limit): (&'static str, Duration),
    answer: impl Future<Output = Result<T, lanekeeper_store::Error>>,
) -> Result<T, lanekeeper_store::Error> {
    tokio::time::timeout(limit, answer)
        .await
        .unwrap_or_else(|elapsed| {
            Err(lanekeeper_store::Error::Unavailable {
                store,
                source: elapsed.into(),
            })
        })
}
