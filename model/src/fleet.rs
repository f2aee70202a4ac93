//! What the control plane keeps of each agent, and the pure functions that turn it into the fleet
//! view. Reports, configuration and the time go in, a value comes out, so every replica that holds
//! the same records answers alike.

mod acknowledgement;
mod agent_view;
mod index;
mod ordered;
mod record;
mod summary;
mod times;
mod view;

pub use acknowledgement::{AckState, Acknowledgement, OrderTimes, acknowledgements};
pub use agent_view::{AgentView, agent_view};
pub use index::{FleetIndex, FoldedFleet};
pub use ordered::{ExplainedOverride, explain_overrides};
pub use record::{
    AgentRecord, AgentState, FreshWindows, GONE_AFTER_MS, HeldOverrides, Rejected, STALE_AFTER_MS,
    agent_state, reports_freshly,
};
pub use summary::{AgentCounts, CellCounts, Summary};
pub use view::{
    AdvisoryView, AgentCell, AgentCellState, CauseView, CellAgents, CellView, FleetAgents,
    FleetView, GatewayCells, OverrideView, Scope, ViewQuery, ViewState,
};

#[cfg(test)]
mod tests;
