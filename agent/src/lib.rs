//! The data plane of Lanekeeper: an agent that proxies model traffic over pools of lanes, keeps a
//! breaker cell for each, and decides everything on its own.

mod clients;
mod clock;
pub mod config;
mod fleet;
mod lanes;
mod observe;
mod ops;
pub mod plane;
mod probe;
mod proof;
mod request;
pub mod revision;
mod run;
mod secrets;
mod status;
pub mod upstream;

/// The state of one session client, for whatever keeps a session without being an agent.
pub use fleet::link as session_client;
#[cfg(feature = "simulation")]
pub use fleet::simulation;

pub use config::{ClientTls, Config, Join, Source};
pub use run::{Addresses, Error, Shutdown, run};
