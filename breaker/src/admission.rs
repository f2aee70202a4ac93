//! The answer to "may this attempt go to the lane?", and the ticket a yes comes with.

use std::time::{Duration, Instant};

use crate::names::names;
use crate::transition::Transition;
use crate::window::Mark;

names! {
    /// Why an attempt was refused.
    pub enum RefusalReason {
        /// The cell is open and its cooldown runs.
        Open = "open",
        /// The cell is half-open and every probe slot is taken.
        ProbeBusy = "probe_busy",
        /// The server asked to be left alone and that time is not over.
        Parked = "parked",
        /// The cooldown is over, and the verdict of another agent's probe is awaited.
        FleetProbe = "fleet_probe",
        /// An operator's override refuses.
        Override = "override",
    }
}

/// A refused attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// When asking again can help; `None` when nobody knows.
    pub retry_in: Option<Duration>,
    /// Why.
    pub reason: RefusalReason,
}

/// A cell's answer to an attempt.
#[derive(Debug)]
#[must_use]
pub enum Admission {
    /// Go ahead.
    Pass(Ticket),
    /// Go ahead; this attempt is a probe. The transition is there when this attempt turned an
    /// open cell half-open.
    Probe(Ticket, Option<Transition>),
    /// Do not go.
    Refuse(Refusal),
}

/// What kind of attempt a ticket stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Admitted by a closed cell.
    Ordinary,
    /// Holds the probe slot with this serial; 0 when slots are not limited.
    Probe(u32),
    /// A probe with this serial that delivered its first content in time and is decided by its end.
    Delivering(u32),
    /// A probe that has already succeeded.
    Proven,
}

/// The permission a cell gave one attempt.
///
/// It can be neither copied nor cloned: it is given back exactly once, to the cell it came from,
/// by [`settle`](crate::Cell::settle) or [`abandon`](crate::Cell::abandon). A probe's ticket that
/// is dropped instead blocks its slot until the lease ends.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    pub(crate) generation: u64,
    pub(crate) started: Instant,
    pub(crate) kind: Kind,
    pub(crate) mark: Option<Mark>,
}

impl Ticket {
    /// Whether this attempt's result decides about a half-open cell.
    pub fn is_probe(&self) -> bool {
        self.kind != Kind::Ordinary
    }

    /// Whether the attempt has delivered its first content.
    pub fn is_committed(&self) -> bool {
        self.mark.is_some() || matches!(self.kind, Kind::Proven | Kind::Delivering(_))
    }

    /// When the attempt was admitted.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The generation of the cell that admitted it; 0 for an attempt the cell does not judge.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}
