//! One request of a caller, counted exactly once however it ends.

use crate::clients::Caller;
use crate::clock;
use crate::lanes::pool::PoolState;
use crate::observe::metrics::RequestOutcome;
use crate::observe::trace::RequestTrace;
use crate::request::shutdown_deadline::ShutdownDeadline;
use lanekeeper_model::Totals;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The agent's request counts since it started.
#[derive(Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    ok: AtomicU64,
    failed: AtomicU64,
    failovers: AtomicU64,
    exhausted: AtomicU64,
    inflight: AtomicU64,
    panics: AtomicU64,
}

impl Counters {
    /// Counts a panic in the service of one request.
    pub(crate) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Panics since the agent started.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// The counts as the report carries them.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            requests: self.requests.load(Ordering::Relaxed),
            ok: self.ok.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            failovers: self.failovers.load(Ordering::Relaxed),
            exhausted: self.exhausted.load(Ordering::Relaxed),
            inflight: self.inflight.load(Ordering::Relaxed),
        }
    }
}

/// A request that is being served. Dropping it without [`RequestGuard::end`] means the caller left,
/// or that the agent does or failed.
pub(crate) struct RequestGuard {
    counters: Arc<Counters>,
    pool: Option<Arc<PoolState>>,
    caller: Option<Caller>,
    shutdown: ShutdownDeadline,
    trace: Option<RequestTrace>,
    began: Instant,
    ended: bool,
}

impl RequestGuard {
    /// Takes one of `most` places at a time; `None` when all are taken. `cut` is set when the
    /// agent's grace for running requests is over.
    pub(crate) fn begin(
        counters: &Arc<Counters>,
        most: usize,
        shutdown: ShutdownDeadline,
        now: Instant,
    ) -> Option<Box<Self>> {
        counters.requests.fetch_add(1, Ordering::Relaxed);
        let before = counters.inflight.fetch_add(1, Ordering::AcqRel);
        // On the heap, because it passes through several futures that would each hold it.
        let request = Box::new(Self {
            counters: Arc::clone(counters),
            pool: None,
            caller: None,
            shutdown,
            trace: None,
            began: now,
            ended: false,
        });
        if before < most as u64 {
            Some(request)
        } else {
            request.end(RequestOutcome::Exhausted);
            None
        }
    }

    /// The caller's own place is held as long as the request.
    pub(crate) fn hold(&mut self, caller: Caller) {
        self.caller = Some(caller);
    }

    /// The request's span lives as long as the request.
    pub(crate) fn traced(&mut self, trace: Option<RequestTrace>) {
        self.trace = trace;
    }

    /// The request's span.
    pub(crate) fn trace(&self) -> Option<&RequestTrace> {
        self.trace.as_ref()
    }

    /// Set when the request has to end, whatever it waits for.
    pub(crate) fn shutdown(&self) -> ShutdownDeadline {
        self.shutdown.clone()
    }

    /// The request counts for this pool from now on.
    pub(crate) fn enter(&mut self, pool: &Arc<PoolState>) {
        pool.enter();
        if let Some(before) = self.pool.replace(Arc::clone(pool)) {
            before.leave();
        }
    }

    /// Counts a hop to another member.
    pub(crate) fn count_failover(&self, reason: &'static str) {
        self.counters.failovers.fetch_add(1, Ordering::Relaxed);
        if let Some(pool) = &self.pool {
            pool.count_failover(reason);
        }
    }

    /// The caller gets its first content now.
    pub(crate) fn first_content(&self, now: Instant) {
        if let Some(pool) = &self.pool {
            pool.metrics.first_content(self.since(now));
        }
    }

    /// Where the request counts.
    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The first attempt goes out now; `waited` is what the caller took to send its body.
    pub(crate) fn dispatched(&self, waited: Duration, now: Instant) {
        if let Some(pool) = &self.pool {
            let own = self.since(now).saturating_sub(waited);
            pool.metrics.overhead(own);
        }
    }

    /// Books the request's end.
    pub(crate) fn end(mut self, outcome: RequestOutcome) {
        self.book(outcome);
    }

    fn since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    fn book(&mut self, outcome: RequestOutcome) {
        self.ended = true;
        if let Some(trace) = &self.trace {
            trace.ended(outcome);
        }
        let counters = &self.counters;
        match outcome {
            RequestOutcome::Ok => {
                counters.ok.fetch_add(1, Ordering::Relaxed);
            }
            RequestOutcome::Failed => {
                counters.failed.fetch_add(1, Ordering::Relaxed);
            }
            RequestOutcome::Exhausted => {
                counters.failed.fetch_add(1, Ordering::Relaxed);
                counters.exhausted.fetch_add(1, Ordering::Relaxed);
            }
            RequestOutcome::ClientFault | RequestOutcome::Cancelled => {}
        }
        if let Some(pool) = &self.pool {
            pool.count_request(outcome, self.since(clock::now()));
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if !self.ended {
            self.book(if self.shutdown.is_set() || std::thread::panicking() {
                RequestOutcome::Failed
            } else {
                RequestOutcome::Cancelled
            });
        }
        self.counters.inflight.fetch_sub(1, Ordering::AcqRel);
        if let Some(pool) = &self.pool {
            pool.leave();
        }
    }
}
