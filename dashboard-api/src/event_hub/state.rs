//! What pages show at one moment, in a form that two moments can be compared in.

use super::event::{AckCounts, GatewayAgents, OverrideMark, PageSnapshot, RolloutMark};
use crate::clock;
use crate::fleet_view::{FleetSnapshot, etag};
use lanekeeper_model::fleet::{
    Acknowledgement, ExplainedOverride, OverrideTimes, Summary, acknowledgements, agent_state,
    explain_overrides,
};
use lanekeeper_model::rollout::Rollout;
use lanekeeper_model::{AgentRecord, FleetView, GatewayName, ViewQuery};
use lanekeeper_store::StoredIncident;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Overrides of one gateway whose acknowledgements are followed, the latest first: an operator looks
/// at those just given.
const FOLLOWED_OVERRIDES_MAX: usize = 20;

/// What pages show at one moment.
pub(super) struct PageState {
    generated_at: String,
    partial: bool,
    rebuilding: bool,
    pub(super) summary: Summary,
    pub(super) gateways: BTreeMap<GatewayName, GatewayState>,
    /// Incidents that go on, and those that ended since the moment before.
    pub(super) incidents: BTreeMap<String, Arc<StoredIncident>>,
}

/// What pages show of one gateway.
#[derive(Default)]
pub(super) struct GatewayState {
    /// The newest revision.
    pub(super) revision: Option<u64>,
    /// The view as it is sent.
    pub(super) view: Option<FleetView>,
    /// The view without what only the clock changes.
    pub(super) timeless: Option<FleetView>,
    /// What is worth a change of each agent, by instance.
    pub(super) agents: BTreeMap<String, u64>,
    pub(super) rollout: Option<RolloutMark>,
    pub(super) overrides: Vec<OverrideMark>,
    /// Acknowledgements by override.
    pub(super) acks: BTreeMap<String, Vec<Acknowledgement>>,
}

impl PageState {
    pub(super) fn of(snapshot: &FleetSnapshot, ended: &[Arc<StoredIncident>], now_ms: u64) -> Self {
        let mut summary = snapshot.folded.summary(None);
        summary.partial = snapshot.partial;
        summary.rebuilding = snapshot.rebuilding;
        summary.open_incidents = snapshot.open_incidents(None);
        let with_agents = snapshot.records.iter().map(|record| &record.gateway);
        let names: BTreeSet<&GatewayName> = snapshot.targets.keys().chain(with_agents).collect();
        let mut gateways: BTreeMap<GatewayName, GatewayState> = names
            .into_iter()
            .map(|name| (name.clone(), gateway(snapshot, name, now_ms)))
            .collect();
        for record in &snapshot.records {
            if let Some(gateway) = gateways.get_mut(&record.gateway) {
                let mark = agent_mark(snapshot, record, now_ms);
                gateway.agents.insert(record.instance.clone(), mark);
            }
        }
        let incidents = snapshot.incidents.iter().chain(ended);
        Self {
            generated_at: clock::rfc3339(now_ms),
            partial: snapshot.partial,
            rebuilding: snapshot.rebuilding,
            summary,
            gateways,
            incidents: incidents
                .map(|stored| (stored.incident.id.clone(), Arc::clone(stored)))
                .collect(),
        }
    }

    /// All of it, or all of one gateway.
    pub(super) fn snapshot(&self, gateway: Option<&str>, now_ms: u64) -> PageSnapshot {
        let is_shown = |name: &str| gateway.is_none_or(|gateway| gateway == name);
        let shown = || self.gateways.iter().filter(|(name, _)| is_shown(name));
        let incidents = self.incidents.values().map(|stored| &stored.incident);
        PageSnapshot {
            generated_at: self.generated_at.clone(),
            partial: self.partial,
            rebuilding: self.rebuilding,
            summary: self.summary,
            agents: shown()
                .filter_map(|(name, state)| {
                    Some(GatewayAgents {
                        gateway: name.clone(),
                        agents: state.view.as_ref()?.agents,
                    })
                })
                .collect(),
            cells: shown()
                .filter_map(|(_, state)| state.view.as_ref())
                .flat_map(|view| view.cells.iter().cloned())
                .collect(),
            incidents: incidents
                .filter(|incident| incident.is_open() && is_shown(&incident.gateway))
                .map(|incident| incident.view(now_ms))
                .collect(),
            rollouts: shown()
                .filter_map(|(_, state)| state.rollout.clone())
                .collect(),
            overrides: shown()
                .flat_map(|(_, state)| state.overrides.iter().cloned())
                .collect(),
            acknowledgements: shown()
                .flat_map(|(_, state)| &state.acks)
                .map(|(id, acks)| AckCounts::of(id, acks))
                .collect(),
        }
    }
}

fn gateway(snapshot: &FleetSnapshot, name: &GatewayName, now_ms: u64) -> GatewayState {
    let query = ViewQuery {
        gateway: Some(name.clone()),
        ..ViewQuery::default()
    };
    let mut view = snapshot.folded.view(&query);
    view.partial = snapshot.partial;
    view.rebuilding = snapshot.rebuilding;
    explain_overrides(&mut view, &snapshot.overrides, snapshot.now_ms);
    let active = snapshot.overrides.get(name).map_or(&[][..], Vec::as_slice);
    let mut latest: Vec<&ExplainedOverride> = active.iter().collect();
    latest.sort_by_key(|it| std::cmp::Reverse(it.override_.number));
    latest.truncate(FOLLOWED_OVERRIDES_MAX);
    let acks = latest.into_iter().map(|it| {
        let id = &it.override_.id;
        let created_ms = snapshot.overrides_given_ms.get(id).copied();
        let times = OverrideTimes {
            created_ms: created_ms.unwrap_or(now_ms),
            released_ms: None,
            now_ms,
        };
        let records = snapshot.records_of(name);
        let acks = acknowledgements(&it.override_, times, records, snapshot.windows());
        (id.clone(), acks)
    });
    GatewayState {
        revision: snapshot.targets.get(name).map(|(revision, _)| *revision),
        timeless: Some(etag::timeless(view.clone())),
        view: Some(view),
        agents: BTreeMap::new(),
        rollout: snapshot.rollouts.get(name).map(rollout_mark),
        overrides: active
            .iter()
            .map(|it| override_mark(snapshot, name, it))
            .collect(),
        acks: acks.collect(),
    }
}

fn rollout_mark(rollout: &Rollout) -> RolloutMark {
    RolloutMark {
        gateway: rollout.gateway.clone(),
        revision: rollout.revision,
        base_revision: rollout.base,
        state: rollout.state,
        stages_begun: rollout.stages_begun(),
        stages: rollout.plan.stages().len(),
        stop: rollout.stop.clone(),
    }
}

fn override_mark(
    snapshot: &FleetSnapshot,
    gateway: &GatewayName,
    active: &ExplainedOverride,
) -> OverrideMark {
    let order = &active.override_;
    let given_ms = snapshot.overrides_given_ms.get(&order.id);
    OverrideMark {
        gateway: gateway.clone(),
        id: order.id.clone(),
        action: order.action,
        pool: order.pool.clone(),
        lane: order.provider.is_none().then(|| order.lane.clone()),
        provider: order.provider.clone(),
        reason: active.reason.clone(),
        created_at: given_ms.map(|given_ms| clock::rfc3339(*given_ms)),
        expires_at: clock::rfc3339(order.expires_ms),
    }
}

/// What is worth telling pages of an agent, as one number: most reports change but ages and counters.
fn agent_mark(snapshot: &FleetSnapshot, record: &AgentRecord, now_ms: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    let state = agent_state(record, now_ms, snapshot.windows());
    (state, snapshot.target_of(record)).hash(&mut hasher);
    (record.applied_revision, &record.applied_hash).hash(&mut hasher);
    (&record.name, &record.labels, &record.version).hash(&mut hasher);
    (record.config_source, &record.problems).hash(&mut hasher);
    let rejected = record.last_error.as_ref();
    rejected.map(|rejected| rejected.revision).hash(&mut hasher);
    snapshot.shares_identity(record).hash(&mut hasher);
    hasher.finish()
}
