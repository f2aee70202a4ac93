//! May this attempt go to the lane?

use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::{Cell, Machine, ProbeSlot, nanos};
use crate::admission::{Admission, Kind, Refusal, RefusalReason, Ticket};
use crate::limits::PROBE_LEASE_MIN;
use crate::overrides::OverrideAction;
use crate::policy::Mode;
use crate::transition::Reason;

impl Cell {
    /// Asks for an attempt.
    ///
    /// `lease` is the lane's attempt timeout: a probe keeps its slot for the longest of the
    /// cooldown just served, [`PROBE_LEASE_MIN`] and this, whatever becomes of the attempt.
    /// The ticket of a passed attempt goes back by [`settle`](Self::settle) or
    /// [`abandon`](Self::abandon).
    #[inline]
    pub fn admit(&mut self, now: Instant, lease: Duration) -> Admission {
        if matches!(self.machine, Machine::Closed)
            && self.mode == Mode::Enforce
            && !self.holds.hard_park.is_set()
            && self.active.is_none()
        {
            return Admission::Pass(self.ticket(Kind::Ordinary, now));
        }
        // Rebuilt, not passed on: the value of the rare path lives in memory, that of the common
        // one in registers.
        match self.consider(now, lease, false) {
            Admission::Pass(ticket) => Admission::Pass(Ticket { ..ticket }),
            Admission::Probe(ticket, transition) => {
                Admission::Probe(Ticket { ..ticket }, transition)
            }
            Admission::Refuse(refusal) => Admission::Refuse(refusal),
        }
    }

    /// Asks for an attempt that is made for want of any better lane.
    ///
    /// Only an operator's override refuses it. A cooldown that has ended still makes it the
    /// probe; an attempt that [`admit`](Self::admit) would refuse passes, but its result does not
    /// move an open or half-open cell (a longer Retry-After does count).
    pub fn admit_degraded(&mut self, now: Instant, lease: Duration) -> Admission {
        self.consider(now, lease, true)
    }

    fn ticket(&self, kind: Kind, now: Instant) -> Ticket {
        Ticket {
            generation: self.generation,
            started: now,
            kind,
            mark: None,
        }
    }

    /// A ticket whose result is not judged.
    fn unjudged(&self, now: Instant) -> Ticket {
        Ticket {
            generation: 0,
            ..self.ticket(Kind::Ordinary, now)
        }
    }

    #[cold]
    fn consider(&mut self, now: Instant, lease: Duration, degraded: bool) -> Admission {
        let time = self.time(now);
        self.drop_ended_override(time);
        let active = self.active;
        if let Some(active) = active
            && matches!(
                active.action,
                OverrideAction::ForceOpen | OverrideAction::Drain
            )
        {
            return Admission::Refuse(Refusal {
                retry_in: Some(Duration::from_nanos(active.until - time)),
                reason: RefusalReason::Override,
            });
        }
        if self.mode == Mode::Off {
            return Admission::Pass(self.unjudged(now));
        }
        if !self.holds.hard_park.is_ahead_of(time) {
            self.holds.hard_park = Deadline::NONE;
        }

        let refusal = match &mut self.machine {
            Machine::Closed => {
                let parked = self.holds.hard_park.remaining(time);
                if parked.is_zero() || degraded || active.is_some() || self.mode == Mode::Observe {
                    return Admission::Pass(self.ticket(Kind::Ordinary, now));
                }
                Refusal {
                    retry_in: Some(parked),
                    reason: RefusalReason::Parked,
                }
            }
            Machine::Open { since, until, .. } => {
                let awaited = self.holds.soft_park;
                if time >= *until && awaited.is_ahead_of(time) {
                    Refusal {
                        retry_in: Some(awaited.remaining(time)),
                        reason: RefusalReason::FleetProbe,
                    }
                } else if time >= *until {
                    let served = until.saturating_sub(*since);
                    let transition = self.half_open(served, Reason::CooldownEnded, time);
                    if let Some(kind) = self.take_probe_slot(time, lease) {
                        return Admission::Probe(self.ticket(kind, now), transition);
                    }
                    Refusal {
                        retry_in: None,
                        reason: RefusalReason::ProbeBusy,
                    }
                } else {
                    Refusal {
                        retry_in: Some(Duration::from_nanos(*until - time)),
                        reason: RefusalReason::Open,
                    }
                }
            }
            Machine::HalfOpen(_) => {
                if let Some(kind) = self.take_probe_slot(time, lease) {
                    return Admission::Probe(self.ticket(kind, now), None);
                }
                Refusal {
                    retry_in: None,
                    reason: RefusalReason::ProbeBusy,
                }
            }
        };
        if degraded || self.mode == Mode::Observe {
            return Admission::Pass(self.unjudged(now));
        }
        Admission::Refuse(refusal)
    }

    /// A slot of the half-open cell, or `None` when all are in use. Slots whose lease is over
    /// are free.
    fn take_probe_slot(&mut self, now: u64, lease: Duration) -> Option<Kind> {
        let max_probes = self.policy.half_open.max_probes as usize;
        let Machine::HalfOpen(probing) = &mut self.machine else {
            return None;
        };
        if max_probes == 0 {
            return Some(Kind::Probe(0));
        }
        probing.slots.retain(|slot| slot.lease_until > now);
        if probing.slots.len() >= max_probes {
            return None;
        }
        let lease = nanos(lease.max(PROBE_LEASE_MIN)).max(probing.served);
        self.probe_serial = self.probe_serial.wrapping_add(1).max(1);
        probing.slots.push(ProbeSlot {
            serial: self.probe_serial,
            lease_until: now.saturating_add(lease),
        });
        Some(Kind::Probe(self.probe_serial))
    }
}
