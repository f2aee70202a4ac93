//! The fleet view as the API gives it: `GET /api/v1/breaker-state`.

use serde::{Deserialize, Serialize};

use super::advice::{AdviceRules, Withheld};
use super::pool_view::UnusableView;
use crate::ids::{CellName, CellOwner, GatewayName, LaneName, PoolName, ProviderName};
use crate::spec::FleetMode;
use crate::usability::{Reasons, UnusableReason};

/// The cells one revision of a gateway has.
///
/// Pass the current revision of each gateway. Pass older ones too, where agents still serve them,
/// and the view knows which cells those agents have at all; an agent on a revision that is not
/// passed is taken to have every cell of the current one.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayCells {
    /// The gateway.
    pub name: GatewayName,
    /// The revision. The largest one passed for a gateway is its current one.
    pub revision: u64,
    /// Its cells, as [`crate::Gateway::cells`] lists them.
    pub cells: Vec<CellName>,
    /// How its agents warn each other.
    pub rules: AdviceRules,
}

/// What to show. The default shows every cell that is not known to be closed and usable on every
/// agent that should report, without agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewQuery {
    /// Only this gateway.
    pub gateway: Option<GatewayName>,
    /// Only this pool; the empty name for direct routes.
    pub pool: Option<PoolName>,
    /// Only this lane.
    pub lane: Option<LaneName>,
    /// Only lanes of this provider, and its own cells.
    pub provider: Option<ProviderName>,
    /// Only cells in this state.
    pub state: Option<ViewState>,
    /// Closed cells too.
    pub include_closed: bool,
    /// Each agent's own view of each cell too.
    pub detail_agents: bool,
}

/// The worst state of a cell over the agents that report freshly.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ViewState {
    /// No agent reports freshly, so nothing is known.
    Unknown,
    /// Closed wherever it is reported.
    Closed,
    /// Half-open somewhere, open nowhere.
    HalfOpen,
    /// Open somewhere.
    Open,
}

impl ViewState {
    /// The state as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }

    /// Reads the API's spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Unknown, Self::Closed, Self::HalfOpen, Self::Open]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// How much of the fleet is affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Half of the fresh agents or more.
    Fleet,
    /// One agent, or at most a tenth of the fresh ones.
    Local,
    /// In between.
    Partial,
}

/// The fleet's breakers at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FleetView {
    /// The moment, RFC 3339 in UTC.
    pub generated_at: String,
    /// Seconds after which a silent agent is stale.
    pub fresh_window_secs: u64,
    /// True when a replica's or the live store's share is missing, and while `rebuilding`. The
    /// caller knows, and sets it.
    pub partial: bool,
    /// True after a start of the server, until every agent that was known before has come back or
    /// has had its time for it.
    #[serde(default)]
    pub rebuilding: bool,
    /// Agents of the gateways shown.
    pub agents: FleetAgents,
    /// Cells, sorted by gateway, pool, lane, endpoint; providers' own come first.
    pub cells: Vec<CellView>,
}

/// Agents behind a view.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct FleetAgents {
    /// Those that report freshly.
    pub live: u64,
    /// Those that do not, until they are gone.
    pub stale: u64,
}

/// One cell over all agents of its gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CellView {
    /// The gateway.
    pub gateway: GatewayName,
    /// The pool; empty for direct routes, null for a provider's own cell.
    pub pool: Option<PoolName>,
    /// The lane; null for a provider's own cell.
    pub lane: Option<LaneName>,
    /// The lane's provider, or the one whose own cell it is.
    pub provider: ProviderName,
    /// The endpoint, where the policy keeps a cell for each.
    pub endpoint: Option<String>,
    /// The worst state.
    pub state: ViewState,
    /// How much of the fleet has it open or half-open (parked, if it is only that) other than by an
    /// operator's override; null = none.
    pub scope: Option<Scope>,
    /// How many agents see it how.
    pub agents: CellAgents,
    /// Agents on which the lane cannot serve here for another reason than this cell.
    #[serde(default)]
    pub unusable: UnusableView,
    /// The most frequent cause over all agents that have it open or half-open.
    pub cause: Option<CauseView>,
    /// Seconds since the cell was last closed on the agent that has not had it closed for longest:
    /// one incident, however often a probe failed meanwhile.
    pub opened_for_secs: Option<f64>,
    /// Most re-openings on any one agent since the cell was last closed there.
    pub flaps: u64,
    /// Seconds to the soonest probe; 0 = due.
    pub next_probe_in_secs: Option<f64>,
    /// Openings since the agents started, added up.
    pub trips: u64,
    /// The override that is active on most agents.
    #[serde(rename = "override")]
    pub override_: Option<OverrideView>,
    /// The fleet's advisory, when enough agents hold the cell open or it is in force somewhere.
    pub advisory: Option<AdvisoryView>,
    /// Each agent that reports something other than plainly closed and usable, and each silent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_agent: Option<Vec<AgentCell>>,
}

impl CellView {
    /// Whose breaker the cell is.
    pub fn owner(&self) -> CellOwner {
        match (&self.pool, &self.lane) {
            (Some(pool), Some(lane)) => CellOwner::new(pool, lane, &self.provider),
            (None, _) | (_, None) => CellOwner::Provider(self.provider.clone()),
        }
    }
}

/// How many agents see a cell how: `closed + open + half_open == reporting`, and `parked` and
/// `overridden` are among those. Stale agents are none of them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CellAgents {
    /// Agents that report freshly and have the cell.
    pub reporting: u64,
    /// Passing.
    pub closed: u64,
    /// Refusing.
    pub open: u64,
    /// Probing.
    pub half_open: u64,
    /// Closed, but avoided for now.
    pub parked: u64,
    /// Under an override.
    pub overridden: u64,
    /// Refusing under an operator's `force_open` or `drain`, among the open ones: no incident.
    #[serde(default)]
    pub forced_open: u64,
    /// Silent: unknown, never closed.
    pub stale: u64,
}

/// A cause with its count over all agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CauseView {
    /// Kind in snake case.
    pub kind: String,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
    /// How often, over all agents.
    pub count: u64,
}

/// An active override.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OverrideView {
    /// `force_open`, `force_close` or `drain`.
    pub action: String,
    /// Agents it is in force on.
    pub agents: u64,
    /// The override's id, where it is known which one it is.
    #[serde(default)]
    pub id: Option<String>,
    /// Why it was given, where known.
    #[serde(default)]
    pub reason: Option<String>,
    /// Seconds until it ends by itself, where known.
    #[serde(default)]
    pub expires_in_secs: Option<f64>,
}

/// The fleet's advisory: that enough agents hold a cell open, and what the others make of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct AdvisoryView {
    /// In force on some agent.
    pub active: bool,
    /// Seconds until it ends, where known.
    pub expires_in_secs: Option<f64>,
    /// Agents on which it is in force.
    pub agents: u64,
    /// `act`: it is sent. `observe`: it is only shown. Null when the quorum no longer stands.
    pub mode: Option<FleetMode>,
    /// Why nobody is warned although the quorum stands.
    pub withheld: Option<Withheld>,
    /// Seconds since enough agents have held the cell open.
    pub advised_for_secs: Option<f64>,
    /// Agents that hold it open for a cause that is not their own.
    pub open_agents: u64,
    /// Attempts that selection has kept from the lane because of it, over the agents on which it is
    /// in force.
    pub spared_attempts: u64,
    /// Agents that opened the cell after there was time to warn them: those that advice sent would
    /// have spared.
    pub late_agents: u64,
    /// Failures that those met.
    pub late_attempts: u64,
}

/// One agent's state of one cell.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AgentCellState {
    /// Passing.
    Closed,
    /// Probing.
    HalfOpen,
    /// Refusing.
    Open,
    /// The agent is silent.
    Stale,
}

/// One agent's view of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AgentCell {
    /// The agent's name.
    pub agent: String,
    /// The agent's instance.
    pub instance: String,
    /// The state there.
    pub state: AgentCellState,
    /// Seconds in that state; for a silent agent, seconds since its last sign.
    pub age_secs: f64,
    /// Seconds until a probe may go there.
    pub cooldown_remaining_secs: f64,
    /// Why the lane cannot serve there, beside the cell.
    #[serde(default, skip_serializing_if = "Reasons::is_empty_ref")]
    #[schemars(with = "Vec<UnusableReason>")]
    pub unusable: Reasons,
}

impl ViewState {
    /// The worst state over the agents that were counted.
    pub(super) fn worst(agents: &CellAgents) -> Self {
        match (agents.reporting, agents.open, agents.half_open) {
            (_, 1.., _) => Self::Open,
            (_, 0, 1..) => Self::HalfOpen,
            (1.., 0, 0) => Self::Closed,
            (0, 0, 0) => Self::Unknown,
        }
    }
}

impl Scope {
    /// Separates "1 of 40" from "38 of 40". Half comes first: one agent of two is the fleet. `None`
    /// when no agent is touched.
    pub fn of(touched: u64, fresh: u64) -> Option<Self> {
        if touched == 0 {
            None
        } else if touched.saturating_mul(2) >= fresh {
            Some(Self::Fleet)
        } else if touched == 1 || touched.saturating_mul(10) <= fresh {
            Some(Self::Local)
        } else {
            Some(Self::Partial)
        }
    }

    /// Orders scopes by how much of the fleet they are.
    pub fn reach(self) -> u8 {
        match self {
            Self::Local => 1,
            Self::Partial => 2,
            Self::Fleet => 3,
        }
    }

    /// The scope as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Partial => "partial",
            Self::Fleet => "fleet",
        }
    }

    /// Reads the API's spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Local, Self::Partial, Self::Fleet]
            .into_iter()
            .find(|scope| scope.as_str() == name)
    }
}
