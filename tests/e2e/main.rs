//! The whole system by story: real processes of the one binary, real client packages, real faults.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

mod advisories;
mod bad_input;
mod clients;
mod coding_agents;
mod command_line;
mod config_push;
mod draining;
mod enrolment;
mod fleet_sim;
mod fleet_view;
mod habits;
mod halves;
mod incidents;
mod lost_agent;
mod lost_server;
mod managing;
mod metrics;
mod node_packages;
mod overrides;
mod page;
mod probe_leases;
mod provider_breaker;
mod recovery;
mod replay;
mod replicas;
mod rollouts;
mod standalone;
mod traces;
mod turns;
mod usability;
mod vendor_packages;
mod waiting;
