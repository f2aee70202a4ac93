//! Lanes: one model on one provider.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ProviderName;

/// Default of `attempt_timeout_ms`.
pub const ATTEMPT_TIMEOUT_MS: u64 = 10_000;
/// Default of `idle_timeout_secs`.
pub const IDLE_TIMEOUT_SECS: f64 = 120.0;

/// A lane: one model on one provider, with its own limit and budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The provider it runs on.
    pub provider: ProviderName,
    /// The provider's name of the model. Default: the entry's own name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 256))]
    pub upstream_model: Option<String>,
    /// Most requests at a time, over all pools. Null = unbounded.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::COUNT_MAX))]
    pub max_concurrent: Option<u32>,
    /// Most requests in the agent's lifetime. Null = unbounded.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::INTEGER_MAX))]
    pub max_requests: Option<u64>,
    /// Largest context in tokens. Null = unknown, never excluded on length.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::INTEGER_MAX))]
    pub context_max: Option<u64>,
    /// Milliseconds for connect and headers. Null = only the pool's budget.
    #[serde(default = "attempt_timeout_ms")]
    #[schemars(range(min = 1, max = 86400000))]
    pub attempt_timeout_ms: Option<u64>,
    /// Milliseconds to the first content. Null = only the pool's budget.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86400000))]
    pub first_content_timeout_ms: Option<u64>,
    /// Seconds of silence in mid-stream that end it. Comments and pings do not count as life.
    #[serde(default = "idle_timeout_secs")]
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub idle_timeout_secs: f64,
}

fn attempt_timeout_ms() -> Option<u64> {
    Some(ATTEMPT_TIMEOUT_MS)
}

fn idle_timeout_secs() -> f64 {
    IDLE_TIMEOUT_SECS
}
