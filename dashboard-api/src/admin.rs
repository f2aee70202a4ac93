//! The admin API: gateways, their configuration and history, tokens, the audit trail.

pub(crate) mod audit;
pub(crate) mod config;
pub(crate) mod gateways;
mod merge_patch;
pub(crate) mod resources;
pub(crate) mod revisions;
pub(crate) mod structural_diff;
pub(crate) mod tokens;

use crate::auth::Caller;
use crate::clock;
use lanekeeper_store::Change;

/// What a list's query may hold.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Where to go on: `next_cursor` of the page before.
    cursor: Option<String>,
    /// Entries of the page, 1 to 250. Default 100.
    limit: Option<u32>,
}

/// What a write's query may hold.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ChangeQuery {
    /// Why the change is made; kept with the revision and in the audit trail.
    message: Option<String>,
}

/// The record of a change by `caller`, now.
fn change(caller: &Caller, message: Option<String>) -> Change {
    Change {
        actor: caller.0.name.clone(),
        message: message.unwrap_or_default(),
        now_ms: clock::now_ms(),
    }
}
