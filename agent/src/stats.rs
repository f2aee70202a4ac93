//! The shape of `/stats`: lanes with their cells, and pools. Reading it changes nothing.

use lanekeeper_breaker::View;
use lanekeeper_model::{LaneName, PoolName, ProviderName};
use serde::Serialize;

/// The `lanes` and `pools` parts of `/stats`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// Every lane of the served revision, by name.
    pub lanes: Vec<LaneStats>,
    /// Every pool of the served revision, by name.
    pub pools: Vec<PoolStats>,
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

/// One cell.
#[derive(Debug, Clone, Serialize)]
pub struct CellStats {
    /// The cell's pool.
    pub pool: PoolName,
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
    /// The operator's order in force.
    #[serde(rename = "override")]
    pub override_action: Option<String>,
    /// Seconds until that order ends by itself.
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

impl CellStats {
    /// The cell of `pool` as `view` shows it.
    pub(crate) fn new(pool: PoolName, endpoint: Option<&'static str>, view: &View) -> Self {
        Self {
            pool,
            endpoint,
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
            override_action: crate::cells::override_action(view),
            override_remaining_s: view
                .override_
                .as_ref()
                .map(|order| order.remaining.as_secs_f64()),
            advisory: view.advisory_remaining.map(|left| left.as_secs_f64()),
        }
    }
}
