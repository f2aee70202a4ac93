//! The gateway document as it is written. Reading these types alone proves only the shape; the
//! `document` module makes a validated gateway of them.
//!
//! Defaults are named constants beside the fields they belong to, and the descriptions in the JSON
//! Schema are the doc comments here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{GatewayName, LaneName, PoolName, ProviderName};

mod breaker;
mod client;
mod model;
mod pool;
mod provider;
mod route;

pub use breaker::{
    BreakerMode, BreakerSpec, ClosesAt, HalfOpenSpec, HardDownScope, Preset, StreamDeath, TripMode,
    TripSpec, WindowKind,
};
pub use client::{Client, Limits};
pub use model::{Accepts, Model, ReasoningForm, Samplers, TokenField};
pub use pool::{
    Affinity, AffinityMode, BudgetScope, Failover, Fleet, FleetMode, FleetProbe, LastError,
    MarkedIds, Member, OnAuthDown, OnExhausted, Pool, Queue, RetryBudget, Strategy, Translate,
    UpstreamCredentials,
};
pub use provider::{
    ApiKeys, Auth, AuthKind, EmptyAnswer, ErrorMeaning, HeaderValue, Health, HealthMode,
    HttpVersion, Protocol, Protocols, Provider, Proxy, ProxyWithCredentials, SecretRef,
};
pub use route::{Cors, Route};

/// Default values, each beside the text that explains it in the document's reference.
pub mod defaults {
    pub use super::client::{
        BODIES_MAX_BYTES, BODY_MAX_BYTES, BODY_TIMEOUT_SECS, BODY_TOTAL_SECS,
        CALLER_IDLE_TIMEOUT_SECS, HEADER_TIMEOUT_SECS, HOPS_MAX, INBOUND_MAX,
    };
    pub use super::model::{
        CONTENT_IDLE_TIMEOUT_SECS, IDLE_TIMEOUT_SECS, MAX_OUTPUT_TOKENS, STREAM_ATTEMPT_TIMEOUT_MS,
    };
    pub use super::pool::{
        AFFINITY_HEADER, FAILOVER_HOPS_MAX, FAILOVER_TIMEOUT_SECS, FLEET_AGENTS_MIN,
        FLEET_BENCHED_MAX, FLEET_QUORUM, MEMBER_WEIGHT, RETRY_BACKOFF_MS, RETRY_BUDGET_MIN_PER_SEC,
    };
    pub use super::provider::{CONNECT_TIMEOUT_SECS, HEALTH_INTERVAL_SECS, HEALTH_TIMEOUT_SECS};
}

/// Largest value of counts such as `max_concurrent`.
pub const COUNT_MAX: u32 = 1_000_000;
/// Largest value of budgets such as `max_requests`: what JSON readers everywhere hold exactly.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// One document describes one gateway: its providers, lanes, pools and who may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Lanekeeper gateway")]
pub struct Document {
    /// Name of the gateway: lower-case letters, digits and hyphens, at most 63.
    pub gateway: GatewayName,
    /// Labels of the gateway, for people and for filters.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Upstream APIs by name.
    #[serde(default)]
    pub providers: BTreeMap<ProviderName, Provider>,
    /// Lanes by name: each is one model on one provider.
    #[serde(default)]
    pub models: BTreeMap<LaneName, Model>,
    /// Pools by name. Callers use the name of a pool as a model name.
    #[serde(default)]
    pub pools: BTreeMap<PoolName, Pool>,
    /// What pools without a setting of their own get.
    #[serde(default)]
    pub defaults: Defaults,
    /// Who may call. An empty list lets in anyone who reaches the port.
    #[serde(default)]
    pub clients: Vec<Client>,
    /// Names that callers use and nobody declared. The first that matches serves, after exact names.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Which pages may call from a browser.
    #[serde(default)]
    pub cors: Cors,
    /// Bounds on what the agent takes in.
    #[serde(default)]
    pub limits: Limits,
    /// Hosts, addresses or networks (CIDR) that may be private and may be reached by plain http.
    #[serde(default)]
    pub allow_private_hosts: Vec<String>,
}

/// What pools without a setting of their own get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// The breaker of pools without one, and of direct routes. A pool's own block replaces this one
    /// as a whole.
    pub breaker: BreakerSpec,
}
