//! The admin API: gateways, their configuration and history, overrides, tokens, the audit trail.

pub(crate) mod agents;
pub(crate) mod audit;
pub(crate) mod circuit_breaker;
pub(crate) mod config;
pub(crate) mod control_epoch;
pub(crate) mod documents;
mod empty;
pub(crate) mod gateways;
pub(crate) mod identities;
pub(crate) mod join_tokens;
mod merge_patch;
pub(crate) mod overrides;
pub(crate) mod resources;
pub(crate) mod revisions;
pub(crate) mod rollouts;
pub(crate) mod structural_diff;
pub(crate) mod tokens;

use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use lanekeeper_model::wording::is_unseen;
use lanekeeper_store::{Change, TEXT_MAX};

/// What a list's query may hold.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Where to continue: `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Entries of the page, 1 to 250. Default 100.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
}

/// What a write's query may hold.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ChangeQuery {
    /// Why the change is made; kept with the revision and in the audit trail.
    message: Option<String>,
}

/// What the query of a write to a gateway's document may hold.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DocumentChangeQuery {
    /// Why the change is made; kept with the revision and in the audit trail.
    message: Option<String>,
    /// True takes the change also when it leaves a gateway that serves without any usable pool.
    /// Default false.
    #[param(value_type = Option<bool>)]
    allow_empty: Option<String>,
}

/// A parameter that is true or false; false when it is left out.
fn flag(name: &str, value: Option<&str>) -> Result<bool, Error> {
    match value {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Error::InvalidParameter {
            name: name.to_owned(),
            reason: "must be true or false".to_owned(),
        }),
    }
}

/// The record of a change by `caller`, now.
///
/// A message goes to terminals and logs, where unseen characters could pretend to be something else.
fn change(caller: &Caller, message: Option<String>) -> Result<Change, Error> {
    let message = message.unwrap_or_default();
    let reason = if message.len() > TEXT_MAX {
        Some(format!("must not be longer than {TEXT_MAX} bytes"))
    } else if message.contains(is_unseen) {
        Some("must not have control characters, line ends or invisible characters".to_owned())
    } else {
        None
    };
    if let Some(reason) = reason {
        return Err(Error::InvalidParameter {
            name: "message".to_owned(),
            reason,
        });
    }
    Ok(Change {
        actor: caller.principal.name.clone(),
        actor_id: caller.principal.id.clone(),
        message,
        now_ms: clock::now_ms(),
        idempotency: caller.idempotency.clone(),
    })
}
