//! The shape of `/stats`: lanes with their cells, and pools. Reading it changes nothing.

mod words;

use crate::lanes::cells::CellSlot;
use crate::lanes::lane::Lane;
use crate::lanes::provider::Provider;
use lanekeeper_breaker::{Selectable, State, View};
use lanekeeper_model::{LaneName, PoolName, ProviderName};
use serde::Serialize;
use std::sync::Arc;
use std::time::Instant;

/// The `lanes`, `pools` and `providers` parts of `/stats`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// Every lane of the served revision, by name.
    pub lanes: Vec<LaneStats>,
    /// Every pool of the served revision, by name.
    pub pools: Vec<PoolStats>,
    /// Every provider with a breaker of its own, by name.
    pub providers: Vec<ProviderStats>,
}

/// One lane.
#[derive(Debug, Clone, Serialize)]
pub struct LaneStats {
    /// The lane's name.
    pub lane: LaneName,
    /// Its provider.
    pub provider: ProviderName,
    /// It has a credential and budget, and one of its cells would take a request.
    pub usable: bool,
    /// It cannot serve until something outside the agent changes.
    pub dead: bool,
    /// Why `usable` is false for a reason that time alone does not cure.
    pub dead_reason: Option<String>,
    /// Attempts that run now.
    pub inflight: u32,
    /// Most attempts at once; null = unbounded.
    pub max_concurrent: Option<u32>,
    /// Permits left; null = unbounded.
    pub permits_available: Option<u32>,
    /// Lifetime budget; null = unbounded.
    pub max_requests: Option<u64>,
    /// Spent of the budget.
    pub requests_spent: u64,
    /// Attempts that succeeded.
    pub ok: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts whose request was at fault.
    pub client_fault: u64,
    /// The lane's cells, one per pool; the empty pool name is the direct route.
    pub cells: Vec<CellStats>,
}

/// One provider with a breaker of its own, which stops all its lanes.
#[derive(Debug, Clone, Serialize)]
pub struct ProviderStats {
    /// The provider's name.
    pub provider: ProviderName,
    /// Its cells: one, or one per endpoint.
    pub cells: Vec<CellStats>,
}

/// One cell.
#[derive(Debug, Clone, Serialize)]
pub struct CellStats {
    /// The cell's pool; left out for a provider's own cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// The one endpoint it judges; null = all of them.
    pub endpoint: Option<&'static str>,
    /// `closed`, `open` or `half_open`.
    pub state: &'static str,
    /// Seconds in this state.
    pub state_age_secs: f64,
    /// Seconds until an open cell lets a probe through; 0 otherwise.
    pub cooldown_remaining_s: f64,
    /// Seconds the cell stays parked; 0 when it is not.
    pub parked_remaining_s: f64,
    /// Failures in a row.
    pub streak: u32,
    /// How often the cell opened.
    pub trips: u64,
    /// Results in the sliding window.
    pub window: WindowStats,
    /// The latest cause of a failure.
    pub cause: Option<CauseStats>,
    /// Why the cell is as it is, in a sentence; null when there is nothing to say.
    pub why: Option<String>,
    /// The operator's override in force.
    #[serde(rename = "override")]
    pub override_action: Option<String>,
    /// Seconds until that override ends by itself.
    pub override_remaining_s: Option<f64>,
    /// Seconds the fleet's hint stays in force.
    pub advisory: Option<f64>,
}

/// Results of a cell's window.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct WindowStats {
    /// Successes.
    pub ok: u64,
    /// Failures.
    pub failed: u64,
}

/// Why a cell failed last.
#[derive(Debug, Clone, Serialize)]
pub struct CauseStats {
    /// Kind in snake case.
    pub kind: String,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
    /// How often it was seen.
    pub count: u64,
}

/// One pool.
#[derive(Debug, Clone, Serialize)]
pub struct PoolStats {
    /// The pool's name.
    pub pool: PoolName,
    /// Requests that wait for a permit.
    pub queued: u32,
    /// Its lanes, in the order of the document.
    pub members: Vec<LaneName>,
}

impl LaneStats {
    /// The lane as it is now.
    pub(crate) fn of(lane: &Lane, now: Instant) -> Self {
        let view = lane.state.view();
        let spent = || {
            let spent = !lane.state.has_budget();
            spent.then(|| "the lifetime budget is spent".to_owned())
        };
        let dead_reason = lane.provider.dead_reason(false).or_else(spent);
        Self {
            lane: lane.name().clone(),
            provider: lane.provider.name.clone(),
            usable: is_usable(lane, now),
            dead: dead_reason.is_some(),
            dead_reason: dead_reason.or_else(|| down_reason(lane, now)),
            inflight: view.inflight,
            max_concurrent: view.max_concurrent,
            permits_available: view.permits_available,
            max_requests: view.max_requests,
            requests_spent: view.requests_spent,
            ok: view.ok,
            failed: view.failed,
            client_fault: view.client_fault,
            cells: lane
                .cells
                .iter()
                .map(|cell| CellStats::of(cell, now))
                .collect(),
        }
    }
}

/// The providers that have a breaker of their own.
pub(crate) fn of_providers(providers: &[Arc<Provider>], now: Instant) -> Vec<ProviderStats> {
    let own = providers.iter().filter(|one| one.cells.is_some());
    own.map(|one| ProviderStats {
        provider: one.name.clone(),
        cells: one
            .own_cells()
            .map(|cell| CellStats::of(cell, now))
            .collect(),
    })
    .collect()
}

/// Why a lane is down for something that only people can mend.
fn down_reason(lane: &Lane, now: Instant) -> Option<String> {
    let views: Vec<View> = telling_cells(lane)
        .chain(lane.provider.own_cells())
        .map(|cell| cell.view(now))
        .collect();
    let hard_down = views
        .iter()
        .find(|view| view.hard_down)
        .and_then(|view| view.cause)
        .map(words::hard_down);
    let ordered = || {
        let mut overridden = views.iter().filter(|view| view.state == State::Open);
        overridden.find_map(|view| view.override_.as_ref().map(words::ordered))
    };
    hard_down.or_else(ordered)
}

/// The cells that say whether a lane can be used: those of its pools, or of its direct route when
/// it is in none.
fn telling_cells(lane: &Lane) -> impl Iterator<Item = &Arc<CellSlot>> {
    let pooled = |cell: &Arc<CellSlot>| cell.pool().is_some_and(|pool| !pool.is_direct());
    let is_pooled = lane.cells.iter().any(pooled);
    lane.cells
        .iter()
        .filter(move |cell| !is_pooled || pooled(cell))
}

/// True while the lane would take a request.
pub(crate) fn is_usable(lane: &Lane, now: Instant) -> bool {
    let admits = |cell: &Arc<CellSlot>| !matches!(cell.selectable(now).0, Selectable::No { .. });
    let provider_admits = lane.provider.cells.is_none() || lane.provider.own_cells().any(admits);
    lane.provider.is_usable(false)
        && lane.state.has_budget()
        && provider_admits
        && telling_cells(lane).any(admits)
}

impl CellStats {
    /// The cell as it is now.
    fn of(cell: &CellSlot, now: Instant) -> Self {
        let (view, window, opened) = cell.story(now);
        Self {
            pool: cell.pool().cloned(),
            endpoint: cell.endpoint(),
            why: words::why(&view, window, opened.as_ref()),
            advisory: view.advisory_remaining.map(|left| left.as_secs_f64()),
            state: view.state.as_str(),
            state_age_secs: view.state_age.as_secs_f64(),
            cooldown_remaining_s: view.cooldown_remaining.as_secs_f64(),
            parked_remaining_s: view.parked_remaining.as_secs_f64(),
            streak: view.streak,
            trips: view.trips,
            window: WindowStats {
                ok: view.window_ok,
                failed: view.window_failed,
            },
            cause: view.cause.map(|cause| CauseStats {
                kind: cause.kind.as_str().to_owned(),
                status: cause.status,
                count: view.cause_count,
            }),
            override_action: crate::lanes::cells::override_action(&view),
            override_remaining_s: view
                .override_
                .as_ref()
                .map(|order| order.remaining.as_secs_f64()),
        }
    }
}
