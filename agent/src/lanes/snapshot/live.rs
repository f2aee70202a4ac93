//! What outlives a revision: the state behind names, for as long as the names stay.

use crate::clients::ClientLoad;
use crate::lanes::cells::{CellSet, CellSlot, Changes, Label};
use crate::lanes::lane::state::LaneState;
use crate::lanes::overrides::ActiveOverrides;
use crate::lanes::pool::PoolState;
use crate::observe::metrics::{CellSeries, Metrics};
use crate::upstream::ProxyEnvironment;
use lanekeeper_breaker::Policy;
use lanekeeper_model::gateway::{BaseUrl, Gateway, Lane};
use lanekeeper_model::{LaneName, PoolName, ProviderName};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

/// Live state by name. It is locked while a revision is compiled, never by a request.
#[derive(Default)]
pub(crate) struct Live {
    lanes: HashMap<LaneName, Arc<LaneState>>,
    cells: HashMap<(PoolName, LaneName, Endpoint), Arc<CellSlot>>,
    provider_cells: HashMap<(ProviderName, Endpoint), Arc<CellSlot>>,
    /// What the revision that is being compiled has asked for.
    named: Named,
    pools: HashMap<PoolName, Arc<PoolState>>,
    clients: HashMap<String, Arc<ClientLoad>>,
    fingerprints: HashMap<ProviderName, [u8; 32]>,
    places: Places,
    /// The overrides and advisories in force.
    pub(crate) overrides: ActiveOverrides,
}

/// The one endpoint a cell judges; `None` for all.
type Endpoint = Option<&'static str>;

/// Keys of the cells that one revision has.
#[derive(Default)]
struct Named {
    cells: HashSet<(PoolName, LaneName, Endpoint)>,
    provider_cells: HashSet<(ProviderName, Endpoint)>,
}

/// Where each lane and provider of the latest revision is.
#[derive(Default)]
struct Places {
    lanes: HashMap<LaneName, BaseUrl>,
    providers: HashMap<ProviderName, BaseUrl>,
}

impl Places {
    fn of(gateway: &Gateway) -> Self {
        let at = |provider: &ProviderName| {
            let provider = gateway.providers.get(provider)?;
            Some(provider.base_url.clone())
        };
        let lanes = { gateway.lanes.values() }
            .filter_map(|lane| Some((lane.name.clone(), at(&lane.provider)?)));
        let providers = { gateway.providers.keys() }
            .filter_map(|provider| Some((provider.clone(), at(provider)?)));
        Self {
            lanes: lanes.collect(),
            providers: providers.collect(),
        }
    }
}

/// True when `name` was elsewhere before.
fn has_moved<N: Eq + Hash>(
    before: &HashMap<N, BaseUrl>,
    now: &HashMap<N, BaseUrl>,
    name: &N,
) -> bool {
    match (before.get(name), now.get(name)) {
        (Some(before), Some(now)) => before != now,
        (None, _) | (_, None) => false,
    }
}

/// What new state is wired to.
pub(crate) struct Wiring<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) changed: &'a Arc<Changes>,
    /// What the environment says about proxies.
    pub(crate) proxies: &'a ProxyEnvironment,
    pub(crate) now: Instant,
}

impl Live {
    /// The lane's state, with the limits of `lane`.
    pub(crate) fn lane(&mut self, lane: &Lane) -> Arc<LaneState> {
        if let Some(state) = self.lanes.get(&lane.name) {
            state.set_limits(lane.max_concurrent, lane.max_requests);
            return Arc::clone(state);
        }
        let state = Arc::new(LaneState::new(
            lane.name.clone(),
            lane.max_concurrent,
            lane.max_requests,
        ));
        self.lanes.insert(lane.name.clone(), Arc::clone(&state));
        state
    }

    /// True while the served revision declares the lane.
    pub(crate) fn has_lane(&self, lane: &LaneName) -> bool {
        self.lanes.contains_key(lane)
    }

    /// The cells of a (pool, lane) pair, obeying `policy` from now on: one, or one for each of
    /// `endpoints`, as the policy says.
    pub(crate) fn cells(
        &mut self,
        pool: &PoolName,
        lane: &LaneName,
        policy: &Arc<Policy>,
        endpoints: &[&'static str],
        wiring: &Wiring<'_>,
    ) -> CellSet {
        set_of(policy, endpoints, |endpoint| {
            let key = (pool.clone(), lane.clone(), endpoint);
            self.named.cells.insert(key.clone());
            if let Some(cell) = self.cells.get(&key) {
                cell.apply_policy(Arc::clone(policy), wiring.now);
                return Arc::clone(cell);
            }
            let cell = Arc::new(CellSlot::new(
                Label::Member {
                    pool: pool.clone(),
                    lane: lane.clone(),
                },
                endpoint,
                Arc::clone(policy),
                Some(CellSeries::Member(
                    wiring.metrics.cell(pool, lane, endpoint),
                )),
                Arc::clone(wiring.changed),
                wiring.now,
            ));
            self.cells.insert(key, Arc::clone(&cell));
            cell
        })
    }

    /// The provider's own cells, obeying `policy` from now on.
    pub(crate) fn provider_cells(
        &mut self,
        provider: &ProviderName,
        policy: &Arc<Policy>,
        endpoints: &[&'static str],
        wiring: &Wiring<'_>,
    ) -> CellSet {
        set_of(policy, endpoints, |endpoint| {
            let key = (provider.clone(), endpoint);
            self.named.provider_cells.insert(key.clone());
            if let Some(cell) = self.provider_cells.get(&key) {
                cell.apply_policy(Arc::clone(policy), wiring.now);
                return Arc::clone(cell);
            }
            let cell = Arc::new(CellSlot::new(
                Label::Provider(provider.clone()),
                endpoint,
                Arc::clone(policy),
                Some(CellSeries::Provider(
                    wiring.metrics.provider_cell(provider, endpoint),
                )),
                Arc::clone(wiring.changed),
                wiring.now,
            ));
            self.provider_cells.insert(key, Arc::clone(&cell));
            cell
        })
    }

    /// What the pool keeps across revisions.
    pub(crate) fn pool(&mut self, pool: &PoolName, wiring: &Wiring<'_>) -> Arc<PoolState> {
        Arc::clone(self.pools.entry(pool.clone()).or_insert_with(|| {
            let changed = Arc::clone(wiring.changed.notify());
            Arc::new(PoolState::new(wiring.metrics.pool(pool), changed))
        }))
    }

    /// The running count of a client.
    pub(crate) fn client(&mut self, name: &str) -> Arc<ClientLoad> {
        Arc::clone(self.clients.entry(name.to_owned()).or_default())
    }

    /// Drops the cells of every lane and provider that is at another base URL than in the revision
    /// before: what was found out about one place says nothing about another. Permits, budgets and
    /// counts belong to the name and stay.
    pub(crate) fn forget_moved(&mut self, gateway: &Gateway, metrics: &Metrics) {
        let before = std::mem::replace(&mut self.places, Places::of(gateway));
        let now = &self.places;
        self.cells.retain(|(_, lane, _), cell| {
            let moved = has_moved(&before.lanes, &now.lanes, lane);
            if let (true, Some(series)) = (moved, cell.series()) {
                metrics.remove_series(series);
            }
            !moved
        });
        self.provider_cells.retain(|(provider, _), cell| {
            let moved = has_moved(&before.providers, &now.providers, provider);
            if let (true, Some(series)) = (moved, cell.series()) {
                metrics.remove_series(series);
            }
            !moved
        });
    }

    /// Remembers a provider's credential. True when it replaces a different one.
    pub(crate) fn credential_is_new(
        &mut self,
        provider: &ProviderName,
        fingerprint: Option<[u8; 32]>,
    ) -> bool {
        let Some(fingerprint) = fingerprint else {
            return false;
        };
        self.fingerprints
            .insert(provider.clone(), fingerprint)
            .is_some_and(|before| before != fingerprint)
    }

    /// Drops the state and the series of every name that `gateway` no longer has.
    pub(crate) fn retain(&mut self, gateway: &Gateway, metrics: &Metrics) {
        let named = std::mem::take(&mut self.named);
        self.cells.retain(|key, cell| {
            let keep = named.cells.contains(key);
            if let (false, Some(series)) = (keep, cell.series()) {
                metrics.remove_series(series);
            }
            keep
        });
        self.lanes.retain(|name, _| {
            let keep = gateway.lanes.contains_key(name);
            if !keep {
                metrics.remove_lane(name);
            }
            keep
        });
        self.pools.retain(|name, pool| {
            let keep = name.is_direct() || gateway.pools.contains_key(name);
            if !keep {
                metrics.remove_pool(name, &pool.metrics);
            }
            keep
        });
        self.provider_cells.retain(|key, cell| {
            let keep = named.provider_cells.contains(key);
            if let (false, Some(series)) = (keep, cell.series()) {
                metrics.remove_series(series);
            }
            keep
        });
        self.fingerprints
            .retain(|name, _| gateway.providers.contains_key(name));
        self.clients
            .retain(|name, _| gateway.clients.iter().any(|client| client.name == *name));
    }
}

fn set_of(
    policy: &Policy,
    endpoints: &[&'static str],
    mut cell: impl FnMut(Endpoint) -> Arc<CellSlot>,
) -> CellSet {
    let split = policy
        .per_endpoint
        .then(|| CellSet::per_endpoint(endpoints, |endpoint| cell(Some(endpoint))))
        .flatten();
    split.unwrap_or_else(|| CellSet::one(cell(None)))
}
