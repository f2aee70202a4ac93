//! The cell: one value per (pool, lane) that owns the state, the window and the deadlines.
//!
//! This file holds what the cell is made of and the moves between its states. The events are in
//! `cell/admit.rs` (may an attempt go?), `cell/settle.rs` (what did it prove?), `cell/steer.rs`
//! (what do operator, policy and fleet want?) and `cell/show.rs` (what is to be seen?).

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cooldown::{cooldown, requested_delay};
use crate::outcome::{Cause, CauseKind};
use crate::overrides::OverrideAction;
use crate::policy::{Mode, Policy};
use crate::transition::{Reason, State, Transition};
use crate::window::Window;
use deadline::{Deadline, Holds};

mod admit;
mod deadline;
mod fleet;
mod settle;
mod show;
mod steer;

/// The breaker of one lane in one pool.
///
/// A plain value: the caller brings the time (monotonic) and the randomness, keeps the cell behind
/// whatever lock it likes and acts on the transitions that come back. Nothing here waits, logs,
/// calls back or, while the cell is closed, allocates. A `now` that runs backwards is harmless.
#[derive(Debug)]
pub struct Cell {
    /// Grows with every state change; a ticket of another generation decides nothing. Starts at
    /// 1, so that 0 marks attempts that are never judged.
    generation: u64,
    machine: Machine,
    mode: Mode,
    /// `trip.slow_call` in nanoseconds.
    slow: Option<NonZeroU64>,
    success_clears_count: bool,
    /// Failures since the last finished answer.
    streak: u32,
    /// Re-openings since the cell was last closed (k).
    reopens: u32,
    holds: Holds,
    active: Option<ActiveOverride>,
    epoch: Instant,
    window: Window,
    policy: Arc<Policy>,
    trips: u64,
    cause: Option<Cause>,
    cause_count: u32,
    /// Since when the state that callers meet holds.
    shown_since: u64,
    /// Since when callers have met no closed cell; means nothing while they do.
    open_since: u64,
    /// When the last hard-down arrived.
    hard_down_at: Option<NonZeroU64>,
    /// Hard-downs of attempts admitted before this moment are about a credential that is gone.
    credential_since: u64,
    /// When the ramp began.
    ramp_from: Option<NonZeroU64>,
    /// The shortest ramp of the next closing, in seconds: set where a fleet closes together.
    ramp_min_secs: u32,
    /// Number of the last probe slot handed out.
    probe_serial: u32,
}

/// The state with the data only that state has. Times are nanoseconds since `Cell::epoch`.
#[derive(Debug)]
enum Machine {
    Closed,
    Open {
        since: u64,
        until: u64,
        hard_down: bool,
    },
    /// Boxed: few cells are half-open, and the others should not carry the space for it.
    HalfOpen(Box<Probing>),
}

/// What a half-open cell keeps.
#[derive(Debug)]
struct Probing {
    /// Slots in use; never more than `half_open.max_probes`, and empty when that is 0.
    slots: Vec<ProbeSlot>,
    successes: u32,
    /// The cooldown just served.
    served: u64,
}

#[derive(Clone, Copy, Debug)]
struct ProbeSlot {
    serial: u32,
    lease_until: u64,
}

/// An override in the cell's own time.
#[derive(Clone, Copy, Debug)]
struct ActiveOverride {
    action: OverrideAction,
    until: u64,
}

/// A moment that has been, as small as the bare number. The cell's first nanosecond counts as its
/// second.
fn past(now: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(now.max(1))
}

/// `trip.slow_call` as the cell compares it. No time at all is the shortest that can be compared.
fn slow_nanos(policy: &Policy) -> Option<NonZeroU64> {
    let slow = policy.trip.slow_call?;
    NonZeroU64::new(nanos(slow).max(1))
}

/// Nanoseconds of a span; one too long to count is cut to the largest number.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Cell {
    /// A closed cell without history.
    pub fn new(policy: Arc<Policy>, now: Instant) -> Self {
        Self {
            generation: 1,
            machine: Machine::Closed,
            mode: policy.mode,
            slow: slow_nanos(&policy),
            success_clears_count: policy.success_clears_count,
            streak: 0,
            reopens: 0,
            holds: Holds::default(),
            active: None,
            epoch: now,
            window: Window::new(policy.trip.window_kind, nanos(policy.trip.window)),
            policy,
            trips: 0,
            cause: None,
            cause_count: 0,
            shown_since: 0,
            open_since: 0,
            hard_down_at: None,
            credential_since: 0,
            ramp_from: None,
            ramp_min_secs: 0,
            probe_serial: 0,
        }
    }

    /// The policy the cell obeys.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The cell's own time: nanoseconds since it was made.
    #[inline]
    fn time(&self, now: Instant) -> u64 {
        let age = now.saturating_duration_since(self.epoch);
        age.as_secs()
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::from(age.subsec_nanos()))
    }

    /// The override that is active at `now`.
    fn active_at(&self, now: u64) -> Option<ActiveOverride> {
        self.active.filter(|active| active.until > now)
    }

    /// Whether an operator has the cell record without tripping.
    fn forced_closed(&self, now: u64) -> bool {
        self.active_at(now)
            .is_some_and(|active| active.action == OverrideAction::ForceClose)
    }

    fn machine_state(&self) -> State {
        match self.machine {
            Machine::Closed => State::Closed,
            Machine::Open { .. } => State::Open,
            Machine::HalfOpen(_) => State::HalfOpen,
        }
    }

    /// The state callers meet: closed means that attempts pass, open that they do not.
    fn shown_state(&self, now: u64) -> State {
        match self.active_at(now).map(|active| active.action) {
            Some(OverrideAction::ForceOpen | OverrideAction::Drain) => State::Open,
            Some(OverrideAction::ForceClose) => State::Closed,
            Some(OverrideAction::Reset) | None => match self.mode {
                Mode::Enforce => self.machine_state(),
                Mode::Observe | Mode::Off => State::Closed,
            },
        }
    }

    /// Opens a closed cell, or a half-open one again.
    fn open(
        &mut self,
        reason: Reason,
        retry_after: Option<Duration>,
        now: u64,
        jitter: f64,
    ) -> Option<Transition> {
        self.count_opening();
        let cooldown = cooldown(&self.policy, self.reopens, retry_after, jitter);
        self.open_for(reason, nanos(cooldown), false, now)
    }

    fn count_opening(&mut self) {
        if matches!(self.machine, Machine::Closed) {
            self.trips = self.trips.saturating_add(1);
        } else {
            self.reopens = self.reopens.saturating_add(1);
        }
    }

    /// Opens the cell with the sticky cooldown of a hard-down.
    fn open_hard(&mut self, now: u64) -> Option<Transition> {
        self.count_opening();
        let cooldown = nanos(self.policy.hard_down_cooldown);
        self.open_for(Reason::HardDown, cooldown, true, now)
    }

    fn open_for(
        &mut self,
        reason: Reason,
        cooldown: u64,
        hard_down: bool,
        now: u64,
    ) -> Option<Transition> {
        // A park the server asked for lives on in the cooldown: nobody may ask sooner.
        let until = now
            .saturating_add(cooldown)
            .max(self.holds.hard_park.moment());
        self.holds.unpark();
        self.ramp_from = None;
        self.ramp_min_secs = 0;
        let next = Machine::Open {
            since: now,
            until,
            hard_down,
        };
        self.shift(next, reason, now)
    }

    /// Ends the cooldown: from here probes decide.
    fn half_open(&mut self, served: u64, reason: Reason, now: u64) -> Option<Transition> {
        let next = Machine::HalfOpen(Box::new(Probing {
            slots: Vec::new(),
            successes: 0,
            served,
        }));
        self.shift(next, reason, now)
    }

    /// Closes the cell with a clean history; `proven` starts the ramp.
    fn close(&mut self, reason: Reason, proven: bool, now: u64) -> Option<Transition> {
        let transition = self.shift(Machine::Closed, reason, now);
        self.window.clear();
        self.streak = 0;
        self.reopens = 0;
        self.holds.unpark();
        self.cause = None;
        self.cause_count = 0;
        self.ramp_from = (proven && !self.ramp().is_zero())
            .then_some(now)
            .and_then(past);
        transition
    }

    /// Makes `next` the state. The transition is returned when callers can notice it: a machine
    /// that runs under an override changes nothing for them.
    fn shift(&mut self, next: Machine, reason: Reason, now: u64) -> Option<Transition> {
        let from = self.machine_state();
        self.holds.soft_park = Deadline::NONE;
        self.machine = next;
        self.generation = self.generation.wrapping_add(1).max(1);
        if self.active_at(now).is_some() {
            return None;
        }
        if self.mode == Mode::Enforce {
            self.shown_since = now;
            if from == State::Closed {
                self.open_since = now;
            }
        }
        Some(self.transition(from, self.machine_state(), reason, now))
    }

    fn transition(&self, from: State, to: State, reason: Reason, now: u64) -> Transition {
        let totals = self.window.totals_at(now);
        let failures = if reason == Reason::Consecutive {
            self.streak
        } else {
            u32::try_from(totals.failed).unwrap_or(u32::MAX)
        };
        let cooldown = match self.machine {
            Machine::Open { until, .. } if to == State::Open => {
                Some(Duration::from_nanos(until.saturating_sub(now)))
            }
            _ => None,
        };
        Transition {
            from,
            to,
            reason,
            failures,
            samples: u32::try_from(totals.ok.saturating_add(totals.failed)).unwrap_or(u32::MAX),
            cooldown,
            cause: self.cause,
            observed: self.mode == Mode::Observe,
        }
    }

    /// How long a ramp lasts.
    fn ramp(&self) -> Duration {
        self.policy
            .ramp
            .max(Duration::from_secs(self.ramp_min_secs.into()))
    }

    /// Keeps why the lane failed.
    fn note(&mut self, cause: Cause) {
        if self.cause == Some(cause) {
            self.cause_count = self.cause_count.saturating_add(1);
        } else {
            self.cause = Some(cause);
            self.cause_count = 1;
        }
    }

    /// Whether content that took from `started` to `now` is slow.
    #[inline]
    fn is_slow(&self, started: Instant, now: Instant) -> bool {
        self.slow
            .is_some_and(|slow| nanos(now.saturating_duration_since(started)) >= slow.get())
    }

    /// The rule that trips the closed cell now, if any.
    fn tripped(&self, now: u64) -> Option<Reason> {
        let trip = &self.policy.trip;
        let rules = trip.mode.rules();
        let totals = self.window.totals_at(now);
        let samples = totals.ok.saturating_add(totals.failed);
        // The quotient of the counts is compared with the threshold, not a product: 7 of 10 is
        // exactly 0.7, while 0.7 times 10 is a little more than 7.
        if rules.error_rate
            && samples >= u64::from(trip.min_requests)
            && totals.failed as f64 / samples as f64 >= trip.threshold
        {
            return Some(Reason::ErrorRate);
        }
        if rules.consecutive && self.streak >= trip.consecutive_n {
            return Some(Reason::Consecutive);
        }
        if rules.count && totals.failed >= u64::from(trip.failure_count) {
            return Some(Reason::Count);
        }
        None
    }

    /// Parks the lane after a failure that did not trip.
    fn park(&mut self, retry_after: Option<Duration>, now: u64) {
        let soft = nanos(self.policy.park);
        if soft > 0 {
            self.holds.soft_park.extend(now.saturating_add(soft));
        }
        let hard = nanos(requested_delay(retry_after));
        if hard > 0 {
            self.holds.hard_park.extend(now.saturating_add(hard));
        }
    }

    /// The cause a slow answer leaves.
    const SLOW: Cause = Cause::new(CauseKind::Slow);
}

#[cfg(test)]
mod tests;
