//! The data plane of Lanekeeper: an agent that proxies model traffic over pools of lanes, keeps a
//! breaker cell for each, and decides everything on its own.

mod adopt;
mod attempt;
mod cache;
mod cells;
mod clients;
mod clock;
pub mod config;
mod control;
mod cut;
mod failover;
pub mod file;
mod grant;
mod ingress;
mod lane;
mod metrics;
mod ops;
mod orders;
pub mod plane;
mod pool;
mod probe;
pub mod protocol;
mod relay;
mod reply;
mod run;
mod secrets;
mod snapshot;
pub mod stats;
mod status;
mod trace;
pub mod upstream;
mod visit;

#[cfg(feature = "simulation")]
pub use control::simulation;

pub use config::{ClientTls, Config, Join, Source};
pub use run::{Addresses, Error, Shutdown, run};
