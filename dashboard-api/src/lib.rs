//! The HTTP side of Lanekeeper: the read API over the fleet's breakers, the admin API over gateways
//! and tokens, their description, and the page that shows them.
//!
//! Every route stands in one table with its role. Errors are problem documents whatever layer
//! made them. Nothing here talks to agents: configuration goes to the store, the fleet's state
//! comes from the live view.
//!
//! Two tasks run beside the requests: one follows hints of other replicas, one keeps the snapshot of
//! the fleet fresh while somebody looks.

mod admin;
mod app;
mod auth;
mod caller;
mod clock;
mod config;
mod envelope;
mod error;
mod event_hub;
mod fleet;
mod fleet_view;
mod idempotency;
mod input;
mod managed;
mod openapi;
mod page;
mod probes;
mod problem;
mod revision_info;
mod route;
mod routes;
mod run;
#[cfg(test)]
mod tests;
mod token_cache;

pub use config::{Addresses, Config};
pub use run::{RunError, run, run_when};
