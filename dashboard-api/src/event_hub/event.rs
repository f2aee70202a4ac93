//! The changes as pages get them.

use crate::fleet_view::change::Change;
use lanekeeper_model::fleet::{
    AckState, Acknowledgement, AgentView, CellView, FleetAgents, Summary,
};
use lanekeeper_model::incident::IncidentView;
use lanekeeper_model::rollout::{RolloutState, Stop};
use lanekeeper_model::{GatewayName, LaneName, OverrideAction, PoolName, ProviderName};
use schemars::JsonSchema;
use serde::Serialize;

/// One change, as it goes out to every page that it concerns.
#[derive(Debug)]
pub(crate) struct PageEvent {
    /// Its number.
    pub(crate) number: u64,
    /// The gateway it is about; `None` for all.
    gateway: Option<GatewayName>,
    /// Its name.
    pub(crate) name: &'static str,
    /// Its data, as JSON.
    pub(crate) data: String,
}

impl PageEvent {
    /// Whether a page that shows one gateway, or all, is to have it.
    pub(super) fn concerns(&self, gateway: Option<&str>) -> bool {
        match (gateway, &self.gateway) {
            (Some(shown), Some(about)) => **about == *shown,
            (None, _) | (Some(_), None) => true,
        }
    }
}

/// A change without its number.
#[derive(Debug)]
pub(super) struct Draft {
    gateway: Option<GatewayName>,
    pub(super) name: &'static str,
    pub(super) data: String,
}

impl Draft {
    pub(super) fn new(
        name: &'static str,
        gateway: Option<&GatewayName>,
        data: &impl Serialize,
    ) -> Self {
        Self {
            gateway: gateway.cloned(),
            name,
            data: serde_json::to_string(data).unwrap_or_default(),
        }
    }

    pub(super) fn numbered(self, number: u64) -> PageEvent {
        PageEvent {
            number,
            gateway: self.gateway,
            name: self.name,
            data: self.data,
        }
    }
}

/// Event `snapshot`: all there is to show but agents, which are listed by `GET /api/v1/agents`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PageSnapshot {
    /// The moment, RFC 3339.
    pub(super) generated_at: String,
    /// True when a share of the reports is missing.
    pub(super) partial: bool,
    /// True after a start of the server, until agents that were known before have come back.
    pub(super) rebuilding: bool,
    /// The whole fleet in a few numbers, whatever gateway is shown.
    pub(super) summary: Summary,
    /// Agents of each gateway shown.
    pub(super) agents: Vec<GatewayAgents>,
    /// Cells that are not plainly closed.
    pub(super) cells: Vec<CellView>,
    /// Incidents that go on.
    pub(super) incidents: Vec<IncidentView>,
    /// Rollouts that decide what agents serve.
    pub(super) rollouts: Vec<RolloutMark>,
    /// Overrides that are active.
    pub(super) overrides: Vec<OverrideMark>,
    /// How far the agents are with them.
    pub(super) acknowledgements: Vec<AckCounts>,
}

/// Agents of one gateway.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GatewayAgents {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// Its agents.
    pub(super) agents: FleetAgents,
}

/// Event `cells`: replace the cells that are listed, drop the ones that are gone.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CellsEvent {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// What changed there.
    #[serde(flatten)]
    pub(super) change: Change,
}

/// Event `agents`: replace the agents that are listed, drop the ones that are gone. Reports that
/// change nothing but ages and counters are no news.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AgentsEvent {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// Agents that are new or different.
    pub(super) agents: Vec<AgentView>,
    /// Instances that are no longer listed.
    pub(super) gone: Vec<String>,
    /// More changed than are listed: ask for the list again.
    pub(super) truncated: bool,
}

/// Event `incidents`: incidents that began, changed or ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct IncidentsEvent {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// The incidents as they are now.
    pub(super) incidents: Vec<IncidentView>,
}

/// Event `rollout`: the rollout that decides what a gateway's agents serve.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RolloutEvent {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// The newest revision; null when the gateway is gone.
    pub(super) revision: Option<u64>,
    /// The rollout; null when every agent has the newest revision, or is to have it.
    pub(super) rollout: Option<RolloutMark>,
}

/// A rollout in short.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RolloutMark {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// The revision rolled out.
    pub(super) revision: u64,
    /// The revision that agents keep until a stage reaches them.
    pub(super) base_revision: u64,
    /// How it stands.
    pub(super) state: RolloutState,
    /// Stages that have begun.
    pub(super) stages_begun: usize,
    /// All its stages.
    pub(super) stages: usize,
    /// Why it stopped; null when it did not.
    pub(super) stop: Option<Stop>,
}

/// Event `overrides`: all active overrides of a gateway.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OverridesEvent {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// Its active overrides.
    pub(super) overrides: Vec<OverrideMark>,
}

/// An active override in short.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct OverrideMark {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// Names the override.
    pub(super) id: String,
    /// What it does.
    #[schemars(with = "OverrideActionName")]
    pub(super) action: OverrideAction,
    /// The pool whose cells are meant; empty for direct routes, null for all.
    pub(super) pool: Option<PoolName>,
    /// The lane; null when a provider's own cell is meant.
    pub(super) lane: Option<LaneName>,
    /// The provider whose own cell is meant; null when a lane's cells are.
    pub(super) provider: Option<ProviderName>,
    /// Why.
    pub(super) reason: String,
    /// When it was given, RFC 3339; null when that is not known.
    pub(super) created_at: Option<String>,
    /// When it ends by itself, RFC 3339.
    pub(super) expires_at: String,
}

/// What an override does.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the model's type to readers of the API")]
enum OverrideActionName {
    ForceOpen,
    ForceClose,
    Drain,
    Reset,
}

/// Event `acknowledgements`: agents that are further with an override.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AcknowledgementsEvent {
    /// The gateway.
    pub(super) gateway: GatewayName,
    /// How many are how far.
    #[serde(flatten)]
    pub(super) counts: AckCounts,
    /// The acknowledgements that are new or different.
    pub(super) acks: Vec<Acknowledgement>,
    /// More changed than are listed: ask for the override again.
    pub(super) truncated: bool,
}

/// How far agents are with an override.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct AckCounts {
    /// The override's id.
    pub(super) id: String,
    /// Agents it has not reached.
    pub(super) agents_pending: usize,
    /// Agents it is in force on, or was carried out on.
    pub(super) agents_applied: usize,
    /// Agents that left, or have been silent for long, since it was given.
    pub(super) agents_gone: usize,
}

impl AckCounts {
    pub(super) fn of(id: &str, acks: &[Acknowledgement]) -> Self {
        let count = |state| acks.iter().filter(|ack| ack.state == state).count();
        Self {
            id: id.to_owned(),
            agents_pending: count(AckState::Pending),
            agents_applied: count(AckState::Applied),
            agents_gone: count(AckState::Gone),
        }
    }
}

/// Event `reset`: what was shown is void; a `snapshot` follows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResetEvent {
    /// Why, for people.
    pub(crate) reason: &'static str,
}
