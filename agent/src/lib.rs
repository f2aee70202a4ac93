//! The data plane of Lanekeeper: an agent that proxies model traffic over pools of lanes, keeps a
//! breaker cell for each, and decides everything on its own.

mod adopt;
mod cache;
mod cells;
mod clock;
pub mod config;
mod control;
pub mod file;
mod metrics;
mod ops;
pub mod plane;
pub mod protocol;
mod run;
pub mod stats;
mod status;
pub mod upstream;

pub use config::{ClientTls, Config, Source};
pub use run::{Addresses, Error, Shutdown, run};
