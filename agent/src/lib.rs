//! The data plane of Lanekeeper: an agent that proxies model traffic over pools of lanes, keeps a
//! breaker cell for each, and decides everything on its own.

mod cells;
mod clock;
mod metrics;
pub mod plane;
pub mod protocol;
pub mod stats;
pub mod upstream;
