//! `GET /api/v1/pools`: whether callers are served, by what they address.

use crate::app::App;
use crate::error::Error;
use crate::input::{Path, Query, cursor};
use axum::extract::State;
use lanekeeper_model::fleet::PoolView;

/// Which pools to list.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PoolsQuery {
    /// Only pools of this gateway.
    gateway: Option<String>,
    /// Where to continue: `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Entries of the page, 1 to 250. Default 100.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 250)]
    limit: Option<String>,
}

/// A page of pools, by gateway and name.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct PoolPage {
    /// True when a share of the reports is missing, and while `rebuilding`.
    partial: bool,
    /// True after a start of the server, until every agent that was known before has come back or
    /// has had its time for it.
    rebuilding: bool,
    /// The pools. Direct routes are among them, under the empty name, where they serve.
    pools: Vec<PoolView>,
    /// Where the next page starts; null on the last one.
    next_cursor: Option<String>,
}

/// List pools: what they can serve with, on how many agents they are exhausted, and what came of
/// their requests over the last minute and ten minutes.
#[utoipa::path(
    get,
    path = "/api/v1/pools",
    operation_id = "list_pools",
    tag = "fleet",
    params(PoolsQuery),
    responses((status = 200, description = "A page of pools, by gateway and name",
               body = ref("#/components/schemas/PoolPage")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(query): Query<PoolsQuery>,
) -> Result<axum::Json<PoolPage>, Error> {
    let limit = cursor::limit(query.limit.as_deref())?;
    let after = query.cursor.as_deref().map(place).transpose()?;
    let snapshot = app.fleet.snapshot().await?;
    let gateway = query.gateway.map(Into::into);
    let mut pools = snapshot.pools(gateway.as_ref());
    if let Some(after) = after {
        pools.retain(|pool| (&*pool.gateway, &*pool.pool) > (&*after.0, &*after.1));
    }
    let next_cursor = cursor::cut(&mut pools, limit, |last| {
        format!("{}\n{}", last.gateway, last.pool)
    });
    Ok(axum::Json(PoolPage {
        partial: snapshot.partial,
        rebuilding: snapshot.rebuilding,
        pools,
        next_cursor,
    }))
}

/// Show one pool.
#[utoipa::path(
    get,
    path = "/api/v1/pools/{gateway}/{pool}",
    operation_id = "show_pool",
    tag = "fleet",
    params(
        ("gateway" = String, Path, description = "The gateway"),
        ("pool" = String, Path, description = "The pool"),
    ),
    responses(
        (status = 200, description = "The pool", body = ref("#/components/schemas/PoolView")),
        (status = 404, description = "The gateway has no such pool"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path((gateway, pool)): Path<(String, String)>,
) -> Result<axum::Json<PoolView>, Error> {
    let snapshot = app.fleet.snapshot().await?;
    let gateway = gateway.into();
    let mut pools = snapshot.pools(Some(&gateway)).into_iter();
    match pools.find(|view| *view.pool == *pool) {
        Some(view) => Ok(axum::Json(view)),
        None => Err(Error::NotFound {
            kind: "pool",
            name: format!("{gateway}/{pool}"),
        }),
    }
}

/// The gateway and pool that a cursor stands for.
fn place(cursor: &str) -> Result<(String, String), Error> {
    let key = cursor::key(cursor)?;
    key.split_once('\n')
        .map(|(gateway, pool)| (gateway.to_owned(), pool.to_owned()))
        .ok_or_else(|| Error::InvalidParameter {
            name: "cursor".to_owned(),
            reason: "belongs to another list".to_owned(),
        })
}
