//! Counts of good and failed outcomes over a span of time, in bounded memory.

/// Where an outcome was counted, so that it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Which filling of the window the count belongs to.
    pub(crate) epoch: u32,
    /// Slot number within that filling.
    pub(crate) slot: u64,
    /// Counted as a failure.
    pub(crate) failed: bool,
}
