//! What do the probes of other agents prove? Nothing that this cell knows better.
//!
//! | state | event | effect |
//! |---|---|---|
//! | Open, cooldown over | a verdict is awaited | refused until then, with the time left |
//! | Open | another agent's probe succeeds that began since it opened | Closed, through a ramp |
//! | Open, cooldown over | another agent's probe fails | k + 1, open until the fleet may probe again |
//! | any other | either | nothing |

use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::{Cell, Machine};
use crate::outcome::Cause;
use crate::policy::Mode;
use crate::transition::{Reason, Transition};

impl Cell {
    /// How long the cooldown lasted that is over, when the next attempt would be the probe. `None`
    /// while the cell is in any other state.
    pub fn cooldown_over(&self, now: Instant) -> Option<Duration> {
        let time = self.time(now);
        match self.machine {
            Machine::Open { since, until, .. }
                if self.mode == Mode::Enforce
                    && time >= until
                    && self.active_at(time).is_none()
                    && !self.holds.soft_park.is_ahead_of(time) =>
            {
                Some(Duration::from_nanos(until.saturating_sub(since)))
            }
            Machine::Closed | Machine::Open { .. } | Machine::HalfOpen(_) => None,
        }
    }

    /// Until then an open cell refuses although its cooldown is over: another agent probes. `None`
    /// ends the wait. Any change of state ends it too.
    pub fn await_verdict(&mut self, until: Option<Instant>) {
        if matches!(self.machine, Machine::Open { .. }) {
            *self.holds.verdict() =
                until.map_or(Deadline::NONE, |until| Deadline::at(self.time(until)));
        }
    }

    /// The next closing ramps for so long at least, in whole seconds: others close at the same
    /// time.
    pub fn ramp_at_least(&mut self, ramp: Duration) {
        self.ramp_min_secs = u32::try_from(ramp.as_secs()).unwrap_or(u32::MAX);
    }

    /// Another agent's probe of the same lane succeeded, which began at `probe_started`. An opening
    /// since then is newer evidence and stands, and so does a hard-down.
    pub fn fleet_probe_succeeded(
        &mut self,
        probe_started: Instant,
        ramp: Duration,
        now: Instant,
    ) -> Option<Transition> {
        let (time, started) = (self.time(now), self.time(probe_started));
        match self.machine {
            Machine::Open {
                since,
                hard_down: false,
                ..
            } if self.mode != Mode::Off && since <= started => {
                self.ramp_at_least(ramp);
                self.close(Reason::FleetProbeSucceeded, true, time)
            }
            Machine::Closed | Machine::Open { .. } | Machine::HalfOpen(_) => None,
        }
    }

    /// Another agent's probe of the same lane failed: the cooldown of a cell that would probe now
    /// begins again, until the fleet may probe next. True when that is so here.
    pub fn fleet_probe_failed(&mut self, cause: Cause, next: Instant, now: Instant) -> bool {
        let (time, next) = (self.time(now), self.time(next));
        let Machine::Open { since, until, .. } = &mut self.machine else {
            return false;
        };
        let is_over = time >= *until;
        if is_over {
            (*since, *until) = (time, next.max(time));
            self.reopens = self.reopens.saturating_add(1);
            *self.holds.verdict() = Deadline::NONE;
            self.note(cause);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Admission, RefusalReason};
    use crate::outcome::{CauseKind, Outcome};
    use crate::policy::{Policy, Trip, TripMode};
    use crate::transition::State;
    use crate::view::Selectable;
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);
    const FAILED: Cause = Cause::with_status(CauseKind::Status, 503);

    fn policy() -> Arc<Policy> {
        Arc::new(Policy {
            base_cooldown: 10 * SECOND,
            jitter_ratio: 0.0,
            jitter_floor: Duration::ZERO,
            trip: Trip {
                mode: TripMode::Consecutive,
                consecutive_n: 1,
                ..Trip::default()
            },
            ..Policy::default()
        })
    }

    /// A cell that opened at the returned moment, for ten seconds.
    fn open(outcome: Outcome) -> (Cell, Instant) {
        #[expect(clippy::disallowed_methods)]
        let now = Instant::now();
        let mut cell = Cell::new(policy(), now - 60 * SECOND);
        let Admission::Pass(ticket) = cell.admit(now, SECOND) else {
            panic!("a closed cell passes");
        };
        cell.settle(ticket, outcome, now, 0.5);
        assert_eq!(cell.view(now).state, State::Open);
        (cell, now)
    }

    fn failed() -> Outcome {
        Outcome::Transient {
            cause: FAILED,
            retry_after: None,
        }
    }

    #[test]
    fn a_cell_whose_cooldown_is_over_waits_for_a_verdict_and_then_probes_by_itself() {
        let (mut cell, start) = open(failed());
        assert_eq!(cell.cooldown_over(start + 9 * SECOND), None);
        let due = start + 10 * SECOND;
        assert_eq!(cell.cooldown_over(due), Some(10 * SECOND));
        cell.await_verdict(Some(due + 3 * SECOND));
        assert_eq!(cell.cooldown_over(due), None);
        let Admission::Refuse(refusal) = cell.admit(due, SECOND) else {
            panic!("it waits");
        };
        assert_eq!(refusal.reason, RefusalReason::FleetProbe);
        assert_eq!(refusal.retry_in, Some(3 * SECOND));
        assert!(matches!(cell.selectable(due), Selectable::No { .. }));
        assert_eq!(cell.view(due).state, State::Open);
        // For want of any better lane it goes out all the same, and proves nothing.
        assert!(matches!(
            cell.admit_degraded(due, SECOND),
            Admission::Pass(_)
        ));
        let late = due + 3 * SECOND;
        assert_eq!(cell.selectable(late), Selectable::Probe);
        assert!(matches!(cell.admit(late, SECOND), Admission::Probe(..)));
    }

    #[test]
    fn a_success_elsewhere_closes_through_a_ramp_unless_the_cell_opened_since() {
        let (mut cell, start) = open(failed());
        let ramp = 10 * SECOND;
        let before = start - SECOND;
        assert!(
            cell.fleet_probe_succeeded(before, ramp, start + SECOND)
                .is_none()
        );
        let now = start + 5 * SECOND;
        let change = cell
            .fleet_probe_succeeded(start + SECOND, ramp, now)
            .unwrap();
        assert_eq!(
            (change.to, change.reason),
            (State::Closed, Reason::FleetProbeSucceeded)
        );
        assert!(cell.weight_factor(now) < 0.11);
        assert!((cell.weight_factor(now + 5 * SECOND) - 0.55).abs() < 0.01);
        assert_eq!(cell.weight_factor(now + ramp), 1.0);
        assert!(cell.fleet_probe_succeeded(now, ramp, now).is_none());
    }

    #[test]
    fn a_hard_down_is_the_agents_own_and_stands() {
        let cause = Cause::new(CauseKind::Auth);
        let (mut cell, start) = open(Outcome::HardDown { cause });
        let now = start + 5 * SECOND;
        assert!(cell.fleet_probe_succeeded(now, SECOND, now).is_none());
    }

    #[test]
    fn a_failure_elsewhere_extends_a_cooldown_that_is_over_and_no_other() {
        let (mut cell, start) = open(failed());
        let early = start + 9 * SECOND;
        assert!(!cell.fleet_probe_failed(FAILED, early + 100 * SECOND, early));
        assert_eq!(cell.view(early).cooldown_remaining, SECOND);
        let due = start + 11 * SECOND;
        cell.await_verdict(Some(due + 5 * SECOND));
        assert!(cell.fleet_probe_failed(FAILED, due + 20 * SECOND, due));
        let view = cell.view(due);
        assert_eq!((view.cooldown_remaining, view.reopens), (20 * SECOND, 1));
        assert_eq!(cell.cooldown_over(due + 20 * SECOND), Some(20 * SECOND));
    }

    #[test]
    fn an_operators_override_waits_for_nobody() {
        let (mut cell, start) = open(failed());
        let due = start + 11 * SECOND;
        cell.apply_override(
            Some(crate::Override {
                action: crate::OverrideAction::ForceOpen,
                until: due + SECOND,
            }),
            due,
        );
        assert_eq!(cell.cooldown_over(due), None);
    }
}
