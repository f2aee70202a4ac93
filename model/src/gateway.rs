//! A gateway after validation: every reference resolved, every number a `Duration` or an integer,
//! every breaker block a policy. Values of these types come only from the `document` module.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_breaker::Policy;

use crate::ids::{CellName, GatewayName, LaneName, PoolName, ProviderName};
pub use crate::spec::{
    EmptyAnswer, ErrorMeaning, FleetMode, FleetProbe, HealthMode, HttpVersion, OnAuthDown, Preset,
    Protocol, SecretRef, Strategy, UpstreamCredentials,
};

mod address;
mod pool;
mod provider;

pub use address::{AddressClass, AddressGuard, AllowedHosts};
pub use pool::{Affinity, Failover, Fleet, Member, OnExhausted, Pool};
pub use provider::{BaseUrl, Health, Provider, Scheme};

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
    /// Bounds on what the agent takes in.
    pub limits: Limits,
}

impl Gateway {
    /// Every cell this gateway has on an agent, sorted: one for each member of each pool, and one
    /// for the direct route of each lane.
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
        let mut cells: Vec<CellName> = direct.chain(pooled).collect();
        cells.sort();
        cells
    }
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
    /// Bound on connect and headers; `None` = only the failover budget.
    pub attempt_timeout: Option<Duration>,
    /// Bound on the first content; `None` = only the failover budget.
    pub first_content_timeout: Option<Duration>,
    /// Longest silence in mid-stream.
    pub idle_timeout: Duration,
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
    /// Bound on a caller's body.
    pub body_timeout: Duration,
}
