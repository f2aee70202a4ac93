//! What do the operator, the policy, the fleet and the active probe want?

use std::sync::Arc;
use std::time::Instant;

use super::deadline::Deadline;
use super::{ActiveOverride, Cell, Machine, nanos, slow_nanos};
use crate::overrides::{Override, OverrideAction};
use crate::policy::{Mode, Policy};
use crate::transition::{Reason, State, Transition};

impl Cell {
    /// Takes on another policy. State, remaining cooldown, running probes and, as far as the new
    /// window can hold them, counts stay. Switching the mode off forgets everything; any other
    /// change of mode shows or hides the state the machine already has.
    pub fn apply_policy(&mut self, policy: Arc<Policy>, now: Instant) -> Option<Transition> {
        let time = self.time(now);
        self.drop_ended_override(time);
        let before = self.shown_state(time);
        self.window
            .reshape(policy.trip.window_kind, nanos(policy.trip.window), time);
        self.mode = policy.mode;
        self.slow = slow_nanos(&policy);
        self.success_clears_count = policy.success_clears_count;
        self.policy = policy;
        if self.mode == Mode::Off {
            self.close(Reason::Policy, false, time);
        }
        self.shown(before, Reason::Policy, time)
    }

    /// Puts the cell under an operator's override, or releases it with `None`.
    ///
    /// Applying the same override again only moves its end. One that has already ended counts
    /// as `None`. A force close closes the machine beneath, so that nothing old counts when it
    /// ends; force open and drain leave it as it is. A reset takes effect once and leaves an
    /// active override in place.
    pub fn apply_override(
        &mut self,
        requested: Option<Override>,
        now: Instant,
    ) -> Option<Transition> {
        let time = self.time(now);
        self.drop_ended_override(time);
        let before = self.shown_state(time);
        let reason = match requested {
            Some(Override {
                action: OverrideAction::Reset,
                ..
            }) => {
                self.close(Reason::Reset, false, time);
                self.hard_down_at = None;
                Reason::Reset
            }
            Some(Override { action, until }) if until > now => {
                let forced_before = self.forced_closed(time);
                if action == OverrideAction::ForceClose && !forced_before {
                    self.close(Reason::Override, false, time);
                }
                self.active = Some(ActiveOverride {
                    action,
                    until: self.time(until),
                });
                Reason::Override
            }
            Some(_) | None => {
                self.active = None;
                Reason::OverrideEnded
            }
        };
        self.shown(before, reason, time)
    }

    /// Takes the fleet's advisory: until then the lane is chosen only when no other can be. The
    /// cell itself decides its state.
    pub fn apply_advisory(&mut self, until: Option<Instant>) {
        self.holds.advisory = until.map_or(Deadline::NONE, |until| Deadline::at(self.time(until)));
    }

    /// Records that the lane's credential changed. A cell opened by a hard-down may probe now, and
    /// hard-downs of attempts that still carried the old credential are not believed.
    pub fn credential_changed(&mut self, now: Instant) -> Option<Transition> {
        let time = self.time(now);
        self.credential_since = time;
        match self.machine {
            Machine::Open {
                since,
                until,
                hard_down: true,
            } => {
                let served = until.min(time).saturating_sub(since);
                self.half_open(served, Reason::CredentialChanged, time)
            }
            Machine::Closed | Machine::Open { .. } | Machine::HalfOpen(_) => None,
        }
    }

    /// Records that an active probe, begun at `probe_started`, found the lane well: the cell
    /// closes. A hard-down that arrived since the probe began is newer evidence and stands.
    ///
    /// On a cell that is closed already it ends a soft park, as any success does.
    pub fn recover(&mut self, probe_started: Instant, now: Instant) -> Option<Transition> {
        let time = self.time(now);
        let started = self.time(probe_started);
        if self.mode == Mode::Off || self.hard_down_at.is_some_and(|at| at.get() >= started) {
            return None;
        }
        match self.machine {
            Machine::Closed => {
                self.streak = 0;
                self.holds.soft_park = Deadline::NONE;
                None
            }
            Machine::Open { .. } | Machine::HalfOpen(_) => {
                self.close(Reason::Recovered, true, time)
            }
        }
    }

    /// Forgets an override whose time is over.
    pub(super) fn drop_ended_override(&mut self, now: u64) {
        if let Some(ended) = self.active
            && ended.until <= now
        {
            let forced = match ended.action {
                OverrideAction::ForceOpen | OverrideAction::Drain => State::Open,
                OverrideAction::ForceClose | OverrideAction::Reset => State::Closed,
            };
            self.active = None;
            if self.shown_state(now) != forced {
                self.shown_since = self.shown_since.max(ended.until);
            }
        }
    }

    /// The transition callers notice, when there is one.
    fn shown(&mut self, before: State, reason: Reason, now: u64) -> Option<Transition> {
        let after = self.shown_state(now);
        if after == before {
            return None;
        }
        self.shown_since = now;
        if before == State::Closed {
            self.open_since = now;
        }
        let mut transition = self.transition(before, after, reason, now);
        if after == State::Open
            && let Some(active) = self.active_at(now)
        {
            transition.cooldown = Some(std::time::Duration::from_nanos(active.until - now));
        }
        transition.observed = false;
        Some(transition)
    }
}
