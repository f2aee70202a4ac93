//! The fleet in a few numbers: `GET /api/v1/summary`.

use serde::{Deserialize, Serialize};

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
