//! Counts of good and failed outcomes over a span of time, in bounded memory.
//!
//! A sliding window is the current slot and a ring of earlier ones. Its numerator and denominator
//! always come from the same slots, none of which is older than the span; the oldest sixty-fourth
//! part of the span is the price of not keeping every outcome. The two other kinds keep one pair
//! of totals.
//!
//! A slot that has passed is packed into 32 bits, two counts of up to 65,535. The first slot that
//! holds more makes the ring coarse: half as many slots, twice as wide, in twice the bits. Every
//! outcome counts either way, and the memory is the same at any rate.

use crate::policy::WindowKind;

/// Slots of a sliding window, the current one among them. A power of two, so that a slot number
/// finds its place by a mask.
const SLOTS: usize = 64;

const MASK: u64 = SLOTS as u64 - 1;

/// Most of one kind of outcome that a slot of a fine ring holds.
const FINE_MAX: u64 = u16::MAX as u64;

/// Where an outcome was counted, so that it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    epoch: u32,
    failed: bool,
    /// In numbers of a fine ring.
    slot: u64,
}

impl Mark {
    /// Whether the outcome was counted as a failure.
    pub(crate) fn failed(self) -> bool {
        self.failed
    }
}

/// Good and failed outcomes within a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
}

impl Totals {
    fn plus(self, more: Self) -> Self {
        Self {
            ok: self.ok.saturating_add(more.ok),
            failed: self.failed.saturating_add(more.failed),
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            ok: self.ok.saturating_sub(less.ok),
            failed: self.failed.saturating_sub(less.failed),
        }
    }

    fn fits_fine(self) -> bool {
        self.ok <= FINE_MAX && self.failed <= FINE_MAX
    }

    const fn one(failed: bool) -> Self {
        Self {
            ok: !failed as u64,
            failed: failed as u64,
        }
    }
}

/// The slots before the current one.
#[derive(Clone, Debug)]
struct Ring {
    /// Whether slots are twice as wide and take two words instead of one.
    coarse: bool,
    words: [u32; SLOTS],
}

impl Ring {
    const EMPTY: Self = Self {
        coarse: false,
        words: [0; SLOTS],
    };

    /// Slots that can be told apart, less one.
    fn mask(&self) -> u64 {
        MASK >> u32::from(self.coarse)
    }

    fn get(&self, number: u64) -> Totals {
        let word = |place: u64| self.words.get(place as usize).copied().unwrap_or(0);
        let place = number & self.mask();
        if self.coarse {
            Totals {
                ok: word(2 * place).into(),
                failed: word(2 * place + 1).into(),
            }
        } else {
            let packed = word(place);
            Totals {
                ok: (packed & 0xffff).into(),
                failed: (packed >> 16).into(),
            }
        }
    }

    /// Puts counts that fit into a slot.
    fn set(&mut self, number: u64, counts: Totals) {
        let narrow = |count: u64, most: u32| u32::try_from(count).unwrap_or(most).min(most);
        let place = (number & self.mask()) as usize;
        if self.coarse {
            // More than three million outcomes a second fill even the widest slot.
            if let Some([ok, failed]) = self.words.get_mut(2 * place..2 * place + 2) {
                *ok = narrow(counts.ok, u32::MAX);
                *failed = narrow(counts.failed, u32::MAX);
            }
        } else if let Some(word) = self.words.get_mut(place) {
            let most = u16::MAX.into();
            *word = (narrow(counts.failed, most) << 16) + narrow(counts.ok, most);
        }
    }

    /// Empties a slot and returns what it held.
    fn take(&mut self, number: u64) -> Totals {
        let held = self.get(number);
        self.set(number, Totals::default());
        held
    }
}

/// The counts a trip rule looks at. Times are nanoseconds since the cell was made.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// First moment past the current slot, or past the whole span of the other kinds.
    edge: u64,
    /// Counts of the current slot, or of the whole span of the other kinds.
    current: Totals,
    /// Number of the current slot; stays 0 for the other kinds.
    slot: u64,
    /// Changes whenever marks made before lose their meaning.
    epoch: u32,
    kind: WindowKind,
    /// Sum of the ring, whose place for the current slot is empty.
    past: Totals,
    span: u64,
    ring: Ring,
}

impl Window {
    pub(crate) fn new(kind: WindowKind, span: u64) -> Self {
        Self {
            edge: 0,
            current: Totals::default(),
            slot: 0,
            epoch: 0,
            kind,
            past: Totals::default(),
            span,
            ring: Ring::EMPTY,
        }
    }

    /// Counts one outcome at `now` and returns where.
    #[inline]
    pub(crate) fn record(&mut self, failed: bool, now: u64) -> Mark {
        if now >= self.edge {
            self.advance(now);
        }
        if self.kind == WindowKind::Counter && self.current.failed == 0 {
            // A counter exists from its first failure only; what went well before is no part of it.
            if !failed {
                return self.uncounted();
            }
            self.clear();
            self.edge = now.saturating_add(self.span.saturating_mul(2));
        }
        let count = if failed {
            &mut self.current.failed
        } else {
            &mut self.current.ok
        };
        *count = count.saturating_add(1);
        Mark {
            epoch: self.epoch,
            failed,
            slot: self.slot << u32::from(self.ring.coarse),
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
        let slot = mark.slot >> u32::from(self.ring.coarse);
        let age = self.slot.saturating_sub(slot);
        if mark.epoch != self.epoch || age > self.ring.mask() {
            return;
        }
        let one = Totals::one(mark.failed);
        if age == 0 {
            self.current = self.current.minus(one);
        } else {
            let held = self.ring.get(slot);
            let left = held.minus(one);
            self.ring.set(slot, left);
            self.past = self.past.minus(held.minus(left));
        }
    }

    /// The counts at `now`, without moving the window there.
    pub(crate) fn totals_at(&self, now: u64) -> Totals {
        let totals = self.past.plus(self.current);
        if now < self.edge {
            return totals;
        }
        if self.kind != WindowKind::Sliding {
            return Totals::default();
        }
        let steps = (now / self.width()).saturating_sub(self.slot);
        if steps > self.ring.mask() {
            return Totals::default();
        }
        (1..=steps).fold(totals, |left, step| {
            left.minus(self.ring.get(self.slot + step))
        })
    }

    /// Forgets everything counted.
    pub(crate) fn clear(&mut self) {
        self.current = Totals::default();
        self.past = Totals::default();
        self.slot = 0;
        self.ring = Ring::EMPTY;
        self.epoch = self.epoch.wrapping_add(1);
        self.edge = 0;
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
        let totals = self.past.plus(self.current);
        let mut next = Self::new(kind, span);
        next.epoch = self.epoch;
        next.advance(now);
        if kind == WindowKind::Sliding && !totals.fits_fine() {
            // Only now: moving an empty window makes it fine again.
            next.coarsen();
            next.slide(now);
        }
        next.epoch = self.epoch.wrapping_add(1);
        if kind == WindowKind::Sliding && self.kind == WindowKind::Sliding {
            let width = self.width();
            for age in 0..=self.ring.mask().min(self.slot) {
                let number = self.slot - age;
                let counts = if age == 0 {
                    self.current
                } else {
                    self.ring.get(number)
                };
                let middle = number.saturating_mul(width).saturating_add(width / 2);
                next.fill(middle.min(now) / next.width(), counts);
            }
        } else if totals != Totals::default() {
            next.current = totals;
            if kind == WindowKind::Counter {
                next.edge = now.saturating_add(span.saturating_mul(2));
            }
        }
        *self = next;
    }

    fn fill(&mut self, number: u64, counts: Totals) {
        let age = self.slot.saturating_sub(number);
        if age == 0 {
            self.current = self.current.plus(counts);
        } else if age <= self.ring.mask() {
            let held = self.ring.get(number);
            self.ring.set(number, held.plus(counts));
            self.past = self.past.plus(counts);
        }
    }

    /// Width of a slot.
    fn width(&self) -> u64 {
        let fine = self.span.div_ceil(SLOTS as u64).max(1);
        fine << u32::from(self.ring.coarse)
    }

    /// Moves to the slot of `now`, which lies at or past the edge.
    #[cold]
    fn advance(&mut self, now: u64) {
        match self.kind {
            WindowKind::Sliding => {
                if !self.current.fits_fine() {
                    self.coarsen();
                }
                self.slide(now);
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

    fn slide(&mut self, now: u64) {
        let steps = (now / self.width()).saturating_sub(self.slot);
        if steps > self.ring.mask() {
            let epoch = self.epoch;
            self.clear();
            // Marks of outcomes that left by age are recognised without another epoch.
            self.epoch = epoch;
        } else if steps > 0 {
            self.ring.set(self.slot, self.current);
            self.past = self.past.plus(self.current);
            self.current = Totals::default();
            for step in 1..=steps {
                let gone = self.ring.take(self.slot + step);
                self.past = self.past.minus(gone);
            }
        }
        let width = self.width();
        self.slot = self.slot.max(now / width);
        self.edge = self.slot.saturating_add(1).saturating_mul(width);
    }

    /// Makes the ring coarse: every slot moves into the one that covers its time.
    fn coarsen(&mut self) {
        if self.ring.coarse {
            return;
        }
        let fine = std::mem::replace(&mut self.ring, Ring::EMPTY);
        let number = self.slot;
        self.ring.coarse = true;
        self.slot = number >> 1;
        self.past = Totals::default();
        for age in 1..=MASK.min(number) {
            let earlier = number - age;
            self.fill(earlier >> 1, fine.get(earlier));
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
