//! What is kept of one agent instance, and how fresh that is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::GatewayName;
use crate::problem::Problem;
use crate::report::{CellReport, ConfigSource, Totals};
use crate::usability::PoolUsability;

/// An agent whose latest report is older than this is stale: 30 s.
pub const STALE_AFTER_MS: u64 = 30_000;
/// An agent whose latest report is older than this is gone: 5 min.
pub const GONE_AFTER_MS: u64 = 300_000;

/// A revision an agent refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Rejected {
    /// The refused revision.
    pub revision: u64,
    /// Why.
    pub errors: Vec<Problem>,
}

/// What is known of one agent instance. Wall times are unix milliseconds by the server's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// The gateway it serves.
    pub gateway: GatewayName,
    /// Fresh per process, so that two replicas of one name are two records.
    pub instance: String,
    /// The agent's name.
    pub name: String,
    /// The identity it proved; `None` where sessions carry none.
    #[serde(default)]
    pub identity: Option<String>,
    /// The agent's labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The agent's version.
    #[serde(default)]
    pub version: String,
    /// The session it reports in; later sessions have larger numbers.
    #[serde(default)]
    pub session_epoch: u64,
    /// The latest report's number within the session.
    #[serde(default)]
    pub seq: u64,
    /// When the session began.
    #[serde(default)]
    pub connected_ms: u64,
    /// When the latest report arrived; `None` before the first.
    #[serde(default)]
    pub report_received_ms: Option<u64>,
    /// It said goodbye.
    #[serde(default)]
    pub left: bool,
    /// It drains.
    #[serde(default)]
    pub draining: bool,
    /// The revision it serves; 0 = none.
    #[serde(default)]
    pub applied_revision: u64,
    /// Content hash of what it serves.
    #[serde(default)]
    pub applied_hash: String,
    /// Where that came from.
    #[serde(default)]
    pub config_source: ConfigSource,
    /// What is wrong there without preventing the revision.
    #[serde(default)]
    pub problems: Vec<String>,
    /// The latest revision it refused, until it applies another.
    #[serde(default)]
    pub last_error: Option<Rejected>,
    /// Its wall clock less the server's, in milliseconds, network delay included.
    #[serde(default)]
    pub clock_skew_ms: i64,
    /// The cells of its latest report: at least all that are not plainly closed.
    #[serde(default)]
    pub cells: Vec<CellReport>,
    /// The pools of its latest report that lack a member or serve requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolUsability>,
    /// The totals of its latest report.
    #[serde(default)]
    pub totals: Totals,
    /// What it acknowledged of the operators' overrides it was given.
    #[serde(default)]
    pub overrides: HeldOverrides,
}

/// The operators' overrides an agent has acknowledged: the latest whole set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldOverrides {
    /// The agent understands overrides; one of an older release is not sent them.
    pub understood: bool,
    /// Which state of the gateway's overrides it acknowledged; 0 = none yet.
    pub generation: u64,
    /// The overrides it carries out or has carried out, by id, with the time of the first
    /// acknowledgement in unix milliseconds by the server's clock.
    pub applied: BTreeMap<String, u64>,
    /// The overrides it cannot carry out, by id, with the reason for people.
    pub refused: BTreeMap<String, String>,
}

impl AgentRecord {
    /// Whose vote its reports are: one for each identity, whatever the number of its processes.
    /// Without identities the name takes their place.
    pub fn voter(&self) -> &str {
        self.identity.as_deref().unwrap_or(&self.name)
    }

    /// When it last gave a sign: its latest report, or else the start of its session.
    pub fn last_sign_ms(&self) -> u64 {
        self.report_received_ms.unwrap_or(self.connected_ms)
    }

    /// Milliseconds since the latest report arrived; `None` before the first. A receive time in the
    /// future (a replica's clock runs ahead) counts as now.
    pub fn report_age_ms(&self, now_ms: u64) -> Option<u64> {
        self.report_received_ms
            .map(|received| now_ms.saturating_sub(received))
    }
}

/// How old a report may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshWindows {
    /// Older reports make an agent stale, in milliseconds.
    pub stale_after_ms: u64,
    /// Older reports make an agent gone, in milliseconds.
    pub gone_after_ms: u64,
}

impl Default for FreshWindows {
    fn default() -> Self {
        Self {
            stale_after_ms: STALE_AFTER_MS,
            gone_after_ms: GONE_AFTER_MS,
        }
    }
}

/// What an agent is to the fleet now.
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
pub enum AgentState {
    /// Heard of within the fresh window.
    Live,
    /// Heard of within the fresh window, and draining.
    Draining,
    /// Silent. Nothing is known of its cells.
    Stale,
    /// Silent for long, or it said goodbye.
    Gone,
}

impl AgentState {
    /// The state as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Draining => "draining",
            Self::Stale => "stale",
            Self::Gone => "gone",
        }
    }
}

/// Judges an agent by the server's receive times alone.
pub fn agent_state(record: &AgentRecord, now_ms: u64, windows: FreshWindows) -> AgentState {
    let silent_ms = now_ms.saturating_sub(record.last_sign_ms());
    if record.left || silent_ms > windows.gone_after_ms {
        AgentState::Gone
    } else if silent_ms > windows.stale_after_ms {
        AgentState::Stale
    } else if record.draining {
        AgentState::Draining
    } else {
        AgentState::Live
    }
}

/// True when the agent has reported within the fresh window and has not left: only such an agent
/// counts for cells. A connected agent that has not reported yet does not.
pub fn reports_freshly(record: &AgentRecord, now_ms: u64, windows: FreshWindows) -> bool {
    !record.left
        && record
            .report_age_ms(now_ms)
            .is_some_and(|age_ms| age_ms <= windows.stale_after_ms)
}
