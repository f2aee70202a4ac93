//! Pools: weighted sets of lanes and what happens between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BreakerSpec;
use crate::ids::{LaneName, PoolName};

/// Default of a member's `weight`.
pub const MEMBER_WEIGHT: u32 = 1;
/// Default of `failover.timeout_secs`.
pub const FAILOVER_TIMEOUT_SECS: f64 = 600.0;
/// Default of `failover.max_hops`.
pub const FAILOVER_HOPS_MAX: u32 = 3;
/// Default of `failover.retry_backoff_ms`.
pub const RETRY_BACKOFF_MS: u64 = 100;
/// Default of `failover.retry_budget.min_per_sec`.
pub const RETRY_BUDGET_MIN_PER_SEC: f64 = 10.0;
/// Default of `affinity.header_name`.
pub const AFFINITY_HEADER: &str = "x-session-id";
/// Default of `fleet.quorum`.
pub const FLEET_QUORUM: f64 = 0.5;
/// Default of `fleet.min_agents`.
pub const FLEET_AGENTS_MIN: u32 = 3;
/// Default of `fleet.max_benched`.
pub const FLEET_BENCHED_MAX: f64 = 0.5;

/// A member of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The lane.
    pub target: LaneName,
    /// Its share. 0 = drained: never selected, still listed.
    #[serde(default = "member_weight")]
    #[schemars(range(min = 0, max = 1000000))]
    pub weight: u32,
    /// Overrides the lane's `context_max` in this pool.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::INTEGER_MAX))]
    pub context_max: Option<u64>,
    /// Overrides the lane's `attempt_timeout_ms` in this pool.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86400000))]
    pub attempt_timeout_ms: Option<u64>,
    /// Overrides the lane's `first_content_timeout_ms` in this pool.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86400000))]
    pub first_content_timeout_ms: Option<u64>,
}

fn member_weight() -> u32 {
    MEMBER_WEIGHT
}

/// How a member is selected among those that may serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Smooth weighted round robin.
    #[default]
    Weighted,
    /// The fewest requests in flight for its weight.
    LeastLoaded,
    /// The shortest time to first content, as a moving average.
    Fastest,
}

impl Strategy {
    /// The strategy as the document spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weighted => "weighted",
            Self::LeastLoaded => "least_loaded",
            Self::Fastest => "fastest",
        }
    }
}

/// What happens when a member fails before anything was sent to the caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Failover {
    /// Seconds a request may spend until its first content, over all members.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub timeout_secs: f64,
    /// Most further attempts on other members.
    #[schemars(range(min = 0, max = 100))]
    pub max_hops: u32,
    /// Members that no request is sent to.
    pub exclusions: Vec<LaneName>,
    /// Milliseconds the first content is held back, so that an early death still fails over.
    #[schemars(range(min = 0, max = 60000))]
    pub hold_ms: u64,
    /// Further tries on the same lane for a transient failure without Retry-After.
    #[schemars(range(min = 0, max = 10))]
    pub same_lane_retries: u32,
    /// Base of the full-jitter wait between tries on the same lane, in milliseconds.
    #[schemars(range(min = 0, max = 60000))]
    pub retry_backoff_ms: u64,
    /// Bounds further attempts by the share of requests they may be.
    pub retry_budget: RetryBudget,
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            timeout_secs: FAILOVER_TIMEOUT_SECS,
            max_hops: FAILOVER_HOPS_MAX,
            exclusions: Vec::new(),
            hold_ms: 0,
            same_lane_retries: 0,
            retry_backoff_ms: RETRY_BACKOFF_MS,
            retry_budget: RetryBudget::default(),
        }
    }
}

/// A bound on further attempts, as a share of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryBudget {
    /// Further attempts as a share of the requests, such as 0.2. Null = no such bound.
    #[schemars(range(max = 100.0), extend("exclusiveMinimum" = 0))]
    pub ratio: Option<f64>,
    /// Further attempts a second that are always allowed.
    #[schemars(range(min = 0.0, max = 1000000.0))]
    pub min_per_sec: f64,
    /// Whose attempts are counted together.
    pub scope: BudgetScope,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            ratio: None,
            min_per_sec: RETRY_BUDGET_MIN_PER_SEC,
            scope: BudgetScope::default(),
        }
    }
}

/// Whose attempts a retry budget counts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// Those of one agent.
    #[default]
    Agent,
    /// Those of every agent of the gateway.
    Fleet,
}

/// Whose text a caller gets when every member failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LastError {
    /// The agent's own error.
    Own,
    /// The last lane's answer, unless it is about the configured credential.
    Relay,
    /// The last lane's answer where there is one lane only or the breaker's source does so, else the
    /// agent's own error.
    #[default]
    Auto,
}

/// Whether members that speak another protocol than the caller may serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Translate {
    /// They may: requests and answers are translated.
    #[default]
    On,
    /// Only members that speak the caller's protocol serve.
    Off,
}

/// Whether ids of what a provider keeps for one account say which lane gave them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkedIds {
    /// They do where the pool's lanes belong to several accounts, and requests that name them go
    /// back there.
    #[default]
    On,
    /// Ids pass as they are.
    Off,
}

/// Whether requests of one session prefer one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AffinityMode {
    /// No preference.
    #[default]
    None,
    /// The session named by the header prefers its member while that can serve.
    Session,
}

/// Session affinity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Affinity {
    /// Off, or by session.
    pub mode: AffinityMode,
    /// The header that names the session.
    #[schemars(length(min = 1, max = 63))]
    pub header_name: String,
}

impl Default for Affinity {
    fn default() -> Self {
        Self {
            mode: AffinityMode::default(),
            header_name: AFFINITY_HEADER.to_owned(),
        }
    }
}

/// What happens when no member can serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// Answer 503 with Retry-After.
    Reject,
    /// Send to the member whose cooldown ends soonest.
    LeastBad,
    /// Send by strategy as if all were closed.
    FailOpen,
    /// Go on with another pool.
    FallbackPool(PoolName),
    /// Wait for a permit when members are merely saturated.
    Queue(Queue),
}

/// Waiting for a permit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Longest wait in milliseconds; not over the failover budget.
    #[schemars(range(min = 1, max = 86400000))]
    pub max_ms: u64,
}

/// What the caller gets when a lane's credential is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAuthDown {
    /// Another member serves.
    #[default]
    Failover,
    /// An authentication error in the caller's dialect.
    Surface,
}

/// Whose credential goes upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamCredentials {
    /// The provider's configured one.
    #[default]
    Own,
    /// The caller's.
    Passthrough,
}

/// Whether the fleet warns its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetMode {
    /// Not at all.
    Off,
    /// Advice is computed and shown, not sent.
    #[default]
    Observe,
    /// Advice is sent.
    Act,
}

/// Who probes when a cooldown ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetProbe {
    /// One agent for the fleet.
    Coordinated,
    /// Each agent for itself.
    #[default]
    Local,
}

/// How agents of a fleet warn each other about this pool's lanes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fleet {
    /// Off, observe or act.
    pub mode: FleetMode,
    /// Share of the fresh agents that must have a lane open, over 0 and at most 1.
    #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0))]
    pub quorum: f64,
    /// Fewest agents that must have it open.
    #[schemars(range(min = 1, max = super::COUNT_MAX))]
    pub min_agents: u32,
    /// Largest share of the pool's members that may be advised against, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_benched: f64,
    /// Who probes when a cooldown ends.
    pub probe: FleetProbe,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            mode: FleetMode::default(),
            quorum: FLEET_QUORUM,
            min_agents: FLEET_AGENTS_MIN,
            max_benched: FLEET_BENCHED_MAX,
            probe: FleetProbe::default(),
        }
    }
}

/// A named, weighted set of lanes that callers address as a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The lanes.
    #[schemars(length(min = 1))]
    pub members: Vec<Member>,
    /// How a member is selected.
    #[serde(default)]
    pub strategy: Strategy,
    /// The breaker of each member. Absent or null takes `defaults.breaker`; a block replaces it.
    #[serde(default)]
    pub breaker: Option<BreakerSpec>,
    /// What happens when a member fails.
    #[serde(default)]
    pub failover: Failover,
    /// Seconds without content after which a stream is opened to the caller and kept alive by comments;
    /// failover goes on behind it. Null = never.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub keepalive_after_secs: Option<f64>,
    /// Session affinity.
    #[serde(default)]
    pub affinity: Affinity,
    /// What happens when no member can serve. Absent or null takes what the breaker's preset has.
    #[serde(default)]
    pub on_exhausted: Option<OnExhausted>,
    /// What the caller gets when a lane's credential is refused.
    #[serde(default)]
    pub on_auth_down: OnAuthDown,
    /// Whose text a caller gets when every member failed.
    #[serde(default)]
    pub last_error: LastError,
    /// Whether members that speak another protocol than the caller may serve.
    #[serde(default)]
    pub translate: Translate,
    /// Whether ids of what a provider keeps for one account say which lane gave them out, where the
    /// pool's lanes belong to several.
    #[serde(default)]
    pub state: MarkedIds,
    /// Whose credential goes upstream.
    #[serde(default)]
    pub upstream_credentials: UpstreamCredentials,
    /// How agents of a fleet warn each other.
    #[serde(default)]
    pub fleet: Fleet,
}
