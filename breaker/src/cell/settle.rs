//! What did the attempt prove?

use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::{Cell, Machine, nanos, past};
use crate::admission::{Kind, Ticket};
use crate::cooldown::requested_delay;
use crate::outcome::{Cause, Outcome};
use crate::policy::ClosesAt;
use crate::transition::{Reason, Transition};
use crate::window::Mark;

/// What a ticket holds, by value.
///
/// The paths that are rarely taken get this instead of the ticket: a ticket whose address goes
/// nowhere stays in registers from admit to settle, which halves the cost of an attempt.
#[derive(Clone, Copy)]
struct Parts {
    generation: u64,
    started: Instant,
    kind: Kind,
    mark: Option<Mark>,
}

impl Parts {
    #[inline]
    fn of(ticket: Ticket) -> Self {
        Self {
            generation: ticket.generation,
            started: ticket.started,
            kind: ticket.kind,
            mark: ticket.mark,
        }
    }
}

/// What a probe's first content proved.
enum Proof {
    /// Nothing: too slow, or too late for its lease.
    None,
    /// One of several successes the cell needs.
    Counted,
    /// The cell closed; the stream counts in the new window from here.
    Closed(Mark),
}

impl Cell {
    /// Records that the attempt delivered its first content to the caller.
    ///
    /// From here a stream counts as good in the window, and a probe has done its duty, unless the policy
    /// decides by the end: it closes the cell, or gives its slot back when more successes are
    /// needed. Content that comes later
    /// than `trip.slow_call` counts as a failure instead, and what follows from that is decided
    /// when the attempt is settled. Committing twice changes nothing.
    #[inline]
    pub fn commit(&mut self, ticket: &mut Ticket, now: Instant) -> Option<Transition> {
        if ticket.generation != self.generation || ticket.mark.is_some() {
            return None;
        }
        match ticket.kind {
            Kind::Ordinary => {
                ticket.mark = Some(self.count_answer(ticket.started, now));
                None
            }
            Kind::Probe(serial) => {
                if self.policy.half_open.closes_at == ClosesAt::End {
                    if !self.is_slow(ticket.started, now) {
                        ticket.kind = Kind::Delivering(serial);
                    }
                    return None;
                }
                let (proof, transition) = self.commit_probe(serial, ticket.started, now);
                match proof {
                    Proof::None => {}
                    Proof::Counted => ticket.kind = Kind::Proven,
                    Proof::Closed(mark) => {
                        ticket.generation = self.generation;
                        ticket.kind = Kind::Ordinary;
                        ticket.mark = Some(mark);
                    }
                }
                transition
            }
            Kind::Delivering(_) | Kind::Proven => None,
        }
    }

    #[cold]
    fn commit_probe(
        &mut self,
        serial: u32,
        started: Instant,
        now: Instant,
    ) -> (Proof, Option<Transition>) {
        let time = self.time(now);
        if self.is_slow(started, now) || !self.give_back(serial, time) {
            return (Proof::None, None);
        }
        let transition = self.probe_succeeded(time);
        if matches!(self.machine, Machine::Closed) {
            (Proof::Closed(self.window.record(false, time)), transition)
        } else {
            (Proof::Counted, transition)
        }
    }

    /// Gives the ticket back with what the attempt proved.
    ///
    /// `jitter` in [0, 1) is drawn by the caller and spreads the end of a cooldown, should one
    /// begin. A ticket of an older generation, or of a probe whose lease is over, changes nothing
    /// but the end of a running cooldown, which its Retry-After may put off.
    #[inline]
    pub fn settle(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        now: Instant,
        jitter: f64,
    ) -> Option<Transition> {
        if ticket.generation == self.generation
            && matches!(ticket.kind, Kind::Ordinary)
            && matches!(outcome, Outcome::Success)
            && !self.success_clears_count
            && ticket
                .mark
                .map_or(self.slow.is_none(), |mark| !mark.failed())
        {
            if ticket.mark.is_none() {
                self.window.record(false, self.time(now));
            }
            self.streak = 0;
            self.holds.soft_park = Deadline::NONE;
            return None;
        }
        self.settle_slow_path(Parts::of(ticket), outcome, now, jitter)
    }

    /// Gives the ticket back without any evidence about the lane.
    pub fn abandon(&mut self, ticket: Ticket, now: Instant) -> Option<Transition> {
        self.settle_slow_path(Parts::of(ticket), Outcome::Neutral, now, 0.0)
    }

    #[cold]
    fn settle_slow_path(
        &mut self,
        ticket: Parts,
        outcome: Outcome,
        now: Instant,
        jitter: f64,
    ) -> Option<Transition> {
        let time = self.time(now);
        let outcome = match outcome {
            // The credential that failed is not the one in use any more.
            Outcome::HardDown { .. } if self.time(ticket.started) < self.credential_since => {
                Outcome::Neutral
            }
            Outcome::Success
            | Outcome::Transient { .. }
            | Outcome::HardDown { .. }
            | Outcome::Neutral => outcome,
        };
        if matches!(outcome, Outcome::HardDown { .. }) {
            self.hard_down_at = past(time);
        }
        if ticket.generation != self.generation {
            self.late_result(&outcome, time);
            return None;
        }
        match ticket.kind {
            Kind::Ordinary => self.settle_ordinary(ticket, outcome, now, jitter),
            Kind::Probe(serial) | Kind::Delivering(serial) => {
                if !self.give_back(serial, time) {
                    self.late_result(&outcome, time);
                    return None;
                }
                match outcome {
                    Outcome::Success
                        if matches!(ticket.kind, Kind::Probe(_))
                            && self.is_slow(ticket.started, now) =>
                    {
                        self.probe_failed(Self::SLOW, None, time, jitter)
                    }
                    Outcome::Success => {
                        let transition = self.probe_succeeded(time);
                        if matches!(self.machine, Machine::Closed) {
                            self.window.record(false, time);
                        }
                        transition
                    }
                    Outcome::Transient { cause, retry_after } => {
                        self.probe_failed(cause, retry_after, time, jitter)
                    }
                    Outcome::HardDown { cause } => self.hard_down(cause, time),
                    Outcome::Neutral => None,
                }
            }
            Kind::Proven => match outcome {
                Outcome::Success | Outcome::Neutral => None,
                Outcome::Transient { cause, retry_after } => {
                    self.probe_failed(cause, retry_after, time, jitter)
                }
                Outcome::HardDown { cause } => self.hard_down(cause, time),
            },
        }
    }

    /// Settles an attempt that the closed cell admitted in this generation.
    fn settle_ordinary(
        &mut self,
        ticket: Parts,
        outcome: Outcome,
        now: Instant,
        jitter: f64,
    ) -> Option<Transition> {
        let time = self.time(now);
        match outcome {
            Outcome::Success => {
                let mark = match ticket.mark {
                    Some(mark) => mark,
                    None => self.count_answer(ticket.started, now),
                };
                self.streak = 0;
                self.holds.soft_park = Deadline::NONE;
                if mark.failed() {
                    return self.trip_if_due(None, time, jitter);
                }
                if self.success_clears_count && self.window.totals_at(time).failed > 0 {
                    self.window.clear();
                    self.window.record(false, time);
                }
                None
            }
            Outcome::Transient { cause, retry_after } => {
                self.count_failure(ticket.mark, cause, time);
                if let Some(transition) = self.trip_if_due(retry_after, time, jitter) {
                    return Some(transition);
                }
                if matches!(self.machine, Machine::Closed) {
                    self.park(retry_after, time);
                }
                None
            }
            Outcome::HardDown { cause } => {
                self.count_failure(ticket.mark, cause, time);
                if self.forced_closed(time) {
                    return None;
                }
                self.open_hard(time)
            }
            Outcome::Neutral => {
                if let Some(mark) = ticket.mark {
                    self.window.withdraw(mark, time);
                }
                None
            }
        }
    }

    /// Counts an answer in the window, by the time its content took.
    #[inline]
    fn count_answer(&mut self, started: Instant, now: Instant) -> Mark {
        let slow = self.is_slow(started, now);
        if slow {
            self.note(Self::SLOW);
        }
        self.window.record(slow, self.time(now))
    }

    /// Books a failure now, once: what the stream had counted as before is taken back.
    fn count_failure(&mut self, mark: Option<Mark>, cause: Cause, now: u64) {
        if let Some(mark) = mark {
            self.window.withdraw(mark, now);
        }
        self.window.record(true, now);
        self.streak = self.streak.saturating_add(1);
        self.note(cause);
    }

    fn trip_if_due(
        &mut self,
        retry_after: Option<Duration>,
        now: u64,
        jitter: f64,
    ) -> Option<Transition> {
        if self.forced_closed(now) {
            return None;
        }
        let reason = self.tripped(now)?;
        self.open(reason, retry_after, now, jitter)
    }

    fn probe_succeeded(&mut self, now: u64) -> Option<Transition> {
        let needed = self.policy.half_open.successes_to_close;
        if let Machine::HalfOpen(probing) = &mut self.machine {
            probing.successes = probing.successes.saturating_add(1);
            if probing.successes >= needed {
                return self.close(Reason::ProbeSucceeded, true, now);
            }
        }
        None
    }

    fn probe_failed(
        &mut self,
        cause: Cause,
        retry_after: Option<Duration>,
        now: u64,
        jitter: f64,
    ) -> Option<Transition> {
        self.window.record(true, now);
        self.streak = self.streak.saturating_add(1);
        self.note(cause);
        self.open(Reason::ProbeFailed, retry_after, now, jitter)
    }

    fn hard_down(&mut self, cause: Cause, now: u64) -> Option<Transition> {
        self.window.record(true, now);
        self.streak = self.streak.saturating_add(1);
        self.note(cause);
        self.open_hard(now)
    }

    /// Frees a probe's slot; `false` when the lease was over and the slot is not this probe's any
    /// more.
    fn give_back(&mut self, serial: u32, now: u64) -> bool {
        let Machine::HalfOpen(probing) = &mut self.machine else {
            return false;
        };
        if serial == 0 {
            return true;
        }
        let slots = &mut probing.slots;
        slots.retain(|slot| slot.lease_until > now);
        let before = slots.len();
        slots.retain(|slot| slot.serial != serial);
        slots.len() < before
    }

    /// A result that comes too late to decide anything. A longer Retry-After still holds while the
    /// cell is open.
    fn late_result(&mut self, outcome: &Outcome, now: u64) {
        if let Outcome::Transient {
            retry_after: Some(asked),
            ..
        } = outcome
            && !asked.is_zero()
            && let Machine::Open { until, .. } = &mut self.machine
        {
            *until = (*until).max(now.saturating_add(nanos(requested_delay(Some(*asked)))));
        }
    }
}
