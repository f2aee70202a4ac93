//! Handles to the series of one pool or one cell, resolved once.

use super::histogram::Histogram;
use super::labels::{
    CellDispositionLabels, CellLabels, PoolReasonLabels, ProviderLabels, ProviderTransitionLabels,
    TransitionLabels,
};
use super::{AttemptOutcome, RequestOutcome};
use lanekeeper_breaker::{State, Transition};
use lanekeeper_model::{AttemptCounts, PoolTotals, RequestCounts, Times};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Series of a family that are created on first use and remembered for removal.
///
/// Only paths that are slow anyway (a failure, a transition) use it.
pub(super) struct LazySeries<L> {
    family: Family<L, Counter>,
    created: Mutex<Vec<L>>,
    retired: AtomicBool,
}

impl<L: Clone + Hash + Eq> LazySeries<L> {
    pub(super) fn new(family: Family<L, Counter>) -> Self {
        Self {
            family,
            created: Mutex::new(Vec::new()),
            retired: AtomicBool::new(false),
        }
    }

    fn inc(&self, labels: L) {
        let mut created = self.created.lock();
        // A request that outlives its lane must not bring the series back.
        if self.retired.load(Ordering::Acquire) {
            return;
        }
        self.family.get_or_create(&labels).inc();
        if !created.contains(&labels) {
            created.push(labels);
        }
    }

    pub(super) fn retire(&self) {
        let mut created = self.created.lock();
        self.retired.store(true, Ordering::Release);
        for labels in created.drain(..) {
            self.family.remove(&labels);
        }
    }
}

/// Handles of one pool's series.
#[derive(Clone)]
pub(crate) struct PoolMetrics {
    pub(super) requests: [Counter; RequestOutcome::ALL.len()],
    pub(super) request_seconds: Histogram,
    pub(super) first_content_seconds: Histogram,
    pub(super) overhead_seconds: Histogram,
    pub(super) disconnects: Counter,
    pub(super) retry_refusals: Counter,
    pub(super) failovers: Arc<LazySeries<PoolReasonLabels>>,
    pub(super) pool: String,
}

impl PoolMetrics {
    /// Counts a finished request and its whole time.
    pub(crate) fn request(&self, outcome: RequestOutcome, took: Duration) {
        if let Some(counter) = self.requests.get(outcome as usize) {
            counter.inc();
        }
        self.request_seconds.observe(took);
        if outcome == RequestOutcome::Cancelled {
            self.disconnects.inc();
        }
    }

    /// Records the time from the request's head to its first content.
    pub(crate) fn first_content(&self, took: Duration) {
        self.first_content_seconds.observe(took);
    }

    /// Records what the agent itself took before the first dispatch.
    pub(crate) fn overhead(&self, took: Duration) {
        self.overhead_seconds.observe(took);
    }

    /// What was counted of requests so far. Hops are counted by reason, and not here.
    pub(crate) fn totals(&self) -> PoolTotals {
        let count = |outcome: RequestOutcome| {
            let counter = self.requests.get(outcome as usize);
            counter.map_or(0, Counter::get)
        };
        PoolTotals {
            requests: RequestCounts {
                ok: count(RequestOutcome::Ok),
                client_fault: count(RequestOutcome::ClientFault),
                failed: count(RequestOutcome::Failed),
                exhausted: count(RequestOutcome::Exhausted),
                cancelled: count(RequestOutcome::Cancelled),
            },
            failovers: 0,
            first_content: Times::from(self.first_content_seconds.counts()),
            whole: Times::from(self.request_seconds.counts()),
        }
    }

    /// Counts a further attempt that the pool's retry budget did not allow.
    pub(crate) fn retry_refused(&self) {
        self.retry_refusals.inc();
    }

    /// Counts a hop to another member and why.
    pub(crate) fn failover(&self, reason: &'static str) {
        self.failovers.inc(PoolReasonLabels {
            pool: self.pool.clone(),
            reason,
        });
    }
}

/// Handles of one cell's series.
pub(crate) struct CellMetrics {
    pub(super) labels: CellLabels,
    pub(super) attempts: [Counter; AttemptOutcome::ALL.len()],
    pub(super) state: Gauge<f64, AtomicU64>,
    pub(super) trips: Counter,
    pub(super) rejects: Counter,
    pub(super) advised: Gauge,
    pub(super) spared: Counter,
    pub(super) canaries: Counter,
    pub(super) failures: LazySeries<CellDispositionLabels>,
    pub(super) transitions: LazySeries<TransitionLabels>,
}

impl CellMetrics {
    fn attempt(&self, outcome: AttemptOutcome) {
        if let Some(counter) = self.attempts.get(outcome as usize) {
            counter.inc();
        }
    }

    fn failure(&self, disposition: &'static str) {
        self.failures.inc(CellDispositionLabels {
            pool: self.labels.pool.clone(),
            lane: self.labels.lane.clone(),
            endpoint: self.labels.endpoint,
            disposition,
        });
    }

    fn transition(&self, change: &Transition) {
        self.transitions.inc(TransitionLabels {
            pool: self.labels.pool.clone(),
            lane: self.labels.lane.clone(),
            endpoint: self.labels.endpoint,
            from: change.from.as_str(),
            to: change.to.as_str(),
            reason: change.reason.as_str(),
            cause: cause_of(change),
            mode: mode_of(change),
        });
    }
}

/// Handles of the series of a provider's own cell.
pub(crate) struct ProviderMetrics {
    pub(super) labels: ProviderLabels,
    pub(super) state: Gauge<f64, AtomicU64>,
    pub(super) trips: Counter,
    pub(super) rejects: Counter,
    pub(super) transitions: LazySeries<ProviderTransitionLabels>,
}

impl ProviderMetrics {
    fn transition(&self, change: &Transition) {
        self.transitions.inc(ProviderTransitionLabels {
            provider: self.labels.provider.clone(),
            endpoint: self.labels.endpoint,
            from: change.from.as_str(),
            to: change.to.as_str(),
            reason: change.reason.as_str(),
            cause: cause_of(change),
            mode: mode_of(change),
        });
    }
}

/// What a change was put down to; nothing where no failure led to it.
fn cause_of(change: &Transition) -> &'static str {
    let failed = change.to == State::Open;
    let cause = change.cause.filter(|_| failed);
    cause.map_or("", |cause| cause.kind.as_str())
}

/// In observe mode nothing is refused: the series says what would have been.
fn mode_of(change: &Transition) -> &'static str {
    if change.observed {
        "observe"
    } else {
        "enforce"
    }
}

/// The series of one cell, by whose it is.
pub(crate) enum CellSeries {
    /// Of a (pool, lane) pair.
    Member(CellMetrics),
    /// Of a provider.
    Provider(ProviderMetrics),
}

impl CellSeries {
    /// Counts a finished attempt and, when it did not succeed, what it proved. Attempts are their
    /// member's: a provider's cell hears of the same ones.
    pub(crate) fn attempt(&self, outcome: AttemptOutcome, disposition: Option<&'static str>) {
        let Self::Member(member) = self else {
            return;
        };
        member.attempt(outcome);
        if let Some(disposition) = disposition {
            member.failure(disposition);
        }
    }

    /// What was counted of attempts so far; nothing for a provider's cell.
    pub(crate) fn attempts(&self) -> AttemptCounts {
        let Self::Member(member) = self else {
            return AttemptCounts::default();
        };
        let count = |outcome: AttemptOutcome| {
            let counter = member.attempts.get(outcome as usize);
            counter.map_or(0, Counter::get)
        };
        AttemptCounts {
            success: count(AttemptOutcome::Success),
            transient: count(AttemptOutcome::Transient),
            hard_down: count(AttemptOutcome::HardDown),
            neutral: count(AttemptOutcome::Neutral),
        }
    }

    /// Counts a request that found the cell refusing.
    pub(crate) fn reject(&self) {
        match self {
            Self::Member(member) => member.rejects.inc(),
            Self::Provider(provider) => provider.rejects.inc(),
        };
    }

    /// Counts attempts that the fleet's advice kept from the lane.
    pub(crate) fn spare(&self, attempts: u64) {
        if let Self::Member(member) = self {
            member.spared.inc_by(attempts);
        }
    }

    /// Counts an attempt that finds out whether the fleet's advice is wrong.
    pub(crate) fn canary(&self) {
        if let Self::Member(member) = self {
            member.canaries.inc();
        }
    }

    /// Sets whether the fleet's advice is in force; called when the series are read.
    pub(crate) fn set_advised(&self, advised: bool) {
        if let Self::Member(member) = self {
            member.advised.set(i64::from(advised));
        }
    }

    /// Counts a change of state. What a cell would have done that only watches is no trip.
    pub(crate) fn transition(&self, change: &Transition) {
        let trips = match self {
            Self::Member(member) => {
                member.transition(change);
                &member.trips
            }
            Self::Provider(provider) => {
                provider.transition(change);
                &provider.trips
            }
        };
        if change.from == State::Closed && change.to == State::Open && !change.observed {
            trips.inc();
        }
    }

    /// Sets the state gauge; called when the series are read.
    pub(crate) fn set_state(&self, value: f64) {
        match self {
            Self::Member(member) => member.state.set(value),
            Self::Provider(provider) => provider.state.set(value),
        };
    }
}
