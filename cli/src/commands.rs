//! One file per command.

pub(crate) mod agent;
pub(crate) mod agents;
pub(crate) mod apply;
pub(crate) mod ca;
pub(crate) mod check;
mod columns;
pub(crate) mod completion;
pub(crate) mod control_plane;
pub(crate) mod dashboard_api;
pub(crate) mod delete;
pub(crate) mod diff;
mod document;
pub(crate) mod fleet_sim;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod join_token;
pub(crate) mod man;
pub(crate) mod overrides;
pub(crate) mod own_folder;
pub(crate) mod ready;
pub(crate) mod rollback;
pub(crate) mod rollout;
pub(crate) mod server;
pub(crate) mod sim_provider;
pub(crate) mod token;
pub(crate) mod watch;
