//! A cell as one of the fleet's: it asks before it probes, and learns from others' probes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{Cause, CauseKind, RefusalReason, Selectable, State, Transition};
use lanekeeper_model::fleet::is_local_cause;
use lanekeeper_model::lease::{CLOSING_RAMP, ProbeVerdict, ProbedLane, lease_life};
use lanekeeper_model::report::CauseReport;

use super::lease::Due;
use super::{CellSlot, Guarded, Label};
use crate::lanes::leases::LeaseDesk;

/// Where a cell asks for leases, and what its probes are about.
#[derive(Debug, Clone)]
pub(crate) struct Coordinated {
    pub(crate) desk: Arc<LeaseDesk>,
    /// See [`ProbeVerdict::subject`].
    pub(crate) subject: u64,
}

impl CellSlot {
    /// The cell's probes are about something else from now on: its credential changed.
    pub(crate) fn set_subject(&self, subject: u64) {
        if let Some(coordinated) = &mut self.guarded.lock().coordinated {
            coordinated.subject = subject;
        }
    }

    /// From now on the cell's probes are the fleet's, or its own.
    pub(crate) fn coordinate(&self, coordinated: Option<Coordinated>) {
        self.is_coordinated
            .store(coordinated.is_some(), Ordering::Relaxed);
        let mut guarded = self.guarded.lock();
        if coordinated.is_none() {
            guarded.cell.await_verdict(None);
            guarded.lease = Default::default();
        }
        guarded.coordinated = coordinated;
    }

    /// Whether a verdict or a lease of this lane is about the cell.
    pub(crate) fn is_probed_as(&self, lane: &ProbedLane) -> bool {
        let is_it = match &self.label {
            Label::Member { lane: own, .. } => *own == lane.lane,
            Label::Provider(_) => false,
        };
        is_it
            && self.endpoint == lane.endpoint.as_deref()
            && self.is_coordinated.load(Ordering::Relaxed)
    }

    fn probed_lane(&self) -> Option<ProbedLane> {
        match &self.label {
            Label::Member { lane, .. } => Some(ProbedLane {
                lane: lane.clone(),
                endpoint: self.endpoint.map(str::to_owned),
            }),
            Label::Provider(_) => None,
        }
    }

    /// What selection may do with a cell that would probe, or that waits for another agent's probe.
    /// The first request after the cooldown asks for the lease.
    pub(super) fn asked_first(
        &self,
        guarded: &mut Guarded,
        selectable: Selectable,
        now: Instant,
    ) -> Selectable {
        let may_probe = match selectable {
            Selectable::Probe => true,
            Selectable::No { reason, .. } => reason == RefusalReason::FleetProbe,
            Selectable::Yes | Selectable::SoftParked | Selectable::Advised => false,
        };
        if !may_probe {
            return selectable;
        }
        let Some(Coordinated { desk, .. }) = &guarded.coordinated else {
            return selectable;
        };
        let desk = Arc::clone(desk);
        let connected = desk.is_connected();
        if guarded.lease.waits() && !connected {
            // Whoever probed for all cannot say so any more.
            guarded.cell.await_verdict(None);
        }
        let Some(served) = guarded.cell.cooldown_over(now) else {
            return selectable;
        };
        match guarded.lease.due(served + desk.excess(), connected, now) {
            Due::Probe => guarded.cell.selectable(now),
            Due::Ask(until) => {
                let until = until + desk.excess();
                guarded.cell.await_verdict(Some(until));
                if let Some(lane) = self.probed_lane() {
                    let ttl_ms = u64::try_from(served.as_millis()).unwrap_or(u64::MAX);
                    desk.ask(lane, lease_life(ttl_ms));
                }
                Selectable::No {
                    retry_in: Some(until.saturating_duration_since(now)),
                    reason: RefusalReason::FleetProbe,
                }
            }
        }
    }

    /// The next request is to be the fleet's probe.
    pub(crate) fn is_leased(&self, now: Instant) -> bool {
        if !self.is_coordinated.load(Ordering::Relaxed) {
            return false;
        }
        let guarded = self.guarded.lock();
        guarded.lease.is_granted(now) && guarded.cell.cooldown_over(now).is_some()
    }

    /// The lease is this cell's; false when it no longer waits for one.
    pub(crate) fn lease_granted(&self, ttl: Duration, now: Instant) -> bool {
        let mut guarded = self.guarded.lock();
        let takes = guarded.lease.granted(ttl, now);
        if takes {
            guarded.cell.await_verdict(None);
            guarded.cell.ramp_at_least(CLOSING_RAMP);
        }
        takes
    }

    /// Another agent, or another cell of this one, probes.
    pub(crate) fn lease_denied(&self, remaining: Duration, now: Instant) {
        let mut guarded = self.guarded.lock();
        if let Some(until) = guarded.lease.denied(remaining, now) {
            guarded.cell.await_verdict(Some(until));
        }
    }

    /// Learns what another agent's probe proved. What cannot apply here leaves the cell to itself.
    pub(crate) fn learn_verdict(&self, verdict: &ProbeVerdict, now: Instant) {
        let transition = {
            let mut guarded = self.guarded.lock();
            let own_cause = guarded.cell.view(now).cause;
            let is_local = own_cause.is_some_and(|cause| is_local_cause(cause.kind.as_str()));
            let subject = guarded.coordinated.as_ref().map(|it| it.subject);
            if is_local || subject != Some(verdict.subject) {
                if guarded.lease.waits() {
                    guarded.cell.await_verdict(None);
                    guarded.lease = super::lease::Lease::Alone;
                }
                return;
            }
            let age = Duration::from_millis(verdict.age_ms);
            let guarded = &mut *guarded;
            match &verdict.failure {
                None => {
                    let began = now.checked_sub(age).unwrap_or(now);
                    let cell = &mut guarded.cell;
                    cell.fleet_probe_succeeded(began, CLOSING_RAMP, now)
                }
                Some(failure) => {
                    let next = now + Duration::from_millis(verdict.next_ms).min(MAX_EXTENSION);
                    if guarded
                        .cell
                        .fleet_probe_failed(cause_of(failure), next, now)
                    {
                        guarded.lease = Default::default();
                    }
                    None
                }
            }
        };
        if let Some(transition) = &transition {
            self.publish(transition, now);
        }
    }

    /// Tells the fleet what a leased probe proved, once the cell has decided by it.
    pub(super) fn settle_lease(
        &self,
        guarded: &mut Guarded,
        transition: &Transition,
        now: Instant,
    ) {
        let since = guarded.lease.granted_since();
        if transition.to == State::HalfOpen {
            return;
        }
        guarded.lease = Default::default();
        let (Some(since), Some(coordinated), Some(lane)) =
            (since, &guarded.coordinated, self.probed_lane())
        else {
            return;
        };
        let proves_something = transition.from == State::HalfOpen;
        let failure = transition.cause.filter(|_| transition.to == State::Open);
        let is_local = failure.is_some_and(|cause| is_local_cause(cause.kind.as_str()));
        let next = transition.cooldown.unwrap_or_default();
        let verdict = (proves_something && !is_local).then(|| ProbeVerdict {
            lane: lane.clone(),
            subject: coordinated.subject,
            failure: failure.map(|cause| CauseReport {
                kind: cause.kind.as_str().to_owned(),
                status: cause.status,
                count: 1,
            }),
            age_ms: millis(now.saturating_duration_since(since)),
            next_ms: millis(next),
        });
        // Open without a cause would pass for a success.
        let verdict = verdict.filter(|it| (transition.to == State::Open) == it.failure.is_some());
        coordinated.desk.settle(lane, verdict);
    }
}

/// Longest that a verdict keeps a cell open, whatever it says.
const MAX_EXTENSION: Duration = Duration::from_secs(24 * 60 * 60);

/// A cause as another agent reports it; one of a later release is an ordinary failure.
fn cause_of(report: &CauseReport) -> Cause {
    Cause {
        kind: CauseKind::parse(&report.kind).unwrap_or(CauseKind::Status),
        status: report.status,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
