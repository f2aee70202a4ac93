//! What an operator says after the configuration database was restored from a backup.

use super::{ChangeQuery, change};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::Query;
use axum::extract::State;

/// The control epoch that has begun.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct ControlEpoch {
    /// Names the history of revisions from here.
    control_epoch: String,
}

/// Begin a new control epoch. Within one, an agent never goes back to a lower revision; after a
/// backup was restored the newest revision may be lower than what agents serve, and only a new
/// epoch lets them take it.
#[utoipa::path(
    post,
    path = "/admin/v1/control-epoch/renew",
    operation_id = "renew_control_epoch",
    tag = "gateways",
    params(ChangeQuery),
    responses((status = 200, description = "It has begun", body = ControlEpoch))
)]
pub(crate) async fn renew(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ChangeQuery>,
) -> Result<axum::Json<ControlEpoch>, Error> {
    let change = change(&caller, query.message)?;
    let control_epoch = app.store.renew_control_epoch(&change).await?;
    app.fleet.wake();
    Ok(axum::Json(ControlEpoch { control_epoch }))
}
