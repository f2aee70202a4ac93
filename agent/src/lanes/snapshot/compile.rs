//! Turns a validated gateway into a snapshot, on top of the state that lives on.

use super::live::{Live, Wiring};
use super::{Applied, Snapshot};
use crate::clients::Clients;
use crate::lanes::lane::Lane;
use crate::lanes::pool::rotation::Rotation;
use crate::lanes::pool::{Member, Pool};
use crate::lanes::provider::{Credential, Provider};
use crate::secrets;
use crate::upstream::{self, Proxy, ProxyEnvironment, Target};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use http::{HeaderValue, Uri};
use lanekeeper_model::gateway::{
    self, Failover, Gateway, MarkedIds, OnAuthDown, OnExhausted, Protocol, Protocols, Scheme,
    SecretRef, Strategy, Translate, UpstreamCredentials,
};
use lanekeeper_model::{LaneName, PoolName, ProviderName};
use lanekeeper_protocol::state::LaneMark;
use lanekeeper_protocol::{Dialect, Operation, endpoint, vendor};
use parking_lot::Mutex;
use secrecy::ExposeSecret as _;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The failover budget of direct routes, which have no pool to say otherwise.
const DIRECT_TIMEOUT: Duration = Duration::from_secs(600);

/// Compiles `gateway`. Cells, permits, budgets and counts of names that stay are kept, but for the
/// cells of what is at another base URL now.
pub(crate) fn compile(
    gateway: &Gateway,
    applied: Applied,
    previous: Option<&Snapshot>,
    live: &mut Live,
    wiring: &Wiring<'_>,
) -> Snapshot {
    live.forget_moved(gateway, wiring.metrics);
    let providers: BTreeMap<&ProviderName, Arc<Provider>> = gateway
        .providers
        .values()
        .map(|provider| (&provider.name, compile_provider(provider, live, wiring)))
        .collect();
    let mut lanes: BTreeMap<&LaneName, Arc<Lane>> = BTreeMap::new();
    for (number, lane) in gateway.lanes.values().enumerate() {
        let Some(provider) = providers.get(&lane.provider) else {
            continue;
        };
        let compiled = compile_lane(number, lane, provider, gateway, live, wiring);
        lanes.insert(&lane.name, Arc::new(compiled));
    }
    let mut names = HashMap::new();
    for (name, lane) in &lanes {
        let Some(declared) = gateway.lanes.get(*name) else {
            continue;
        };
        let direct = Arc::new(direct_route(declared, lane, gateway, live, wiring));
        names.insert(
            format!("{}/{name}", lane.provider.name),
            Arc::clone(&direct),
        );
        names.insert(name.to_string(), direct);
    }
    let pools: BTreeMap<PoolName, Arc<Pool>> = gateway
        .pools
        .values()
        .map(|pool| {
            let before = previous.and_then(|previous| previous.pools.get(&pool.name));
            let compiled = compile_pool(pool, &lanes, before.map(Arc::as_ref), live, wiring);
            (pool.name.clone(), Arc::new(compiled))
        })
        .collect();
    // A pool is found before a lane of the same name, which validation does not let happen.
    for (name, pool) in &pools {
        names.insert(name.to_string(), Arc::clone(pool));
    }
    let routes = gateway.routes.iter().filter_map(|route| {
        let pool = pools.get(&route.pool)?;
        Some((route.pattern.clone(), Arc::clone(pool)))
    });
    let routes = routes.collect();
    let clients = Clients::new(gateway.clients.clone(), |name| live.client(name));
    live.retain(gateway, wiring.metrics);
    Snapshot {
        applied,
        names,
        pools,
        lanes: lanes.into_values().collect(),
        providers: providers.into_values().collect(),
        clients,
        limits: gateway.limits.clone(),
        cors: gateway.cors.clone(),
        routes,
        unserved: unserved(gateway),
    }
}

fn compile_provider(
    provider: &Arc<gateway::Provider>,
    live: &mut Live,
    wiring: &Wiring<'_>,
) -> Arc<Provider> {
    Arc::new(Provider {
        name: provider.name.clone(),
        protocols: provider.protocols.clone(),
        target: compile_target(provider, wiring.proxies),
        error_map: provider.error_map.clone(),
        empty_answer: provider.empty_answer,
        credential: Credential::new(provider),
        health: provider.health.clone(),
        cells: provider.breaker.as_ref().map(|policy| {
            live.provider_cells(
                &provider.name,
                policy,
                &endpoint_names(&provider.protocols),
                wiring,
            )
        }),
    })
}

/// Where the provider is and how it is reached, or why that is no usable place.
fn compile_target(
    provider: &gateway::Provider,
    proxies: &ProxyEnvironment,
) -> Result<Target, String> {
    let shown = |error: upstream::Error| error.to_string();
    let base_url = &provider.base_url;
    let target = Target::new(
        base_url,
        provider.address_guard.clone(),
        provider.connect_timeout,
        provider.http_version,
    )
    .map_err(shown)?;
    let proxy = match &provider.proxy {
        gateway::Proxy::Never => None,
        gateway::Proxy::Environment if base_url.scheme == Scheme::Http => None,
        gateway::Proxy::Environment => proxies
            .proxy_to(&base_url.host, base_url.port)
            .map_err(shown)?,
        gateway::Proxy::Through {
            host,
            port,
            credentials,
        } => {
            let authorization = credentials.as_ref().map(proxy_authorization).transpose()?;
            Some(Proxy::new(host, *port, authorization).map_err(shown)?)
        }
    };
    Ok(match proxy {
        Some(proxy) => target.through(proxy),
        None => target,
    })
}

/// The header that lets the agent into a proxy, from a secret `user:password`.
fn proxy_authorization(reference: &SecretRef) -> Result<HeaderValue, String> {
    let secret = secrets::resolve(reference).secret?;
    let encoded = BASE64.encode(secret.expose_secret());
    HeaderValue::try_from(format!("Basic {encoded}")).map_err(|error| error.to_string())
}

fn compile_lane(
    number: usize,
    lane: &gateway::Lane,
    provider: &Arc<Provider>,
    gateway: &Gateway,
    live: &mut Live,
    wiring: &Wiring<'_>,
) -> Lane {
    let endpoints_of = endpoint_names(&provider.protocols);
    let direct = (&PoolName::direct(), &gateway.direct_breaker);
    let pooled = gateway
        .pools
        .values()
        .filter(|pool| pool.members.iter().any(|member| member.lane == lane.name))
        .map(|pool| (&pool.name, &pool.breaker));
    let cells = std::iter::once(direct)
        .chain(pooled)
        .flat_map(|(pool, policy)| {
            let set = live.cells(pool, &lane.name, policy, &endpoints_of, wiring);
            set.iter().map(Arc::clone).collect::<Vec<_>>()
        })
        .collect();
    Lane {
        number: u32::try_from(number).unwrap_or(u32::MAX),
        state: live.lane(lane),
        provider: Arc::clone(provider),
        upstream_model: lane.upstream_model.clone(),
        mark: LaneMark::of(&lane.name),
        accepts: lane.accepts,
        max_output_tokens: lane.max_output_tokens,
        timeouts: lane.timeouts,
        header: HeaderValue::from_str(&lane.name)
            .unwrap_or_else(|_| HeaderValue::from_static("unprintable")),
        endpoints: endpoints(provider, &lane.upstream_model, gateway),
        cells,
    }
}

/// The operations of a provider's protocols.
fn dialects(protocols: &Protocols) -> impl Iterator<Item = Dialect> {
    protocols.iter().map(vendor).flat_map(|vendor| {
        let others = (0..=u8::MAX).zip(vendor.others());
        { vendor.operations().iter().copied() }
            .chain(others.map(|(place, _)| Operation::Other(place)))
            .map(move |operation| Dialect::new(vendor, operation))
    })
}

/// The names of the operations, for cells of their own. Those of the primary protocol come first.
fn endpoint_names(protocols: &Protocols) -> Vec<&'static str> {
    let mut names = Vec::new();
    for name in dialects(protocols).map(Dialect::endpoint_name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn endpoints(provider: &Provider, model: &str, gateway: &Gateway) -> Vec<(Dialect, Uri)> {
    let Some(declared) = gateway.providers.get(&provider.name) else {
        return Vec::new();
    };
    dialects(&provider.protocols)
        .filter_map(|dialect| {
            let path = endpoint::path(&declared.base_url.path_prefix, dialect, model);
            let path = endpoint::with_parameters(path, &declared.query);
            Some((dialect, path.parse().ok()?))
        })
        .collect()
}

fn direct_route(
    declared: &gateway::Lane,
    lane: &Arc<Lane>,
    gateway: &Gateway,
    live: &mut Live,
    wiring: &Wiring<'_>,
) -> Pool {
    let name = PoolName::direct();
    Pool {
        members: vec![Member {
            lane: Arc::clone(lane),
            cells: live.cells(
                &name,
                &declared.name,
                &gateway.direct_breaker,
                &endpoint_names(&lane.provider.protocols),
                wiring,
            ),
            weight: 1.0,
            excluded: false,
            context_max: declared.context_max,
            timeouts: declared.timeouts,
        }],
        strategy: Strategy::Weighted,
        failover: Failover {
            timeout: DIRECT_TIMEOUT,
            max_hops: 0,
            exclusions: BTreeSet::new(),
            hold: Duration::ZERO,
            same_lane_retries: 0,
            retry_backoff: Duration::ZERO,
            retry_budget: None,
        },
        affinity: None,
        keepalive_after: None,
        relays_last_error: true,
        on_exhausted: OnExhausted::Reject,
        on_auth_down: OnAuthDown::Failover,
        upstream_credentials: UpstreamCredentials::Own,
        translates: true,
        marks_ids: false,
        rotation: Mutex::new(Rotation::new(1)),
        state: live.pool(&name, wiring),
        name,
    }
}

fn compile_pool(
    pool: &gateway::Pool,
    lanes: &BTreeMap<&LaneName, Arc<Lane>>,
    before: Option<&Pool>,
    live: &mut Live,
    wiring: &Wiring<'_>,
) -> Pool {
    let members: Vec<Member> = pool
        .members
        .iter()
        .filter_map(|member| {
            let lane = lanes.get(&member.lane)?;
            let endpoints = endpoint_names(&lane.provider.protocols);
            Some(Member {
                lane: Arc::clone(lane),
                cells: live.cells(&pool.name, &member.lane, &pool.breaker, &endpoints, wiring),
                weight: f64::from(member.weight),
                excluded: pool.failover.exclusions.contains(&member.lane),
                context_max: member.context_max,
                timeouts: member.timeouts,
            })
        })
        .collect();
    Pool {
        rotation: Mutex::new(carry_rotation(&members, before)),
        members,
        strategy: pool.strategy,
        failover: pool.failover.clone(),
        affinity: pool.affinity.clone(),
        keepalive_after: pool.keepalive_after,
        relays_last_error: pool.relays_last_error,
        on_exhausted: pool.on_exhausted.clone(),
        on_auth_down: pool.on_auth_down,
        upstream_credentials: pool.upstream_credentials,
        translates: pool.translate == Translate::On,
        marks_ids: pool.state == MarkedIds::On && has_several_accounts(pool),
        state: live.pool(&pool.name, wiring),
        name: pool.name.clone(),
    }
}

/// True when the pool's lanes belong to several providers, each an account of its own.
fn has_several_accounts(pool: &gateway::Pool) -> bool {
    let mut members = pool.usable_members();
    let first = members.next().map(|member| &member.provider);
    members.any(|member| Some(&member.provider) != first)
}

/// The balance of members that stay, so that frequent revisions do not favour the first member.
fn carry_rotation(members: &[Member], before: Option<&Pool>) -> Rotation {
    let Some(before) = before else {
        return Rotation::new(members.len());
    };
    let rotation = before.rotation.lock();
    let current = members
        .iter()
        .map(|member| {
            before
                .members
                .iter()
                .position(|old| old.lane.name() == member.lane.name())
                .map_or(0.0, |position| rotation.current(position))
        })
        .collect();
    Rotation::resume(current)
}

/// What the document may say and this version does not do.
fn unserved(gateway: &Gateway) -> Vec<String> {
    let mut found = Vec::new();
    let untranslated = { gateway.pools.values() }.filter(|pool| pool.translate == Translate::Off);
    for pool in untranslated {
        let name = &pool.name;
        let spoken: BTreeSet<BTreeSet<&str>> = pool
            .members
            .iter()
            .filter_map(|member| gateway.providers.get(&member.provider))
            .map(|provider| provider.protocols.iter().map(Protocol::as_str).collect())
            .collect();
        if spoken.len() > 1 {
            let protocols: BTreeSet<&str> = spoken.into_iter().flatten().collect();
            found.push(format!(
                "pools.{name} mixes protocols ({}) and has translate: off; each caller is served only \
                 by members that speak its own",
                protocols.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
    }
    found
}
