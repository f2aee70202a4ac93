//! One file per command.

pub(crate) mod agent;
pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod control_plane;
pub(crate) mod dashboard_api;
mod document;
pub(crate) mod get;
pub(crate) mod server;
pub(crate) mod sim_provider;
