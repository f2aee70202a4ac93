//! Agents: take one out of service, take it back, forget it.

use super::{ChangeQuery, change};
use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::fleet_view::FleetSnapshot;
use crate::input::{Path, Query};
use axum::extract::State;
use http::StatusCode;
use lanekeeper_model::GatewayName;

/// The gateway of an agent, which must be known.
fn gateway_of(snapshot: &FleetSnapshot, instance: &str) -> Result<GatewayName, Error> {
    snapshot
        .gateway_of(instance)
        .ok_or_else(|| Error::NotFound {
            kind: "agent",
            name: instance.to_owned(),
        })
}

/// Take an agent out of service: it tells its load balancer that it is not ready, and ends what it
/// has begun. It stays so across reconnects until it is taken back; a process that starts anew is
/// another agent.
#[utoipa::path(
    post,
    path = "/admin/v1/agents/{id}/drain",
    operation_id = "drain_agent",
    tag = "agents",
    params(("id" = String, Path, description = "The agent's instance"), ChangeQuery),
    responses(
        (status = 202, description = "Ordered; the agent's state becomes `draining` when it obeys"),
        (status = 404, description = "There is no such agent",
         body = crate::problem::ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "It has ended, or no other agent of its gateway takes requests",
         body = crate::problem::ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn drain(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ChangeQuery>,
) -> Result<StatusCode, Error> {
    let snapshot = app.fleet.snapshot().await?;
    let gateway = gateway_of(&snapshot, &id)?;
    if snapshot.has_left(&id) {
        return Err(Error::AgentGone);
    }
    let live = snapshot.serving(&gateway, clock::now_ms());
    let change = change(&caller, query.message)?;
    app.store.drain_agent(&gateway, &id, &live, &change).await?;
    app.announce_overrides(&gateway).await;
    Ok(StatusCode::ACCEPTED)
}

/// Take an agent back into service.
#[utoipa::path(
    delete,
    path = "/admin/v1/agents/{id}/drain",
    operation_id = "undrain_agent",
    tag = "agents",
    params(("id" = String, Path, description = "The agent's instance"), ChangeQuery),
    responses(
        (status = 204, description = "Ordered"),
        (status = 404, description = "It is not out of service",
         body = crate::problem::ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn undrain(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ChangeQuery>,
) -> Result<StatusCode, Error> {
    let change = change(&caller, query.message)?;
    app.store.undrain_agent(&id, &change).await?;
    let snapshot = app.fleet.snapshot().await?;
    if let Some(gateway) = snapshot.gateway_of(&id) {
        app.announce_overrides(&gateway).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Forget an agent and revoke the certificate that it came with: every session that came with it ends
/// within 5 s, and nobody is let in again by it. Only where the agent is over (it said goodbye, or is
/// stale or gone) and a later process came with that certificate, the certificate stays. An agent
/// without one, of a server without TLS, is forgotten only, and comes back with its next report.
#[utoipa::path(
    delete,
    path = "/admin/v1/agents/{id}",
    operation_id = "forget_agent",
    tag = "agents",
    params(("id" = String, Path, description = "The agent's instance"), ChangeQuery),
    responses(
        (status = 204, description = "Forgotten, and its certificate, if it had one, revoked"),
        (status = 404, description = "There is no such agent",
         body = crate::problem::ProblemDocument, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn forget(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ChangeQuery>,
) -> Result<StatusCode, Error> {
    let change = change(&caller, query.message)?;
    let snapshot = app.fleet.snapshot().await?;
    let is_over = snapshot.is_over(&id, clock::now_ms());
    if app.store.forget_agent(&id, is_over, &change).await? {
        app.announce_identity_revocation().await;
    }
    if let Some(gateway) = snapshot.gateway_of(&id) {
        app.live.forget(&gateway, &id).await?;
    }
    app.fleet.wake();
    Ok(StatusCode::NO_CONTENT)
}
