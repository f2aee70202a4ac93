//! Moments until which something holds, in the cell's own time, and the three that keep callers away
//! from a closed cell.

use std::num::NonZeroU64;
use std::time::Duration;

/// A moment in nanoseconds since the cell was made; unset, or at the cell's first moment, nothing
/// holds. As large as the bare number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deadline(Option<NonZeroU64>);

impl Deadline {
    pub(super) const NONE: Self = Self(None);

    pub(super) fn at(until: u64) -> Self {
        Self(NonZeroU64::new(until))
    }

    #[inline]
    pub(super) fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// The moment itself, the cell's first when there is none.
    pub(super) fn moment(self) -> u64 {
        self.0.map_or(0, NonZeroU64::get)
    }

    pub(super) fn is_ahead_of(self, now: u64) -> bool {
        self.moment() > now
    }

    /// Time that is left; zero when none is.
    pub(super) fn remaining(self, now: u64) -> Duration {
        Duration::from_nanos(self.moment().saturating_sub(now))
    }

    /// Moves it later, never earlier.
    pub(super) fn extend(&mut self, until: u64) {
        *self = Self::at(self.moment().max(until));
    }
}

/// What keeps callers away from a cell that is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holds {
    /// The park after a single failure: chosen only when nothing else can be. An open cell is not
    /// parked; there it is the wait for the verdict of another agent's probe.
    pub(super) soft_park: Deadline,
    /// The park that a server asked for: refused.
    pub(super) hard_park: Deadline,
    /// The fleet's advisory: chosen only when nothing else can be.
    pub(super) advisory: Deadline,
}

impl Holds {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        !self.soft_park.is_set() && !self.hard_park.is_set() && !self.advisory.is_set()
    }

    /// Until when an open cell waits for the verdict of another agent's probe.
    pub(super) fn verdict(&mut self) -> &mut Deadline {
        &mut self.soft_park
    }

    /// Ends both parks.
    pub(super) fn unpark(&mut self) {
        self.soft_park = Deadline::NONE;
        self.hard_park = Deadline::NONE;
    }
}
