//! A gateway after validation: every reference resolved, every number a `Duration` or an integer,
//! every breaker block a policy. Values of these types come only from the `document` module.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_breaker::Policy;
use serde_json::Value;

use crate::ids::{CellName, GatewayName, LaneName, PoolName, ProviderName};
pub use crate::spec::{
    Accepts, BudgetScope, EmptyAnswer, ErrorMeaning, FleetMode, FleetProbe, HeaderValue,
    HealthMode, HttpVersion, MarkedIds, OnAuthDown, Preset, Protocol, ReasoningForm, Samplers,
    SecretRef, Strategy, TokenField, Translate, UpstreamCredentials,
};

mod address;
mod pool;
mod provider;
mod route;

pub use address::{AddressClass, AddressGuard, AllowedHosts};
pub use pool::{Affinity, Failover, Fleet, Member, OnExhausted, Pool, RetryBudget};
pub use provider::{Auth, BaseUrl, Health, Protocols, Provider, Proxy, Scheme};
pub use route::{Cors, Pattern, Route};

/// A validated gateway.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Its name.
    pub name: GatewayName,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Providers by name.
    pub providers: BTreeMap<ProviderName, Arc<Provider>>,
    /// Lanes by name.
    pub lanes: BTreeMap<LaneName, Arc<Lane>>,
    /// Pools by name.
    pub pools: BTreeMap<PoolName, Arc<Pool>>,
    /// Policy of the cells of direct routes.
    pub direct_breaker: Arc<Policy>,
    /// Who may call; empty = anyone.
    pub clients: Vec<Client>,
    /// Names that nobody declared, in the order they are tried.
    pub routes: Vec<Route>,
    /// Which pages may call from a browser.
    pub cors: Cors,
    /// Bounds on what the agent takes in.
    pub limits: Limits,
}

impl Gateway {
    /// Whether any pool has a member that could be selected. A write that leaves a serving gateway
    /// without one must say that it means it (`allow_empty`).
    pub fn has_usable_pool(&self) -> bool {
        self.pools
            .values()
            .any(|pool| pool.usable_members().next().is_some())
    }

    /// Whether any pool of a stored document has a member that could be selected, as far as it can
    /// be read: later rules may refuse what was once accepted.
    pub fn document_has_usable_pool(document: &Value) -> bool {
        let pools = document.get("pools").and_then(Value::as_object);
        pools.into_iter().flatten().any(|(_, pool)| is_usable(pool))
    }

    /// The pool of the first route that matches a name nobody declared.
    pub fn route(&self, name: &str) -> Option<&PoolName> {
        let route = self.routes.iter().find(|it| it.pattern.matches(name))?;
        Some(&route.pool)
    }

    /// Every cell this gateway has on an agent, sorted: one for each member of each pool, one for
    /// the direct route of each lane, and one for each provider with a breaker of its own.
    pub fn cells(&self) -> Vec<CellName> {
        let direct = self.lanes.values().map(|lane| CellName {
            pool: PoolName::direct(),
            lane: lane.name.clone(),
            provider: lane.provider.clone(),
        });
        let pooled = self.pools.values().flat_map(|pool| {
            pool.members.iter().map(|member| CellName {
                pool: pool.name.clone(),
                lane: member.lane.clone(),
                provider: member.provider.clone(),
            })
        });
        let with_breaker = self.providers.values().filter(|it| it.breaker.is_some());
        let own = with_breaker.map(|provider| CellName {
            pool: PoolName::direct(),
            lane: LaneName::none(),
            provider: provider.name.clone(),
        });
        let mut cells: Vec<CellName> = direct.chain(pooled).chain(own).collect();
        cells.sort();
        cells
    }
}

/// Whether a pool of a document has a member that could be selected.
fn is_usable(pool: &Value) -> bool {
    let exclusions = pool
        .pointer("/failover/exclusions")
        .and_then(Value::as_array);
    let is_excluded = |target: &Value| exclusions.is_some_and(|it| it.contains(target));
    let members = pool.get("members").and_then(Value::as_array);
    members.into_iter().flatten().any(|member| {
        let weight = member.get("weight").and_then(Value::as_f64);
        weight.is_none_or(|weight| weight > 0.0)
            && member.get("target").is_some_and(|it| !is_excluded(it))
    })
}

/// A lane: one model on one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its name.
    pub name: LaneName,
    /// Its provider.
    pub provider: ProviderName,
    /// What the provider calls the model.
    pub upstream_model: String,
    /// Most requests at a time over all pools; `None` = unbounded.
    pub max_concurrent: Option<u32>,
    /// Most requests in the agent's lifetime; `None` = unbounded.
    pub max_requests: Option<u64>,
    /// Largest context in tokens; `None` = unknown.
    pub context_max: Option<u64>,
    /// The waits of an attempt.
    pub timeouts: Timeouts,
    /// What the model takes.
    pub accepts: Accepts,
    /// Sent as the bound of an answer where the protocol demands one and the caller gave none.
    pub max_output_tokens: u64,
}

/// The waits of one attempt, told apart: a healthy provider may be slow in one and not in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Connect and headers of a call that streams; `None` = only the failover budget.
    pub streaming_headers: Option<Duration>,
    /// Connect and headers of a call that does not stream, whose headers come with the whole answer;
    /// `None` = only the failover budget.
    pub whole_headers: Option<Duration>,
    /// To the first content of a stream; `None` = only the failover budget.
    pub first_content: Option<Duration>,
    /// In mid-stream without any byte.
    pub idle: Duration,
    /// In mid-stream without content, comments and pings aside.
    pub content_idle: Duration,
}

impl Timeouts {
    /// The wait for headers.
    pub fn headers(&self, streaming: bool) -> Option<Duration> {
        if streaming {
            self.streaming_headers
        } else {
            self.whole_headers
        }
    }
}

/// A caller with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// SHA-256 of its key.
    pub key_sha256: [u8; 32],
    /// Pools and lanes it may use, by the name a caller gives; `None` = all.
    pub pools: Option<BTreeSet<PoolName>>,
    /// Most requests at a time; `None` = unbounded.
    pub max_concurrent: Option<u32>,
}

impl Client {
    /// True when the caller may use the pool or lane of this name.
    pub fn may_use(&self, name: &str) -> bool {
        self.pools.as_ref().is_none_or(|pools| pools.contains(name))
    }
}

/// Bounds on what the agent takes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest request body.
    pub body_max_bytes: usize,
    /// Most requests at a time.
    pub inbound_max: usize,
    /// Bound on a caller's headers.
    pub header_timeout: Duration,
    /// How long a kept connection may be idle between two requests.
    pub idle_timeout: Duration,
    /// Longest silence while a caller sends its body.
    pub body_timeout: Duration,
    /// Bound on a caller's whole body.
    pub body_total: Duration,
    /// Most bytes of request bodies at a time, over all requests; never under `body_max_bytes`.
    pub bodies_max_bytes: usize,
    /// Most gateways of this kind that a request may have passed before this one.
    pub hops_max: u32,
}
