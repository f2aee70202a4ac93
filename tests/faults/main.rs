//! Harm done to a running installation, and what must hold all the same: see [`lanekeeper_tests::History`].

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

mod agents;
mod bad_input;
mod configuration;
mod control_planes;
mod database;
mod fleet;
mod network;
mod stores;

use lanekeeper_proto::limits;
use lanekeeper_proto::message::Hello;

/// The first words of an agent that a test plays itself.
fn hello(instance: &str) -> Hello {
    Hello {
        protocol_min: limits::PROTOCOL_MIN,
        protocol_max: limits::PROTOCOL_MAX,
        agent_version: "0.1.0".to_owned(),
        gateway: lanekeeper_tests::GATEWAY.to_owned(),
        name: instance.to_owned(),
        labels: std::collections::BTreeMap::new(),
        instance: instance.to_owned(),
        applied: None,
        wall_ms: 0,
        previous_session_epoch: None,
        capabilities: Vec::new(),
    }
}
