//! What one lane owns across pools and revisions: its concurrency limit, its lifetime budget, its
//! counters.
//!
//! A lane lives under its name for as long as consecutive revisions declare it. Limits are changed
//! in place, so requests that run across a swap keep their permits and are still counted.

use lanekeeper_model::LaneName;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::sync::Notify;

/// Limit that stands for "unbounded".
const UNBOUNDED_PERMITS: u32 = u32::MAX;
/// Budget that stands for "unbounded".
const UNBOUNDED_BUDGET: u64 = u64::MAX;

/// The live state of one lane.
pub(crate) struct LaneState {
    name: LaneName,
    /// Attempts that hold a permit now. This is the in-flight count: one fact, one number.
    inflight: AtomicU32,
    limit: AtomicU32,
    spent: AtomicU64,
    budget: AtomicU64,
    /// Requests that wait for a permit; newcomers queue behind them.
    waiting: AtomicU32,
    freed: Notify,
    ok: AtomicU64,
    failed: AtomicU64,
    client_fault: AtomicU64,
}

/// How one finished attempt counts for its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tally {
    /// The lane answered.
    Ok,
    /// The lane failed.
    Failed,
    /// The caller's request was at fault.
    ClientFault,
}

impl LaneState {
    /// A lane nobody has used yet. `None` means unbounded.
    pub(crate) fn new(
        name: LaneName,
        max_concurrent: Option<u32>,
        max_requests: Option<u64>,
    ) -> Self {
        Self {
            name,
            inflight: AtomicU32::new(0),
            limit: AtomicU32::new(max_concurrent.unwrap_or(UNBOUNDED_PERMITS)),
            spent: AtomicU64::new(0),
            budget: AtomicU64::new(max_requests.unwrap_or(UNBOUNDED_BUDGET)),
            waiting: AtomicU32::new(0),
            freed: Notify::new(),
            ok: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            client_fault: AtomicU64::new(0),
        }
    }

    /// The name the lane is declared under.
    pub(crate) fn name(&self) -> &LaneName {
        &self.name
    }

    /// Takes new limits without touching what runs. A lower limit takes effect as permits return.
    pub(crate) fn set_limits(&self, max_concurrent: Option<u32>, max_requests: Option<u64>) {
        let limit = max_concurrent.unwrap_or(UNBOUNDED_PERMITS);
        let before = self.limit.swap(limit, Ordering::AcqRel);
        self.budget
            .store(max_requests.unwrap_or(UNBOUNDED_BUDGET), Ordering::Release);
        if limit > before {
            self.freed.notify_waiters();
        }
    }

    /// A permit, unless all are taken or earlier requests already wait for one.
    pub(crate) fn try_permit(self: &Arc<Self>) -> Option<Permit> {
        if self.waiting.load(Ordering::Acquire) > 0 {
            return None;
        }
        self.take_permit()
    }

    /// A permit for a request whose turn in the queue has come.
    pub(crate) fn try_permit_in_turn(self: &Arc<Self>) -> Option<Permit> {
        self.take_permit()
    }

    fn take_permit(self: &Arc<Self>) -> Option<Permit> {
        let limit = self.limit.load(Ordering::Acquire);
        self.inflight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                (used < limit).then(|| used.saturating_add(1))
            })
            .ok()
            .map(|_| Permit {
                lane: Arc::clone(self),
            })
    }

    /// True when a newcomer would get a permit now.
    pub(crate) fn has_permit(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
            && self.inflight.load(Ordering::Acquire) < self.limit.load(Ordering::Acquire)
    }

    /// Takes one request from the lifetime budget; false when it is used up.
    pub(crate) fn try_spend(&self) -> bool {
        let budget = self.budget.load(Ordering::Acquire);
        self.spent
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |spent| {
                (spent < budget).then(|| spent.saturating_add(1))
            })
            .is_ok()
    }

    /// Gives back a spend whose attempt delivered nothing.
    pub(crate) fn refund(&self) {
        // The pair of a successful `try_spend`, so the count cannot be zero here.
        self.spent.fetch_sub(1, Ordering::AcqRel);
    }

    /// True while the lifetime budget has room.
    pub(crate) fn has_budget(&self) -> bool {
        self.spent.load(Ordering::Acquire) < self.budget.load(Ordering::Acquire)
    }

    /// Joins the queue for this lane's permits until the returned place is dropped; also says how
    /// many stood there before.
    pub(crate) fn queue(self: &Arc<Self>) -> (QueuePlace, u32) {
        let ahead = self.waiting.fetch_add(1, Ordering::AcqRel);
        let place = QueuePlace {
            lane: Arc::clone(self),
        };
        (place, ahead)
    }

    /// Counts one finished attempt.
    pub(crate) fn count(&self, tally: Tally) {
        let counter = match tally {
            Tally::Ok => &self.ok,
            Tally::Failed => &self.failed,
            Tally::ClientFault => &self.client_fault,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything `/stats` shows of the lane itself.
    pub(crate) fn view(&self) -> LaneView {
        let inflight = self.inflight.load(Ordering::Acquire);
        let limit = self.limit.load(Ordering::Acquire);
        let budget = self.budget.load(Ordering::Acquire);
        let bounded = limit != UNBOUNDED_PERMITS;
        LaneView {
            inflight,
            max_concurrent: bounded.then_some(limit),
            permits_available: bounded.then(|| limit.saturating_sub(inflight)),
            max_requests: (budget != UNBOUNDED_BUDGET).then_some(budget),
            requests_spent: self.spent.load(Ordering::Acquire),
            ok: self.ok.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            client_fault: self.client_fault.load(Ordering::Relaxed),
        }
    }

    /// Attempts that run now.
    pub(crate) fn inflight(&self) -> u32 {
        self.inflight.load(Ordering::Acquire)
    }
}

/// A lane's numbers at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaneView {
    pub(crate) inflight: u32,
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) permits_available: Option<u32>,
    pub(crate) max_requests: Option<u64>,
    pub(crate) requests_spent: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) client_fault: u64,
}

/// The right to run one attempt on a lane; dropping it frees the place.
pub(crate) struct Permit {
    lane: Arc<LaneState>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.lane.inflight.fetch_sub(1, Ordering::AcqRel);
        if self.lane.waiting.load(Ordering::Acquire) > 0 {
            self.lane.freed.notify_one();
        }
    }
}

/// A place in a lane's queue. While it is held, newcomers do not overtake.
pub(crate) struct QueuePlace {
    lane: Arc<LaneState>,
}

impl QueuePlace {
    /// Resolves when a permit has come back; waiters are woken one at a time, oldest first.
    pub(crate) async fn freed(&self) {
        self.lane.freed.notified().await;
    }

    /// Hands an unused wake-up to the next in line.
    pub(crate) fn pass_on(&self) {
        if self.lane.inflight.load(Ordering::Acquire) < self.lane.limit.load(Ordering::Acquire) {
            self.lane.freed.notify_one();
        }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.lane.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(max_concurrent: Option<u32>, max_requests: Option<u64>) -> Arc<LaneState> {
        Arc::new(LaneState::new(
            LaneName::from("sonnet"),
            max_concurrent,
            max_requests,
        ))
    }

    #[test]
    fn permits_end_at_the_limit_and_come_back_on_drop() {
        let lane = lane(Some(2), None);
        let first = lane.try_permit();
        let second = lane.try_permit();
        assert!(first.is_some() && second.is_some());
        assert!(lane.try_permit().is_none());
        drop(first);
        assert!(lane.has_permit());
        assert_eq!(lane.view().permits_available, Some(1));
    }

    #[test]
    fn lower_limit_takes_effect_as_permits_return() {
        let lane = lane(Some(2), None);
        let first = lane.try_permit();
        let second = lane.try_permit();
        lane.set_limits(Some(1), None);
        drop(first);
        assert!(lane.try_permit().is_none());
        drop(second);
        assert!(lane.try_permit().is_some());
        assert_eq!(lane.view().inflight, 0);
    }

    #[test]
    fn budget_ends_and_a_refund_reopens_it() {
        let lane = lane(None, Some(1));
        assert!(lane.try_spend());
        assert!(!lane.try_spend());
        lane.refund();
        assert!(lane.has_budget());
        assert_eq!(lane.view().requests_spent, 0);
    }

    #[test]
    fn newcomers_do_not_overtake_the_queue() {
        let lane = lane(Some(1), None);
        let (place, _) = lane.queue();
        assert!(lane.try_permit().is_none());
        let permit = lane.try_permit_in_turn();
        assert!(permit.is_some());
        drop(permit);
        drop(place);
        assert!(lane.try_permit().is_some());
    }
}
