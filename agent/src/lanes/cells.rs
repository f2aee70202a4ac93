//! One breaker cell behind its lock, with everything a change of it sets off.
//!
//! A cell itself neither logs nor counts. The slot does both after the lock is free: one log line,
//! the metrics, and a signal that lets the report go out early.

mod advice;
mod changes;
mod fleet;
mod journal;
mod latency;
mod lease;
mod set;
mod steer;

pub(crate) use advice::Advice;
pub(crate) use changes::Changes;
pub(crate) use fleet::Coordinated;
pub(crate) use set::CellSet;

use crate::clock;
use crate::observe::metrics::{AttemptOutcome, CellSeries};
use crate::proof::{Circumstances, Proof};
use advice::Following;
use journal::Ring;
use lanekeeper_breaker::{
    Admission, Cause, Cell, HardDownScope, Outcome, Override, Policy, Refusal, RefusalReason,
    Selectable, State, Ticket, Transition, View,
};
use lanekeeper_model::journal::JournalLine;
use lanekeeper_model::report::CauseReport;
use lanekeeper_model::{CellReport, LaneName, PoolName, ProviderName};
use latency::Latency;
use lease::Lease;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A cell with its policy, under one lock.
struct Guarded {
    cell: Cell,
    policy: Arc<Policy>,
    /// The override the cell was given last.
    active_override: Option<Override>,
    /// What the cell makes of the fleet's advice.
    following: Following,
    /// What opened the cell, until it closes.
    opened: Option<Transition>,
    /// Where the cell asks whether it may probe; `None` where it probes by itself.
    coordinated: Option<Coordinated>,
    lease: Lease,
    /// What became of the latest attempts; a provider's own cell keeps none.
    journal: Ring,
}

/// One cell of the agent. It lives as long as consecutive revisions name its pool and lane.
pub(crate) struct CellSlot {
    label: Label,
    /// The one endpoint it judges, where there is a cell for each.
    endpoint: Option<&'static str>,
    guarded: Mutex<Guarded>,
    /// `None` where nobody counts.
    series: Option<CellSeries>,
    latency: Latency,
    /// See `Guarded::coordinated`, for those who hold no lock.
    is_coordinated: AtomicBool,
    /// Attempts that advice has kept from the lane, in thousandths.
    spared_thousandths: AtomicU64,
    changed: Arc<Changes>,
}

/// Whose cell it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Label {
    /// The cell of one (pool, lane) pair.
    Member { pool: PoolName, lane: LaneName },
    /// A provider's own cell.
    Provider(ProviderName),
}

impl CellSlot {
    /// A closed cell without history.
    pub(crate) fn new(
        label: Label,
        endpoint: Option<&'static str>,
        policy: Arc<Policy>,
        series: Option<CellSeries>,
        changed: Arc<Changes>,
        now: Instant,
    ) -> Self {
        Self {
            label,
            endpoint,
            guarded: Mutex::new(Guarded {
                cell: Cell::new(Arc::clone(&policy), now),
                policy,
                active_override: None,
                following: Following::default(),
                opened: None,
                coordinated: None,
                lease: Lease::default(),
                journal: Ring::default(),
            }),
            series,
            latency: Latency::default(),
            is_coordinated: AtomicBool::new(false),
            spared_thousandths: AtomicU64::new(0),
            changed,
        }
    }

    /// Everything the cell shows; changes nothing.
    pub(crate) fn view(&self, now: Instant) -> View {
        self.guarded.lock().cell.view(now)
    }

    /// What the cell shows, with the span of its window and what opened it.
    pub(crate) fn story(&self, now: Instant) -> (View, Duration, Option<Transition>) {
        let guarded = self.guarded.lock();
        (
            guarded.cell.view(now),
            guarded.policy.trip.window,
            guarded.opened,
        )
    }

    /// Whether selection may choose the member, and which share of its weight counts.
    pub(crate) fn selectable(&self, now: Instant) -> (Selectable, f64) {
        let mut guarded = self.guarded.lock();
        let selectable = match guarded.cell.selectable(now) {
            Selectable::Advised if guarded.following.is_canary_due(now) => Selectable::Yes,
            other => self.asked_first(&mut guarded, other, now),
        };
        (selectable, guarded.cell.weight_factor(now))
    }

    /// Asks for an attempt.
    pub(crate) fn admit(&self, now: Instant, lease: Duration) -> Admission {
        let (admission, is_canary) = {
            let mut guarded = self.guarded.lock();
            if self.is_coordinated.load(Ordering::Relaxed) {
                let selectable = guarded.cell.selectable(now);
                if let Selectable::No {
                    retry_in,
                    reason: reason @ RefusalReason::FleetProbe,
                } = self.asked_first(&mut guarded, selectable, now)
                {
                    return Admission::Refuse(Refusal { retry_in, reason });
                }
            }
            let admission = guarded.cell.admit(now, lease);
            let passes = matches!(admission, Admission::Pass(_));
            (admission, passes && guarded.following.attempts(now))
        };
        if is_canary && let Some(series) = &self.series {
            series.canary();
        }
        if let Admission::Probe(_, Some(transition)) = &admission {
            self.publish(transition, now);
        }
        admission
    }

    /// Asks for an attempt that goes out whatever the cell says, because no better member is left.
    pub(crate) fn admit_degraded(&self, now: Instant, lease: Duration) -> Admission {
        let admission = self.guarded.lock().cell.admit_degraded(now, lease);
        if let Admission::Probe(_, Some(transition)) = &admission {
            self.publish(transition, now);
        }
        admission
    }

    /// The attempt delivers its first content now.
    pub(crate) fn commit(&self, ticket: &mut Ticket, now: Instant) {
        let transition = self.guarded.lock().cell.commit(ticket, now);
        self.content_came(ticket, now);
        self.publish_if(transition, now);
    }

    /// Notes how long the attempt's first content took. That is all there is to do at the commit of
    /// an answer that is settled as a success in the same moment.
    pub(crate) fn content_came(&self, ticket: &Ticket, now: Instant) {
        self.latency
            .record(now, now.saturating_duration_since(ticket.started()));
    }

    /// The attempt is over and proved something. Returns true when the policy wants every cell of
    /// the lane to hear of it.
    pub(crate) fn settle(
        &self,
        ticket: Ticket,
        proof: Proof,
        circumstances: Circumstances,
        now: Instant,
    ) -> bool {
        let began = ticket.started();
        let (transition, outcome, whole_lane, outranked) = {
            let mut guarded = self.guarded.lock();
            let outcome = proof.outcome(&guarded.policy, circumstances);
            if self.pool().is_some() {
                guarded.journal.record(outcome, began, now);
            }
            let outranked = match outcome {
                Outcome::Success => guarded.succeeds(now),
                Outcome::Transient { .. } | Outcome::HardDown { .. } | Outcome::Neutral => None,
            };
            let whole_lane = matches!(outcome, Outcome::HardDown { .. })
                && guarded.policy.hard_down_scope == HardDownScope::Lane;
            // Only an answer that asks for a delay can park the lane for it.
            let asks = matches!(
                outcome,
                Outcome::Transient {
                    retry_after: Some(_),
                    ..
                }
            );
            let was_parked = asks && guarded.cell.view(now).parked_hard;
            let transition = guarded.cell.settle(ticket, outcome, now, clock::jitter());
            if asks && !was_parked && guarded.cell.view(now).parked_hard {
                self.changed.notify_one();
            }
            (transition, outcome, whole_lane, outranked)
        };
        self.publish_advice(outranked);
        let (attempt, disposition) = match outcome {
            Outcome::Success => (AttemptOutcome::Success, None),
            Outcome::Transient { .. } => (AttemptOutcome::Transient, Some("transient")),
            Outcome::HardDown { .. } => (AttemptOutcome::HardDown, Some("hard_down")),
            Outcome::Neutral => (
                AttemptOutcome::Neutral,
                match proof {
                    Proof::ClientFault { .. } => Some("client_fault"),
                    _ => None,
                },
            ),
        };
        if let Some(series) = &self.series {
            series.attempt(attempt, disposition);
        }
        self.publish_if(transition, now);
        whole_lane
    }

    /// The attempt ended without proving anything.
    pub(crate) fn abandon(&self, ticket: Ticket, now: Instant) {
        let transition = self.guarded.lock().cell.abandon(ticket, now);
        if let Some(series) = &self.series {
            series.attempt(AttemptOutcome::Neutral, None);
        }
        self.publish_if(transition, now);
    }

    /// Counts a request that found the cell refusing.
    pub(crate) fn count_reject(&self) {
        if let Some(series) = &self.series {
            series.reject();
        }
    }

    /// Selection kept this share of an attempt from the lane for the fleet's advice.
    pub(crate) fn spare(&self, share: f64) {
        let thousandths = (share.clamp(0.0, 1.0) * 1000.0).round() as u64;
        let before = self
            .spared_thousandths
            .fetch_add(thousandths, Ordering::Relaxed);
        let whole = before.saturating_add(thousandths) / 1000 - before / 1000;
        if whole > 0
            && let Some(series) = &self.series
        {
            series.spare(whole);
        }
    }

    /// Attempts that advice has kept from the lane since the agent started.
    fn spared(&self) -> u64 {
        self.spared_thousandths.load(Ordering::Relaxed) / 1000
    }

    /// The moving average of the time to first content; `None` when it is unknown or stale.
    pub(crate) fn latency(&self, now: Instant) -> Option<Duration> {
        self.latency.read(now)
    }

    /// Marks the member as being measured, so that not every request of the moment goes there.
    pub(crate) fn explore(&self, now: Instant) {
        self.latency.measure(now);
    }

    /// The cell's pool; `None` for a provider's own cell.
    pub(crate) fn pool(&self) -> Option<&PoolName> {
        match &self.label {
            Label::Member { pool, .. } => Some(pool),
            Label::Provider(_) => None,
        }
    }

    /// Whose cell it is.
    pub(crate) fn label(&self) -> &Label {
        &self.label
    }

    /// The one endpoint it judges; `None` when it judges all.
    pub(crate) fn endpoint(&self) -> Option<&'static str> {
        self.endpoint
    }

    /// The latest outcomes, as a file has them; `now` is `now_ms` by the wall.
    pub(crate) fn journal(&self, now: Instant, now_ms: u64) -> Vec<JournalLine> {
        let Label::Member { pool, lane } = &self.label else {
            return Vec::new();
        };
        let guarded = self.guarded.lock();
        let lines = guarded
            .journal
            .lines((pool, lane), self.endpoint, now, now_ms);
        lines.collect()
    }

    /// The series of this cell, if it has any.
    pub(crate) fn series(&self) -> Option<&CellSeries> {
        self.series.as_ref()
    }

    /// Sets the state gauge; called when the series are read.
    pub(crate) fn show_state(&self, now: Instant) {
        if let Some(series) = &self.series {
            let view = self.view(now);
            series.set_state(state_number(view.state));
            series.set_advised(view.advisory_remaining.is_some());
        }
    }

    /// The cell as the agent's report carries it.
    pub(crate) fn report(&self, provider: &ProviderName, now: Instant) -> CellReport {
        let (pool, lane) = match &self.label {
            Label::Member { pool, lane } => (pool.clone(), lane.clone()),
            Label::Provider(_) => (PoolName::direct(), LaneName::none()),
        };
        let view = self.view(now);
        CellReport {
            pool,
            lane,
            provider: provider.clone(),
            endpoint: self.endpoint.map(str::to_owned),
            state: view.state.into(),
            state_age_ms: millis(view.state_age),
            open_age_ms: millis(view.open_age),
            cooldown_remaining_ms: millis(view.cooldown_remaining),
            parked_remaining_ms: millis(view.parked_remaining),
            streak: view.streak,
            trips: view.trips,
            reopens: view.reopens,
            window_ok: view.window_ok,
            window_failed: view.window_failed,
            cause: view.cause.map(|cause| CauseReport {
                kind: cause.kind.as_str().to_owned(),
                status: cause.status,
                count: view.cause_count,
            }),
            override_action: override_action(&view),
            advisory: view.advisory_remaining.is_some(),
            advisory_spared: self.spared(),
        }
    }

    /// What the cell is called in logs.
    fn title(&self) -> String {
        let endpoint = match self.endpoint {
            Some(endpoint) => format!(" endpoint={endpoint}"),
            None => String::new(),
        };
        match &self.label {
            Label::Member { pool, lane } => format!("pool={pool} lane={lane}{endpoint}"),
            Label::Provider(provider) => format!("provider={provider}{endpoint}"),
        }
    }

    fn publish_if(&self, transition: Option<Transition>, now: Instant) {
        if let Some(transition) = &transition {
            self.publish(transition, now);
        }
    }

    fn publish(&self, transition: &Transition, now: Instant) {
        {
            let mut guarded = self.guarded.lock();
            match transition.to {
                State::Open => guarded.opened = Some(*transition),
                State::Closed => guarded.opened = None,
                State::HalfOpen => {}
            }
            if self.pool().is_some() && !transition.observed {
                guarded.journal.turned(transition.to, transition.cause, now);
            }
            self.settle_lease(&mut guarded, transition, now);
        }
        let (from, to) = (transition.from.as_str(), transition.to.as_str());
        let reason = transition.reason.as_str();
        let (failures, samples) = (transition.failures, transition.samples);
        // In observe mode nothing is refused: the line says what would have been.
        let mode = if transition.observed {
            " mode=observe"
        } else {
            ""
        };
        let cause = match transition.cause.filter(|_| transition.to == State::Open) {
            Some(Cause {
                kind,
                status: Some(status),
            }) => format!(" cause={} status={status}", kind.as_str()),
            Some(Cause { kind, status: None }) => format!(" cause={}", kind.as_str()),
            None => String::new(),
        };
        tracing::info!(
            "breaker {} {from}->{to} reason={reason} failures={failures}/{samples}{cause}{mode}",
            self.title()
        );
        if let Some(series) = &self.series {
            series.transition(transition);
        }
        self.changed
            .record(&self.label, self.endpoint, transition, now);
    }
}

/// The gauge's number for a state.
fn state_number(state: State) -> f64 {
    match state {
        State::Closed => 0.0,
        State::HalfOpen => 0.5,
        State::Open => 1.0,
    }
}

/// The override in force as the report and `/stats` spell it.
pub(crate) fn override_action(view: &View) -> Option<String> {
    view.override_
        .as_ref()
        .map(|active| active.action.as_str().to_owned())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
