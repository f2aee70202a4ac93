//! One agent as the API shows it.

use super::FleetSnapshot;
use lanekeeper_model::fleet::{AgentView, agent_view};
use lanekeeper_model::{AgentRecord, AgentState};

impl FleetSnapshot {
    /// Describes an agent of the snapshot.
    pub(crate) fn agent_view(&self, record: &AgentRecord, now_ms: u64) -> AgentView {
        let target = self.target_of(record);
        let mut view = agent_view(record, target, now_ms, self.windows());
        view.problems.extend(self.shares_identity(record));
        let is_silent = matches!(view.state, AgentState::Stale | AgentState::Gone);
        if is_silent && view.last_report_age_secs.is_none() {
            // Of an agent that only the store remembers the last sign is what is left.
            let silent_ms = now_ms.saturating_sub(record.connected_ms);
            view.last_report_age_secs = Some(silent_ms as f64 / 1000.0);
        }
        view
    }
}
