//! An operator's orders to a cell, as values with an end.

use std::time::Instant;

use crate::words::words;

words! {
    /// What an operator orders.
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

/// An operator's order with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// What to do.
    pub action: OverrideAction,
    /// When the order ends by itself. Ignored for a reset.
    pub until: Instant,
}
