//! What serves requests: lanes, their cells and permits, the pools that select among them, and the
//! compiled revision that holds them all.

pub(crate) mod attempt_guard;
pub(crate) mod cells;
pub(crate) mod lane;
pub(crate) mod leases;
pub(crate) mod overrides;
pub(crate) mod pool;
pub(crate) mod provider;
pub(crate) mod served;
pub(crate) mod snapshot;
pub(crate) mod stats;
