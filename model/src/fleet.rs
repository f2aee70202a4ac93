//! What the control plane keeps of each agent, and the pure functions that turn it into the fleet
//! view. Reports, configuration and the time go in, a value comes out, so every replica that holds
//! the same records answers alike.

mod acknowledgement;
mod advice;
mod agent_view;
mod explained;
mod index;
mod pool_view;
mod record;
mod summary;
mod times;
mod view;

pub use acknowledgement::{AckState, Acknowledgement, OverrideTimes, acknowledgements};
pub use advice::{
    Advice, AdviceRules, AdvisedCell, PoolRules, Tally, Vote, Withheld, advise, is_local_cause,
};
pub use agent_view::{AgentView, agent_view};
pub use explained::{ExplainedOverride, explain_overrides};
pub use index::{AdviceWindows, FleetIndex, FoldedFleet};
pub use pool_view::{
    PoolAgents, PoolCounts, PoolMemberView, PoolTrafficView, PoolView, UnusableView, UsableMembers,
};
pub use record::{
    AgentRecord, AgentState, FreshWindows, GONE_AFTER_MS, HeldOverrides, Rejected, STALE_AFTER_MS,
    agent_state, reports_freshly,
};
pub use summary::{AgentCounts, CellCounts, Summary};
pub use times::rfc3339;
pub use view::{
    AdvisoryView, AgentCell, AgentCellState, CauseView, CellAgents, CellView, FleetAgents,
    FleetView, GatewayCells, OverrideView, Scope, ViewQuery, ViewState,
};

#[cfg(test)]
mod tests;
