//! The pools as the API gives them: `GET /api/v1/pools`. Callers address pools, so this is where it
//! shows whether somebody is failed right now.

use serde::{Deserialize, Serialize};

use super::view::ViewState;
use crate::ids::{GatewayName, LaneName, PoolName, ProviderName};
use crate::traffic::{AttemptCounts, PoolTraffic};
use crate::usability::{Reasons, UnusableReason};

/// One pool over all agents of its gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PoolView {
    /// The gateway.
    pub gateway: GatewayName,
    /// The pool; empty for direct routes, whose members are all lanes.
    pub pool: PoolName,
    /// Agents that have the pool.
    pub agents: PoolAgents,
    /// Why the pool can serve nobody, where it is exhausted: all reasons of all its members there.
    pub exhausted_reasons: Vec<UnusableReason>,
    /// Members that can serve, on the agent with the fewest and on the one with the most; null when
    /// no agent reports freshly.
    pub usable_members: Option<UsableMembers>,
    /// Its members by the current revision, by name.
    pub members: Vec<PoolMemberView>,
    /// Requests being served now, over all agents.
    pub in_flight: u64,
    /// Requests that wait for a permit now, over all agents.
    pub queued: u64,
    /// What came of its requests over the last minute.
    pub last_minute: PoolTrafficView,
    /// What came of its requests over the last ten minutes.
    pub last_ten_minutes: PoolTrafficView,
}

/// How many agents see a pool how.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct PoolAgents {
    /// Agents that report freshly and have the pool.
    pub reporting: u64,
    /// Those on which no member can serve.
    pub exhausted_on: u64,
    /// Those on which some member cannot serve, and another can.
    pub impaired_on: u64,
    /// Silent: unknown, never usable.
    pub stale: u64,
}

/// Members that can serve, over agents.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct UsableMembers {
    /// On the agent with the fewest.
    pub least: u32,
    /// On the agent with the most.
    pub most: u32,
}

/// One member of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PoolMemberView {
    /// The lane.
    pub lane: LaneName,
    /// The lane's provider.
    pub provider: ProviderName,
    /// The worst state of its cell in this pool.
    pub state: ViewState,
    /// Agents on which it can serve.
    pub usable_on: u64,
    /// Agents on which it cannot for another reason than its own cell.
    pub unusable: UnusableView,
    /// Its share of the pool's attempts over the last minute, 0 to 1; null when there was none.
    pub traffic_share: Option<f64>,
    /// Its attempts over the last minute.
    pub last_minute: AttemptCounts,
    /// Its attempts over the last ten minutes.
    pub last_ten_minutes: AttemptCounts,
}

/// Agents on which a lane cannot serve although its cell may pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UnusableView {
    /// How many.
    pub agents: u64,
    /// Why, over all of them.
    pub reasons: Vec<UnusableReason>,
}

impl UnusableView {
    pub(super) fn new(agents: u64, reasons: Reasons) -> Self {
        Self {
            agents,
            reasons: reasons.iter().collect(),
        }
    }
}

/// What came of a pool's requests over some span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PoolTrafficView {
    /// The span that the counts are of, in seconds: shorter than its name says while the control
    /// plane has not listened for so long.
    pub over_secs: f64,
    /// Requests that ended.
    pub requests: u64,
    /// Those answered well.
    pub ok: u64,
    /// Those at fault themselves.
    pub client_fault: u64,
    /// Those that a lane's error ended.
    pub failed: u64,
    /// Those for which no member was left.
    pub exhausted: u64,
    /// Those whose caller left first.
    pub cancelled: u64,
    /// Failed and exhausted ones among all, 0 to 1; null when there were none.
    pub error_share: Option<f64>,
    /// Moves to another member.
    pub failovers: u64,
    /// Half of the first contents came within this; null when there were none.
    pub first_content_p50_secs: Option<f64>,
    /// 99 of 100 first contents came within this.
    pub first_content_p99_secs: Option<f64>,
    /// Half of the answers had ended within this.
    pub whole_p50_secs: Option<f64>,
    /// 99 of 100 answers had ended within this.
    pub whole_p99_secs: Option<f64>,
}

impl PoolTrafficView {
    pub(super) fn new(traffic: &PoolTraffic, over_ms: u64) -> Self {
        let totals = &traffic.totals;
        let requests = totals.requests;
        let all = requests.sum();
        let secs = |ms: Option<f64>| ms.map(|ms| ms / 1000.0);
        Self {
            over_secs: over_ms as f64 / 1000.0,
            requests: all,
            ok: requests.ok,
            client_fault: requests.client_fault,
            failed: requests.failed,
            exhausted: requests.exhausted,
            cancelled: requests.cancelled,
            error_share: (all > 0).then(|| requests.errors() as f64 / all as f64),
            failovers: totals.failovers,
            first_content_p50_secs: secs(totals.first_content.quantile_ms(0.5)),
            first_content_p99_secs: secs(totals.first_content.quantile_ms(0.99)),
            whole_p50_secs: secs(totals.whole.quantile_ms(0.5)),
            whole_p99_secs: secs(totals.whole.quantile_ms(0.99)),
        }
    }
}

/// Pools in a few numbers. Direct routes are not among them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct PoolCounts {
    /// Pools that the current revisions have, and others that agents report as exhausted.
    pub total: u64,
    /// Pools that can serve nobody on some agent.
    pub exhausted: u64,
    /// Pools that lack a member on some agent, and are exhausted on none.
    pub impaired: u64,
    /// Pools that no agent reports on freshly.
    pub unknown: u64,
}
