//! The control plane over real sockets, with agents that follow a script.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a failed step of a test is a failed test"
)]

mod cluster_keys;
mod configuration;
mod copies;
mod enrolment;
mod faults;
mod kubernetes;
mod outages;
mod overrides;
mod reports;
mod rollouts;
mod scripted;
mod tls;
mod versions;
