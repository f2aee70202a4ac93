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

/// Drain an agent: it reports itself as not ready to its load balancer, and finishes the requests it
/// has begun. It stays drained across reconnects until it is undrained; a process that restarts is
/// another agent.
#[utoipa::path(
    post,
    path = "/admin/v1/agents/{id}/drain",
    operation_id = "drain_agent",
    tag = "agents",
    params(("id" = String, Path, description = "The agent's instance"), ChangeQuery),
    responses(
        (status = 202, description = "Accepted; the agent's state becomes `draining` once it applies this"),
        (status = 409, description = "The agent has ended, or no other agent of its gateway takes requests"),
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

/// Undrain an agent.
#[utoipa::path(
    delete,
    path = "/admin/v1/agents/{id}/drain",
    operation_id = "undrain_agent",
    tag = "agents",
    params(("id" = String, Path, description = "The agent's instance"), ChangeQuery),
    responses(
        (status = 204, description = "Accepted"),
        (status = 404, description = "The agent is not drained"),
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

/// Forget an agent and revoke its certificate: every session under that certificate ends
/// within 5 s, and no agent can connect with it again. Only if the agent has ended (it said goodbye, or is
/// stale or gone) and a later process uses that certificate, the certificate stays valid. An agent
/// without one, on a server without TLS, is only forgotten, and returns with its next report.
#[utoipa::path(
    delete,
    path = "/admin/v1/agents/{id}",
    operation_id = "forget_agent",
    tag = "agents",
    params(("id" = String, Path, description = "The agent's instance"), ChangeQuery),
    responses(
        (status = 204, description = "Forgotten; its certificate, if any, is revoked"),
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
