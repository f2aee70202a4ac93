//! Operators' overrides of a cell, as values with an end.

use std::time::Instant;

use crate::names::names;

names! {
    /// What an override does.
    pub enum OverrideAction {
        /// Refuse every attempt.
        ForceOpen = "force_open",
        /// Admit every attempt and record without tripping.
        ForceClose = "force_close",
        /// Let running attempts finish and admit no new one.
        Drain = "drain",
        /// Close the cell and forget its history; takes effect once and does not last.
        Reset = "reset",
    }
}

/// An override with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// What to do.
    pub action: OverrideAction,
    /// When the override ends by itself. Ignored for a reset.
    pub until: Instant,
}
