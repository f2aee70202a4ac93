//! The harness of the end-to-end tests: real processes of the one binary, on free ports, with a
//! folder of their own, killed when the test ends.

mod binary;
mod browser;
mod cluster;
mod command;
mod eventually;
mod fault_proxy;
mod fleet;
mod history;
mod node;
mod pace;
mod process;
mod python;
mod scripted;

pub use binary::{repository, target_folder};
pub use browser::{pictures, play};
pub use cluster::{Cluster, GATEWAY, Written};
pub use command::command;
pub use eventually::{LIVENESS, eventually, holds_for};
pub use fault_proxy::FaultProxy;
pub use fleet::{Fleet, Options};
pub use history::History;
pub use node::{run_npm_package, run_npm_program};
pub use pace::Pace;
pub use process::Process;
pub use python::{Tally, run_clients, run_routes};
pub use scripted::{FIRST_LANE, LaneCall, SCRIPTED_POOL, ScriptedLanes};

/// A client for plain HTTP with a bound on each request.
///
/// # Panics
///
/// When the TLS library cannot be set up, which no test can go on without.
#[must_use]
pub fn http_client() -> reqwest::Client {
    // A second installation is refused; every caller installs the same one.
    _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(std::time::Duration::from_secs(30))
        .build()
        .expect("a client without special settings")
}
