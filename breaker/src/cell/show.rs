//! What is to be seen? Everything here takes `&self`: looking changes nothing.

use std::time::{Duration, Instant};

use super::deadline::Holds;
use super::{Cell, Machine};
use crate::admission::RefusalReason;
use crate::limits::RAMP_START;
use crate::overrides::OverrideAction;
use crate::policy::Mode;
use crate::transition::State;
use crate::view::{OverrideView, Selectable, View};

/// Time from `now` to `until`; zero when that has passed.
fn left(until: u64, now: u64) -> Duration {
    Duration::from_nanos(until.saturating_sub(now))
}

impl Cell {
    /// Whether selection may choose this member, and as what. Cheap: for every pick.
    #[inline]
    pub fn selectable(&self, now: Instant) -> Selectable {
        if matches!(self.machine, Machine::Closed) && self.holds.is_empty() && self.active.is_none()
        {
            return Selectable::Yes;
        }
        self.selectable_at(self.time(now))
    }

    fn selectable_at(&self, now: u64) -> Selectable {
        if let Some(active) = self.active_at(now) {
            return match active.action {
                OverrideAction::ForceOpen | OverrideAction::Drain => Selectable::No {
                    retry_in: Some(left(active.until, now)),
                    reason: RefusalReason::Override,
                },
                OverrideAction::ForceClose | OverrideAction::Reset => Selectable::Yes,
            };
        }
        if self.mode != Mode::Enforce {
            return Selectable::Yes;
        }
        match &self.machine {
            Machine::Closed => {
                if self.holds.hard_park.is_ahead_of(now) {
                    Selectable::No {
                        retry_in: Some(self.holds.hard_park.remaining(now)),
                        reason: RefusalReason::Parked,
                    }
                } else if self.holds.soft_park.is_ahead_of(now) {
                    Selectable::SoftParked
                } else if self.holds.advisory.is_ahead_of(now) {
                    Selectable::Advised
                } else {
                    Selectable::Yes
                }
            }
            Machine::Open { until, .. } if *until > now => Selectable::No {
                retry_in: Some(left(*until, now)),
                reason: RefusalReason::Open,
            },
            Machine::Open { .. } if self.holds.soft_park.is_ahead_of(now) => Selectable::No {
                retry_in: Some(self.holds.soft_park.remaining(now)),
                reason: RefusalReason::FleetProbe,
            },
            Machine::Open { .. } => Selectable::Probe,
            Machine::HalfOpen(probing) => {
                let max_probes = self.policy.half_open.max_probes as usize;
                let slots = probing.slots.iter();
                let busy = slots.filter(|slot| slot.lease_until > now).count();
                if max_probes == 0 || busy < max_probes {
                    Selectable::Probe
                } else {
                    Selectable::No {
                        retry_in: None,
                        reason: RefusalReason::ProbeBusy,
                    }
                }
            }
        }
    }

    /// Share of its weight the member should have: it grows from a tenth to the whole after the
    /// cell closed, over the policy's ramp.
    #[inline]
    pub fn weight_factor(&self, now: Instant) -> f64 {
        match self.ramp_from {
            None => 1.0,
            Some(from) => self.ramped(self.time(now).saturating_sub(from.get())),
        }
    }

    fn ramped(&self, nanos_since: u64) -> f64 {
        let ramp = self.ramp().as_secs_f64();
        let share = Duration::from_nanos(nanos_since).as_secs_f64() / ramp;
        // `min` also turns the NaN of a ramp of no length into the whole weight.
        (RAMP_START + (1.0 - RAMP_START) * share).min(1.0)
    }

    /// Everything the cell shows at this moment. Reading it changes nothing, however often.
    pub fn view(&self, now: Instant) -> View {
        let time = self.time(now);
        let totals = self.window.totals_at(time);
        let state = self.shown_state(time);
        let active = self.active_at(time);
        let (until, hard_down) = match self.machine {
            Machine::Open {
                until, hard_down, ..
            } => (until, hard_down),
            Machine::Closed | Machine::HalfOpen(_) => (0, false),
        };
        let cooldown_remaining = match (state, active) {
            (State::Open, Some(active)) => left(active.until, time),
            (State::Open, None) => left(until, time),
            (State::Closed | State::HalfOpen, _) => Duration::ZERO,
        };
        let Holds {
            soft_park,
            hard_park,
            advisory,
        } = self.holds;
        let softly = match self.machine {
            Machine::Closed => soft_park.remaining(time),
            Machine::Open { .. } | Machine::HalfOpen(_) => Duration::ZERO,
        };
        let parked = softly.max(hard_park.remaining(time));
        let matters = self.machine_state() != State::Closed
            || self.streak > 0
            || totals.failed > 0
            || !parked.is_zero();
        let shown_since = match self.active {
            Some(ended) if active.is_none() => self.shown_since.max(ended.until),
            Some(_) | None => self.shown_since,
        };
        let open_age = match state {
            State::Closed => Duration::ZERO,
            State::Open | State::HalfOpen => left(time, self.open_since),
        };
        View {
            mode: self.mode,
            state,
            machine_state: self.machine_state(),
            state_age: left(time, shown_since),
            open_age,
            cooldown_remaining,
            machine_cooldown_remaining: left(until, time),
            parked_remaining: parked,
            parked_hard: hard_park.is_ahead_of(time),
            streak: self.streak,
            trips: self.trips,
            reopens: self.reopens,
            window_ok: totals.ok,
            window_failed: totals.failed,
            cause: self.cause.filter(|_| matters),
            cause_count: if matters { self.cause_count.into() } else { 0 },
            hard_down,
            selectable: self.selectable_at(time),
            weight_factor: self.weight_factor(now),
            override_: active.map(|active| OverrideView {
                action: active.action,
                remaining: left(active.until, time),
            }),
            advisory_remaining: advisory.is_ahead_of(time).then(|| advisory.remaining(time)),
        }
    }
}
