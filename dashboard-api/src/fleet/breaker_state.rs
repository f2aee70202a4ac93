//! `GET /api/v1/breaker-state` and `GET /api/v1/summary`: what the whole fleet sees.

use crate::app::App;
use crate::error::Error;
use crate::fleet_view::{FleetSnapshot, etag};
use crate::input::Query;
use crate::input::precondition::held;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};
use lanekeeper_model::fleet::{Summary, ViewState, explain_overrides};
use lanekeeper_model::{FleetView, ViewQuery};
use std::sync::Arc;

/// What of the fleet to show.
#[derive(Debug, Clone, Default, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BreakerQuery {
    /// Only this gateway.
    gateway: Option<String>,
    /// Only this pool; empty for direct routes.
    pool: Option<String>,
    /// Only this lane.
    lane: Option<String>,
    /// Only lanes of this provider, and its own cells.
    provider: Option<String>,
    /// Only cells whose worst state is `closed`, `half_open`, `open` or `unknown`.
    #[param(inline, value_type = Option<CellState>)]
    state: Option<String>,
    /// `closed` lists closed cells too.
    #[param(inline, value_type = Option<Included>)]
    include: Option<String>,
    /// `agents` adds each agent's own view of each cell.
    #[param(inline, value_type = Option<Detailed>)]
    detail: Option<String>,
}

/// The worst state of a cell.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the model's type to readers of the API")]
enum CellState {
    Closed,
    HalfOpen,
    Open,
    Unknown,
}

/// What is listed beside cells that are not closed.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes a parameter to readers of the API")]
enum Included {
    Closed,
}

/// What is added to each cell.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes a parameter to readers of the API")]
enum Detailed {
    Agents,
}

impl BreakerQuery {
    /// The query in the model's terms.
    pub(super) fn parse(self) -> Result<ViewQuery, Error> {
        let state = self
            .state
            .map(|name| {
                ViewState::from_name(&name).ok_or_else(|| Error::InvalidParameter {
                    name: "state".to_owned(),
                    reason: "must be closed, half_open, open or unknown".to_owned(),
                })
            })
            .transpose()?;
        Ok(ViewQuery {
            gateway: self.gateway.map(Into::into),
            pool: self.pool.map(Into::into),
            lane: self.lane.map(Into::into),
            provider: self.provider.map(Into::into),
            state,
            include_closed: word("include", self.include, "closed")?,
            detail_agents: word("detail", self.detail, "agents")?,
        })
    }
}

/// Whether a parameter that knows one word was given.
fn word(name: &str, given: Option<String>, known: &str) -> Result<bool, Error> {
    match given {
        None => Ok(false),
        Some(word) if word == known => Ok(true),
        Some(_) => Err(Error::InvalidParameter {
            name: name.to_owned(),
            reason: format!("must be '{known}'"),
        }),
    }
}

/// The view as of a snapshot. Each agent's own word takes milliseconds in a large fleet, so it is
/// looked up beside the threads that serve requests.
pub(crate) async fn view(
    app: &App,
    snapshot: &Arc<FleetSnapshot>,
    query: ViewQuery,
) -> Result<FleetView, Error> {
    let mut view = snapshot.folded.view(&query);
    if query.detail_agents {
        let (app, snapshot) = (app.clone(), Arc::clone(snapshot));
        let detailed = move || {
            app.fleet.add_agents(&mut view, &snapshot);
            view
        };
        view = tokio::task::spawn_blocking(detailed)
            .await
            .map_err(|error| Error::Internal(error.into()))?;
    }
    view.partial = snapshot.partial;
    view.rebuilding = snapshot.rebuilding;
    explain_overrides(&mut view, &snapshot.overrides, snapshot.now_ms);
    Ok(view)
}

/// Show the fleet's breakers. A cell that is not listed is closed and usable on every agent that
/// reports, and at least one does.
#[utoipa::path(
    get,
    path = "/api/v1/breaker-state",
    operation_id = "show_breaker_state",
    tag = "fleet",
    params(BreakerQuery),
    responses(
        (status = 200, description = "The view; its weak ETag ignores what only the clock changes",
         body = ref("#/components/schemas/FleetView")),
        (status = 304, description = "Nothing but ages changed"),
        (status = 400, description = "A parameter is unknown or cannot be used"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Query(query): Query<BreakerQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let query = query.parse()?;
    let view = view(&app, &app.fleet.snapshot().await?, query).await?;
    let tag = etag::tag(&etag::timeless(view.clone()));
    if held(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response());
    }
    Ok(([(ETAG, tag)], axum::Json(view)).into_response())
}

/// What the numbers are of.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SummaryQuery {
    /// Only this gateway.
    gateway: Option<String>,
}

/// Show the fleet, or one gateway, in a few numbers.
#[utoipa::path(
    get,
    path = "/api/v1/summary",
    operation_id = "show_summary",
    tag = "fleet",
    params(SummaryQuery),
    responses((status = 200, description = "Cells, pools and agents by state, gateways, incidents now",
               body = ref("#/components/schemas/Summary")))
)]
pub(crate) async fn count(
    State(app): State<App>,
    Query(query): Query<SummaryQuery>,
) -> Result<axum::Json<Summary>, Error> {
    let snapshot = app.fleet.snapshot().await?;
    let gateway = query.gateway.map(Into::into);
    let mut numbers = snapshot.folded.summary(gateway.as_ref());
    numbers.partial = snapshot.partial;
    numbers.rebuilding = snapshot.rebuilding;
    numbers.open_incidents = snapshot.open_incidents(gateway.as_ref());
    Ok(axum::Json(numbers))
}
