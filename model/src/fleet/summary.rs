//! The fleet in a few numbers: `GET /api/v1/summary`.

use serde::{Deserialize, Serialize};

use super::pool_view::PoolCounts;
use super::view::{CellView, ViewState};

/// Agents by state.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct AgentCounts {
    /// Heard of lately.
    pub live: u64,
    /// Heard of lately, and draining.
    pub draining: u64,
    /// Silent.
    pub stale: u64,
    /// Silent for long, or left.
    pub gone: u64,
}

/// Cells by their worst state.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CellCounts {
    /// Closed wherever reported.
    pub closed: u64,
    /// Half-open somewhere, open nowhere.
    pub half_open: u64,
    /// Open somewhere.
    pub open: u64,
    /// Reported by no agent.
    pub unknown: u64,
    /// Parked somewhere, among the closed ones.
    pub parked: u64,
    /// Refusing by an operator's override alone, among the open ones.
    #[serde(default)]
    pub forced_open: u64,
    /// Unusable on some agent for another reason than the cell.
    #[serde(default)]
    pub unusable: u64,
}

/// The fleet in a few numbers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Summary {
    /// Gateways configured.
    pub gateways: u64,
    /// Agents by state.
    pub agents: AgentCounts,
    /// Cells by worst state.
    pub cells: CellCounts,
    /// Pools by what they can serve with.
    #[serde(default)]
    pub pools: PoolCounts,
    /// Gateways of which every agent that should report is silent.
    #[serde(default)]
    pub silent_gateways: u64,
    /// What fails or may fail callers now: cells that are open or half-open somewhere other than by
    /// an operator's override alone, pools that are exhausted somewhere, silent gateways.
    pub incidents: u64,
    /// Incidents that go on, as `GET /api/v1/incidents?state=open` lists them. The caller knows, and
    /// sets it.
    #[serde(default)]
    pub open_incidents: u64,
    /// True when a share of the reports is missing. The caller knows, and sets it.
    pub partial: bool,
    /// True after a start of the server, until every agent that was known before has come back or
    /// has had its time for it. The caller knows, and sets it.
    #[serde(default)]
    pub rebuilding: bool,
}

impl Summary {
    pub(super) fn count_incidents(&mut self) {
        let cells = (self.cells.open + self.cells.half_open).saturating_sub(self.cells.forced_open);
        self.incidents = cells + self.pools.exhausted + self.silent_gateways;
    }
}

/// Adds cells to their counts.
pub(super) fn count_cells<'a>(counts: &mut CellCounts, cells: impl Iterator<Item = &'a CellView>) {
    for cell in cells {
        let count = match cell.state {
            ViewState::Unknown => &mut counts.unknown,
            ViewState::Closed => &mut counts.closed,
            ViewState::HalfOpen => &mut counts.half_open,
            ViewState::Open => &mut counts.open,
        };
        *count += 1;
        counts.parked += u64::from(cell.agents.parked > 0);
        let troubled = cell.agents.open + cell.agents.half_open;
        counts.forced_open += u64::from(troubled > 0 && cell.agents.forced_open >= troubled);
        counts.unusable += u64::from(cell.unusable.agents > 0);
    }
}
