//! Counts of good and failed outcomes over a span of time, in bounded memory.
//!
//! A sliding window is a ring of [`SLOTS`] slots. Its numerator and denominator always come from
//! the same slots, none of which is older than the span; the oldest sixty-fourth part of the span
//! is the price of not keeping every outcome. The two other kinds keep one pair of totals.

use crate::policy::WindowKind;

/// Slots of a sliding window. A power of two, so that a slot number finds its place by a mask.
///
/// A slot counts in `u32`: the longest window makes it 22 minutes wide, and more than three
/// million outcomes a second would be needed all that time to fill it.
const SLOTS: usize = 64;

const MASK: u64 = SLOTS as u64 - 1;

/// Where an outcome was counted, so that it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    epoch: u32,
    failed: bool,
    slot: u64,
}

impl Mark {
    /// Whether the outcome was counted as a failure.
    pub(crate) fn failed(self) -> bool {
        self.failed
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    ok: u32,
    failed: u32,
}

/// Good and failed outcomes within a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
}

/// The counts a trip rule looks at. Times are nanoseconds since the cell was made.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// First moment past the current slot, or past the whole span of the other kinds.
    edge: u64,
    /// Number of the current slot; stays 0 for the other kinds.
    slot: u64,
    /// Changes whenever marks made before lose their meaning.
    epoch: u32,
    kind: WindowKind,
    totals: Totals,
    span: u64,
    width: u64,
    slots: [Slot; SLOTS],
}

impl Window {
    pub(crate) fn new(kind: WindowKind, span: u64) -> Self {
        Self {
            edge: 0,
            slot: 0,
            epoch: 0,
            kind,
            totals: Totals::default(),
            span,
            width: span.div_ceil(SLOTS as u64).max(1),
            slots: [Slot::default(); SLOTS],
        }
    }

    /// Counts one outcome at `now` and says where.
    #[inline]
    pub(crate) fn record(&mut self, failed: bool, now: u64) -> Mark {
        if now >= self.edge {
            self.advance(now);
        }
        if self.kind == WindowKind::Counter && self.totals.failed == 0 {
            // A counter exists from its first failure only; what went well before is no part of it.
            if !failed {
                return self.uncounted();
            }
            self.clear();
            self.edge = now.saturating_add(self.span.saturating_mul(2));
        }
        if let Some(slot) = self.slots.get_mut((self.slot & MASK) as usize) {
            let (count, total) = if failed {
                (&mut slot.failed, &mut self.totals.failed)
            } else {
                (&mut slot.ok, &mut self.totals.ok)
            };
            *count = count.saturating_add(1);
            *total = total.saturating_add(1);
        }
        Mark {
            epoch: self.epoch,
            failed,
            slot: self.slot,
        }
    }

    /// Takes back an outcome, unless it has left the window already.
    pub(crate) fn withdraw(&mut self, mark: Mark, now: u64) {
        if now >= self.edge {
            if self.kind != WindowKind::Sliding {
                return;
            }
            self.advance(now);
        }
        if mark.epoch != self.epoch || self.slot.saturating_sub(mark.slot) > MASK {
            return;
        }
        if let Some(slot) = self.slots.get_mut((mark.slot & MASK) as usize) {
            let (count, total) = if mark.failed {
                (&mut slot.failed, &mut self.totals.failed)
            } else {
                (&mut slot.ok, &mut self.totals.ok)
            };
            *count = count.saturating_sub(1);
            *total = total.saturating_sub(1);
        }
    }

    /// The counts at `now`, without moving the window there.
    pub(crate) fn totals_at(&self, now: u64) -> Totals {
        if now < self.edge {
            return self.totals;
        }
        if self.kind != WindowKind::Sliding {
            return Totals::default();
        }
        let steps = (now / self.width).saturating_sub(self.slot);
        if steps > MASK {
            return Totals::default();
        }
        let mut left = self.totals;
        for step in 1..=steps {
            if let Some(slot) = self.slots.get(((self.slot + step) & MASK) as usize) {
                left.ok = left.ok.saturating_sub(u64::from(slot.ok));
                left.failed = left.failed.saturating_sub(u64::from(slot.failed));
            }
        }
        left
    }

    /// Forgets everything counted.
    pub(crate) fn clear(&mut self) {
        self.totals = Totals::default();
        self.slots = [Slot::default(); SLOTS];
        self.epoch = self.epoch.wrapping_add(1);
        if self.kind != WindowKind::Sliding {
            self.edge = 0;
        }
    }

    /// Takes on another kind or span and keeps what it can of the counts.
    ///
    /// Between two sliding spans every slot moves to the place of its middle. A change of kind
    /// carries the sums over as if they had all happened now.
    pub(crate) fn reshape(&mut self, kind: WindowKind, span: u64, now: u64) {
        if kind == self.kind && span == self.span {
            return;
        }
        if now >= self.edge {
            self.advance(now);
        }
        let mut next = Self::new(kind, span);
        next.epoch = self.epoch.wrapping_add(1);
        next.advance(now);
        if kind == WindowKind::Sliding && self.kind == WindowKind::Sliding {
            for age in 0..=MASK.min(self.slot) {
                let number = self.slot - age;
                let middle = number.saturating_mul(self.width) + self.width / 2;
                if let Some(slot) = self.slots.get((number & MASK) as usize) {
                    next.fill(middle.min(now) / next.width, *slot);
                }
            }
        } else if self.totals != Totals::default() {
            next.totals = self.totals;
            if kind == WindowKind::Counter {
                next.edge = now.saturating_add(span.saturating_mul(2));
            }
            let sum = Slot {
                ok: u32::try_from(self.totals.ok).unwrap_or(u32::MAX),
                failed: u32::try_from(self.totals.failed).unwrap_or(u32::MAX),
            };
            if let Some(slot) = next.slots.get_mut((next.slot & MASK) as usize) {
                *slot = sum;
            }
        }
        *self = next;
    }

    fn fill(&mut self, number: u64, counts: Slot) {
        if self.slot.saturating_sub(number) > MASK {
            return;
        }
        if let Some(slot) = self.slots.get_mut((number & MASK) as usize) {
            slot.ok = slot.ok.saturating_add(counts.ok);
            slot.failed = slot.failed.saturating_add(counts.failed);
            self.totals.ok += u64::from(counts.ok);
            self.totals.failed += u64::from(counts.failed);
        }
    }

    /// Moves to the slot of `now`, which lies at or past the edge.
    #[cold]
    fn advance(&mut self, now: u64) {
        match self.kind {
            WindowKind::Sliding => {
                let number = now / self.width;
                let steps = number.saturating_sub(self.slot);
                if steps > MASK {
                    self.totals = Totals::default();
                    self.slots = [Slot::default(); SLOTS];
                } else {
                    for step in 1..=steps {
                        let place = ((self.slot + step) & MASK) as usize;
                        if let Some(slot) = self.slots.get_mut(place) {
                            let gone = std::mem::take(slot);
                            self.totals.ok = self.totals.ok.saturating_sub(u64::from(gone.ok));
                            self.totals.failed =
                                self.totals.failed.saturating_sub(u64::from(gone.failed));
                        }
                    }
                }
                self.slot = number;
                self.edge = number.saturating_add(1).saturating_mul(self.width);
            }
            WindowKind::Tumbling => {
                self.clear();
                self.edge = now.saturating_add(self.span);
            }
            WindowKind::Counter => {
                self.clear();
                self.edge = u64::MAX;
            }
        }
    }

    /// A mark that takes nothing back.
    fn uncounted(&self) -> Mark {
        Mark {
            epoch: self.epoch.wrapping_sub(1),
            failed: false,
            slot: self.slot,
        }
    }
}

#[cfg(test)]
mod tests;
