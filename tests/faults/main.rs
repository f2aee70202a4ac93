//! Harm done to a running installation, and what must hold all the same: see [`lanekeeper_tests::History`].

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

mod agents;
mod configuration;
mod control_planes;
mod stores;
