//! The whole fleet at one moment, and the answers that need no agent's details.

use std::collections::BTreeMap;

use crate::fleet::record::FreshWindows;
use crate::fleet::summary::{AgentCounts, Summary, count_cells};
use crate::fleet::times::rfc3339;
use crate::fleet::view::{CellView, FleetAgents, FleetView, ViewQuery, ViewState};
use crate::ids::GatewayName;

/// The whole fleet at one moment: what every query without agents' details is answered from.
#[derive(Debug, Clone, Default)]
pub struct FoldedFleet {
    pub(super) now_ms: u64,
    pub(super) windows: FreshWindows,
    pub(super) gateways: BTreeMap<GatewayName, FoldedGateway>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct FoldedGateway {
    pub(super) is_configured: bool,
    pub(super) agents: FleetAgents,
    pub(super) states: AgentCounts,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) view: CellView,
    /// Some agent reports something other than plainly closed.
    pub(super) is_mentioned: bool,
}

impl FoldedFleet {
    /// The view as of the moment of folding, without agents' details.
    pub fn view(&self, query: &ViewQuery) -> FleetView {
        let closed_too = query.include_closed
            || matches!(query.state, Some(ViewState::Closed | ViewState::Unknown));
        let shown = self
            .gateways
            .iter()
            .filter(|(name, _)| query.gateway.as_ref().is_none_or(|only| *name == only));
        let mut agents = FleetAgents::default();
        let mut cells = Vec::new();
        for (_, gateway) in shown {
            agents.live += gateway.agents.live;
            agents.stale += gateway.agents.stale;
            let chosen = gateway.rows.iter().filter(|row| {
                let cell = &row.view;
                (row.is_mentioned || closed_too)
                    && is_wanted(query.pool.as_ref(), cell.pool.as_ref())
                    && is_wanted(query.lane.as_ref(), cell.lane.as_ref())
                    && query
                        .provider
                        .as_ref()
                        .is_none_or(|it| *it == cell.provider)
                    && query.state.is_none_or(|state| state == cell.state)
            });
            cells.extend(chosen.map(|row| row.view.clone()));
        }
        FleetView {
            generated_at: rfc3339(self.now_ms),
            fresh_window_secs: self.windows.stale_after_ms / 1000,
            partial: false,
            agents,
            cells,
        }
    }

    /// The fleet in a few numbers.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for gateway in self.gateways.values() {
            summary.gateways += u64::from(gateway.is_configured);
            summary.agents.live += gateway.states.live;
            summary.agents.draining += gateway.states.draining;
            summary.agents.stale += gateway.states.stale;
            summary.agents.gone += gateway.states.gone;
            count_cells(&mut summary.cells, gateway.rows.iter().map(|row| &row.view));
        }
        summary.incidents = summary.cells.open + summary.cells.half_open;
        summary
    }

    /// Agents of one gateway by state.
    pub fn agents(&self, gateway: &str) -> AgentCounts {
        self.gateways
            .get(gateway)
            .map(|gateway| gateway.states)
            .unwrap_or_default()
    }
}

/// True when nothing is asked for, or what the cell has: a provider's own cell has neither pool nor
/// lane.
fn is_wanted<T: PartialEq>(asked: Option<&T>, has: Option<&T>) -> bool {
    asked.is_none() || asked == has
}
