//! The cell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::admission::{Admission, Kind, Refusal, Ticket};
use crate::outcome::Outcome;
use crate::overrides::Override;
use crate::policy::Policy;
use crate::transition::{State, Transition};
use crate::view::{Selectable, View};

/// The breaker of one lane in one pool.
#[derive(Debug)]
pub struct Cell {
    policy: Arc<Policy>,
}

#[allow(unused_variables, clippy::needless_pass_by_value, missing_docs)]
impl Cell {
    pub fn new(policy: Arc<Policy>, now: Instant) -> Self {
        Self { policy }
    }
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }
    pub fn admit(&mut self, now: Instant, lease: Duration) -> Admission {
        let _ = Admission::Probe;
        let _: Option<Refusal> = None;
        Admission::Pass(Ticket {
            generation: 0,
            started: now,
            kind: Kind::Ordinary,
            mark: None,
        })
    }
    pub fn admit_degraded(&mut self, now: Instant, lease: Duration) -> Admission {
        self.admit(now, lease)
    }
    pub fn commit(&mut self, ticket: &mut Ticket, now: Instant) -> Option<Transition> {
        None
    }
    pub fn settle(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        now: Instant,
        jitter: f64,
    ) -> Option<Transition> {
        None
    }
    pub fn abandon(&mut self, ticket: Ticket, now: Instant) -> Option<Transition> {
        None
    }
    pub fn apply_policy(&mut self, policy: Arc<Policy>, now: Instant) -> Option<Transition> {
        None
    }
    pub fn apply_override(&mut self, order: Option<Override>, now: Instant) -> Option<Transition> {
        None
    }
    pub fn apply_advisory(&mut self, until: Option<Instant>, now: Instant) {}
    pub fn credential_changed(&mut self, now: Instant) -> Option<Transition> {
        None
    }
    pub fn recover(&mut self, probe_started: Instant, now: Instant) -> Option<Transition> {
        None
    }
    pub fn selectable(&self, now: Instant) -> Selectable {
        Selectable::Yes
    }
    pub fn weight_factor(&self, now: Instant) -> f64 {
        1.0
    }
    pub fn view(&self, now: Instant) -> View {
        View {
            mode: self.policy.mode,
            state: State::Closed,
            machine_state: State::Closed,
            state_age: Duration::ZERO,
            cooldown_remaining: Duration::ZERO,
            parked_remaining: Duration::ZERO,
            parked_hard: false,
            streak: 0,
            trips: 0,
            reopens: 0,
            window_ok: 0,
            window_failed: 0,
            cause: None,
            cause_count: 0,
            hard_down: false,
            selectable: Selectable::Yes,
            weight_factor: 1.0,
            override_: None,
            advisory_remaining: None,
        }
    }
}
