//! What serves requests: lanes, their cells and permits, the pools that select among them, and the
//! compiled revision that holds them all.

pub(crate) mod cells;
pub(crate) mod grant;
pub(crate) mod lane;
pub(crate) mod orders;
pub(crate) mod pool;
pub(crate) mod snapshot;
pub(crate) mod stats;
