//! One agent as the API lists it: `GET /api/v1/agents`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::{AgentRecord, AgentState, FreshWindows, Rejected, agent_state};
use crate::ids::GatewayName;
use crate::report::{ConfigSource, Totals};

/// An agent as the API lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AgentView {
    /// Names the agent in paths: its instance.
    pub id: String,
    /// Fresh per process.
    pub instance: String,
    /// Its name.
    pub name: String,
    /// The gateway it serves.
    pub gateway: GatewayName,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Live, draining, stale or gone.
    pub state: AgentState,
    /// The revision it serves; 0 = none.
    pub applied_revision: u64,
    /// The revision it should serve; null when the gateway does not exist.
    pub target_revision: Option<u64>,
    /// True when it serves exactly what it should.
    pub converged: bool,
    /// Where its configuration came from.
    pub config_source: ConfigSource,
    /// What is wrong there without preventing the revision.
    pub problems: Vec<String>,
    /// The revision it refused, and why.
    pub last_error: Option<Rejected>,
    /// Its version.
    pub version: String,
    /// Its wall clock less the server's.
    pub clock_skew_secs: f64,
    /// Seconds since its latest report; null before the first.
    pub last_report_age_secs: Option<f64>,
    /// Requests since it started.
    pub totals: Totals,
}

/// Describes an agent. `target` is the current revision of its gateway and that one's content hash.
pub fn agent_view(
    record: &AgentRecord,
    target: Option<(u64, &str)>,
    now_ms: u64,
    windows: FreshWindows,
) -> AgentView {
    AgentView {
        id: record.instance.clone(),
        instance: record.instance.clone(),
        name: record.name.clone(),
        gateway: record.gateway.clone(),
        labels: record.labels.clone(),
        state: agent_state(record, now_ms, windows),
        applied_revision: record.applied_revision,
        target_revision: target.map(|(revision, _)| revision),
        converged: target.is_some_and(|(revision, hash)| {
            record.applied_revision == revision && record.applied_hash == hash
        }),
        config_source: record.config_source,
        problems: record.problems.clone(),
        last_error: record.last_error.clone(),
        version: record.version.clone(),
        clock_skew_secs: record.clock_skew_ms as f64 / 1000.0,
        last_report_age_secs: record
            .report_age_ms(now_ms)
            .map(|age_ms| age_ms as f64 / 1000.0),
        totals: record.totals,
    }
}
