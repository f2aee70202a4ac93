//! The fleet in a few numbers: `GET /api/v1/summary`.

use serde::{Deserialize, Serialize};

use super::aggregate::fleet_view;
use super::record::{AgentRecord, AgentState, FreshWindows, agent_state};
use super::view::{CellView, GatewayCells, ViewQuery, ViewState};

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
    /// Cells that are open or half-open somewhere.
    pub incidents: u64,
    /// True when a share of the reports is missing. The caller knows, and sets it.
    pub partial: bool,
}

/// Counts agents and cells.
pub fn summary(
    records: &[AgentRecord],
    gateways: &[GatewayCells],
    now_ms: u64,
    windows: FreshWindows,
) -> Summary {
    let mut names: Vec<&str> = gateways.iter().map(|cells| cells.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();

    let mut agents = AgentCounts::default();
    for record in records {
        let count = match agent_state(record, now_ms, windows) {
            AgentState::Live => &mut agents.live,
            AgentState::Draining => &mut agents.draining,
            AgentState::Stale => &mut agents.stale,
            AgentState::Gone => &mut agents.gone,
        };
        *count += 1;
    }

    let query = ViewQuery {
        include_closed: true,
        ..ViewQuery::default()
    };
    let mut cells = CellCounts::default();
    let view = fleet_view(records, gateways, &query, now_ms, windows);
    count_cells(&mut cells, view.cells.iter());

    Summary {
        gateways: names.len() as u64,
        agents,
        incidents: cells.open + cells.half_open,
        cells,
        partial: false,
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
    }
}
