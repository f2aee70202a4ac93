//! Validated pools.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_breaker::Policy;

use super::Timeouts;
use crate::ids::{LaneName, PoolName, ProviderName};
use crate::spec::{
    BudgetScope, FleetMode, FleetProbe, MarkedIds, OnAuthDown, Preset, Strategy, Translate,
    UpstreamCredentials,
};

/// A pool of lanes.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name.
    pub name: PoolName,
    /// Its members, in the order of the document.
    pub members: Vec<Member>,
    /// How a member is selected.
    pub strategy: Strategy,
    /// Policy of its cells.
    pub breaker: Arc<Policy>,
    /// The preset that policy started from.
    pub preset: Preset,
    /// What happens when a member fails.
    pub failover: Failover,
    /// Silence before the first content after which a stream is opened to the caller; `None` = never.
    pub keepalive_after: Option<Duration>,
    /// Session affinity; `None` = off.
    pub affinity: Option<Affinity>,
    /// What happens when no member can serve.
    pub on_exhausted: OnExhausted,
    /// What the caller gets when a lane's credential is refused.
    pub on_auth_down: OnAuthDown,
    /// Whether the last lane's own answer is relayed when every member failed.
    pub relays_last_error: bool,
    /// Whether members that speak another protocol than the caller may serve.
    pub translate: Translate,
    /// Whether ids of what a provider keeps for one account say which lane gave them out.
    pub state: MarkedIds,
    /// Whose credential goes upstream.
    pub upstream_credentials: UpstreamCredentials,
    /// How agents warn each other.
    pub fleet: Fleet,
}

impl Pool {
    /// The members that may be selected at all: with a weight and not excluded.
    pub fn usable_members(&self) -> impl Iterator<Item = &Member> {
        self.members
            .iter()
            .filter(|member| member.weight > 0 && !self.failover.exclusions.contains(&member.lane))
    }
}

/// A member of a pool, with the lane's values where the member has none of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The lane.
    pub lane: LaneName,
    /// The lane's provider.
    pub provider: ProviderName,
    /// Its share; 0 = never selected.
    pub weight: u32,
    /// Largest context in tokens; `None` = unknown.
    pub context_max: Option<u64>,
    /// The waits of an attempt.
    pub timeouts: Timeouts,
}

/// What happens when a member fails before anything was sent to the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Failover {
    /// Bound on everything up to the first content.
    pub timeout: Duration,
    /// Most further attempts on other members.
    pub max_hops: u32,
    /// Members never selected.
    pub exclusions: BTreeSet<LaneName>,
    /// How long the first content is held back.
    pub hold: Duration,
    /// Further tries on the same lane.
    pub same_lane_retries: u32,
    /// Base of the full-jitter wait between those.
    pub retry_backoff: Duration,
    /// Bound on further attempts over all requests; `None` = none.
    pub retry_budget: Option<RetryBudget>,
}

/// A bound on further attempts, as a share of the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudget {
    /// Further attempts for each request, over 0.
    pub ratio: f64,
    /// Further attempts a second that are always allowed.
    pub min_per_sec: f64,
    /// Whose attempts are counted together.
    pub scope: BudgetScope,
}

/// Session affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// The header that names the session, in lower case.
    pub header_name: String,
}

/// What happens when no member can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnExhausted {
    /// Answer 503 with Retry-After.
    Reject,
    /// Send to the member whose cooldown ends soonest.
    LeastBad,
    /// Send by strategy as if all were closed.
    FailOpen,
    /// Go on with another pool. Chains end: cycles are refused.
    FallbackPool(PoolName),
    /// Wait for a permit, at most this long.
    Queue(Duration),
}

/// How agents of a fleet warn each other about a pool's lanes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Off, observe or act.
    pub mode: FleetMode,
    /// Share of the fresh agents, in (0, 1].
    pub quorum: f64,
    /// Fewest agents.
    pub min_agents: u32,
    /// Largest share of members, in [0, 1].
    pub max_benched: f64,
    /// Who probes.
    pub probe: FleetProbe,
}
