//! A pool of one revision, and how it chooses the member for an attempt.
//!
//! The order matters: a member is judged by cheap reads first, the strategy picks one, then the
//! permit is taken and only then the ticket. A lane without permits therefore never uses up the
//! one probe of a half-open cell.

pub(crate) mod affinity;
mod budget;
mod exhaustion;
pub(crate) mod rotation;
mod select;

use crate::lanes::cells::{CellSet, CellSlot};
use crate::lanes::lane::Lane;
use crate::lanes::lane::state::Permit;
use crate::observe::metrics::{PoolMetrics, RequestOutcome};
use budget::RetryBucket;
pub(crate) use exhaustion::Exhaustion;
use lanekeeper_model::gateway::{
    Affinity, Failover, OnAuthDown, OnExhausted, Protocol, Strategy, Timeouts, UpstreamCredentials,
};
use lanekeeper_model::{PoolName, PoolTotals};
use lanekeeper_protocol::Dialect;
use parking_lot::Mutex;
use rotation::Rotation;
pub(crate) use select::{Chosen, Demand};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A pool of one revision. A direct route is a pool of one member without a name.
pub(crate) struct Pool {
    pub(crate) name: PoolName,
    pub(crate) members: Vec<Member>,
    pub(crate) strategy: Strategy,
    /// Silence before the first content after which a stream is opened to its caller.
    pub(crate) keepalive_after: Option<Duration>,
    /// The last lane's own answer is relayed when every member failed.
    pub(crate) relays_last_error: bool,
    pub(crate) failover: Failover,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) on_exhausted: OnExhausted,
    pub(crate) on_auth_down: OnAuthDown,
    pub(crate) upstream_credentials: UpstreamCredentials,
    /// Members that speak another protocol than the caller may serve.
    pub(crate) translates: bool,
    /// Ids of what a provider keeps for one account say which lane gave them out.
    pub(crate) marks_ids: bool,
    pub(crate) rotation: Mutex<Rotation>,
    pub(crate) state: Arc<PoolState>,
}

/// What a pool keeps across revisions.
pub(crate) struct PoolState {
    pub(crate) metrics: PoolMetrics,
    queued: AtomicU32,
    serving: AtomicU64,
    failovers: AtomicU64,
    /// The control plane knows that requests are turned away.
    exhaustion_known: AtomicBool,
    /// Notified when it does not.
    changed: Arc<Notify>,
    retries: Mutex<RetryBucket>,
}

impl PoolState {
    pub(crate) fn new(metrics: PoolMetrics, changed: Arc<Notify>) -> Self {
        Self {
            metrics,
            queued: AtomicU32::new(0),
            retries: Mutex::default(),
            serving: AtomicU64::new(0),
            failovers: AtomicU64::new(0),
            exhaustion_known: AtomicBool::new(false),
            changed,
        }
    }

    /// Counts a request that this pool serves, until [`PoolState::leave`].
    pub(crate) fn enter(&self) {
        self.serving.fetch_add(1, Ordering::Relaxed);
    }

    /// The request is over, or another pool's.
    pub(crate) fn leave(&self) {
        self.serving.fetch_sub(1, Ordering::Relaxed);
    }

    /// Requests being served.
    pub(crate) fn serving(&self) -> u64 {
        self.serving.load(Ordering::Relaxed)
    }

    /// Counts a hop to another member.
    pub(crate) fn count_failover(&self, reason: &'static str) {
        self.failovers.fetch_add(1, Ordering::Relaxed);
        self.metrics.failover(reason);
    }

    /// Counts a finished request and its whole time.
    pub(crate) fn count_request(&self, outcome: RequestOutcome, took: Duration) {
        self.metrics.request(outcome, took);
        // The first one is worth a report at once. The others wait for the next: a fleet in trouble
        // must not flood its control plane as well.
        if outcome == RequestOutcome::Exhausted
            && !self.exhaustion_known.swap(true, Ordering::AcqRel)
        {
            self.changed.notify_one();
        }
    }

    /// A report says, or does not say, that requests are turned away.
    pub(crate) fn note_reported(&self, exhausted: bool) {
        self.exhaustion_known.store(exhausted, Ordering::Release);
    }

    /// What came of its requests since the agent started.
    pub(crate) fn totals(&self) -> PoolTotals {
        PoolTotals {
            failovers: self.failovers.load(Ordering::Relaxed),
            ..self.metrics.totals()
        }
    }

    /// Requests that wait for a permit now.
    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Acquire)
    }

    /// Counts one waiting request until the returned value is dropped.
    pub(crate) fn wait(self: &Arc<Self>) -> Waiting {
        self.queued.fetch_add(1, Ordering::AcqRel);
        Waiting(Arc::clone(self))
    }
}

/// One request in a pool's queue.
pub(crate) struct Waiting(Arc<PoolState>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A lane as a member of one pool.
pub(crate) struct Member {
    pub(crate) lane: Arc<Lane>,
    pub(crate) cells: CellSet,
    pub(crate) weight: f64,
    /// Listed under the pool's exclusions: never selected.
    pub(crate) excluded: bool,
    pub(crate) context_max: Option<u64>,
    pub(crate) timeouts: Timeouts,
}

impl Member {
    /// The cell that judges requests of `endpoint`.
    pub(crate) fn cell(&self, endpoint: &str) -> &Arc<CellSlot> {
        self.cells.of(endpoint)
    }

    /// The longest time one attempt may take to show its headers, which a probe's lease covers.
    pub(crate) fn lease(&self) -> Duration {
        let headers = self.timeouts.streaming_headers;
        headers.max(self.timeouts.whole_headers).unwrap_or_default()
    }

    fn permit(&self, in_turn: bool) -> Option<Permit> {
        if in_turn {
            self.lane.state.try_permit_in_turn()
        } else {
            self.lane.state.try_permit()
        }
    }
}

impl Pool {
    /// A call makes its first attempt here.
    pub(crate) fn pay_for_retries(&self, now: Instant) {
        if self.failover.retry_budget.is_some() {
            self.state.retries.lock().pay_in(now);
        }
    }

    /// A call wants to make a further attempt here; false when the pool's budget is spent.
    pub(crate) fn may_retry(&self, now: Instant) -> bool {
        let Some(budget) = &self.failover.retry_budget else {
            return true;
        };
        let mut bucket = self.state.retries.lock();
        let has_one = bucket.take(budget.ratio, budget.min_per_sec, now);
        drop(bucket);
        if !has_one {
            self.state.metrics.retry_refused();
        }
        has_one
    }

    /// The protocols of its members, for a message.
    pub(crate) fn protocols(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self
            .members
            .iter()
            .flat_map(|member| member.lane.provider.protocols.iter())
            .map(Protocol::as_str)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// True when some member does not speak `protocol`: answers of its may have been translated.
    pub(crate) fn mixes(&self, protocol: Protocol) -> bool {
        self.translates
            && self
                .members
                .iter()
                .any(|member| !member.lane.provider.protocols.speaks(protocol))
    }

    /// True when some member can be asked in translation what a caller of `dialect` asks.
    pub(crate) fn is_reached_by(&self, dialect: Dialect) -> bool {
        self.translates
            && self
                .members
                .iter()
                .any(|member| member.lane.is_reached_by(dialect))
    }

    /// True when some member speaks `protocol`.
    pub(crate) fn speaks(&self, protocol: Protocol) -> bool {
        self.members
            .iter()
            .any(|member| member.lane.provider.protocols.speaks(protocol))
    }
}
