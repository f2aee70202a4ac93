//! Which agents hold certificates, whose signature counts, and the end of either.

use super::{ChangeQuery, change};
use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::input::{Path, Query};
use axum::extract::State;
use http::StatusCode;
use lanekeeper_store::{Authority, Identity};

/// Which identities a list is of.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct IdentityQuery {
    /// Those of one gateway.
    gateway: Option<String>,
}

/// An agent that holds a certificate.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct IdentityInfo {
    /// The identity's id, the same through all renewals and restarts.
    id: String,
    /// The one gateway it may serve.
    gateway: String,
    /// The agent's name when it joined.
    name: String,
    /// What it joined with: `join-tokens/ID` or `kubernetes/NAMESPACE/SERVICE_ACCOUNT`.
    origin: String,
    /// When it joined, RFC 3339.
    joined_at: String,
    /// When it got its latest certificate, RFC 3339.
    renewed_at: String,
    /// When that certificate ends, RFC 3339.
    expires_at: String,
    /// When it was revoked, RFC 3339; null = it is in force.
    revoked_at: Option<String>,
}

impl From<Identity> for IdentityInfo {
    fn from(identity: Identity) -> Self {
        Self {
            id: identity.id,
            gateway: identity.gateway,
            name: identity.name,
            origin: identity.origin,
            joined_at: clock::rfc3339(identity.created_ms),
            renewed_at: clock::rfc3339(identity.renewed_ms),
            expires_at: clock::rfc3339(identity.expires_ms),
            revoked_at: identity.revoked_ms.map(clock::rfc3339),
        }
    }
}

/// Identities whose certificates last.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct IdentityList {
    /// The latest renewed first; at most 20,000. Revoked ones until their certificates end.
    identities: Vec<IdentityInfo>,
}

/// An authority that certificates come from.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct AuthorityInfo {
    /// SHA-256 of its certificate, hex.
    fingerprint: String,
    /// Its certificate, PEM.
    certificate: String,
    /// When it was first seen, RFC 3339.
    added_at: String,
    /// When its certificate ends, RFC 3339.
    expires_at: String,
    /// When it is trusted no longer because a newer one came, RFC 3339; null = it is the newest.
    retires_at: Option<String>,
}

impl From<Authority> for AuthorityInfo {
    fn from(authority: Authority) -> Self {
        Self {
            fingerprint: authority.fingerprint,
            certificate: authority.certificate,
            added_at: clock::rfc3339(authority.added_ms),
            expires_at: clock::rfc3339(authority.expires_ms),
            retires_at: authority.retires_ms.map(clock::rfc3339),
        }
    }
}

/// The authorities that are trusted.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct AuthorityList {
    /// Oldest first.
    authorities: Vec<AuthorityInfo>,
}

/// List the agents that hold certificates.
#[utoipa::path(
    get,
    path = "/admin/v1/identities",
    operation_id = "list_identities",
    tag = "enrolment",
    params(IdentityQuery),
    responses((status = 200, description = "Identities whose certificates last",
               body = IdentityList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(query): Query<IdentityQuery>,
) -> Result<axum::Json<IdentityList>, Error> {
    let gateway = query.gateway.as_deref();
    let rows = app.store.identities(gateway, clock::now_ms()).await?;
    Ok(axum::Json(IdentityList {
        identities: rows.into_iter().map(IdentityInfo::from).collect(),
    }))
}

/// Revoke an agent's certificates. Its session ends within five seconds and it gets no other; it
/// goes on serving what it has.
#[utoipa::path(
    delete,
    path = "/admin/v1/identities/{id}",
    operation_id = "revoke_identity",
    tag = "enrolment",
    params(("id" = String, Path, description = "The identity's id"), ChangeQuery),
    responses(
        (status = 204, description = "Revoked"),
        (status = 404, description = "Not found, or already revoked"),
    )
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ChangeQuery>,
) -> Result<StatusCode, Error> {
    let change = change(&caller, query.message)?;
    app.store.revoke_identity(&id, &change).await?;
    app.announce_identity_revocation().await;
    Ok(StatusCode::NO_CONTENT)
}

/// Retire an authority that a newer one has replaced before its certificates expire: its key was
/// compromised. Agents that have not renewed since then have to join again.
#[utoipa::path(
    delete,
    path = "/admin/v1/authorities/{id}",
    operation_id = "retire_authority",
    tag = "enrolment",
    params(("id" = String, Path, description = "The authority's fingerprint"), ChangeQuery),
    responses(
        (status = 204, description = "No longer trusted"),
        (status = 404, description = "Not found, or there is no newer authority"),
    )
)]
pub(crate) async fn retire_authority(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ChangeQuery>,
) -> Result<StatusCode, Error> {
    let change = change(&caller, query.message)?;
    app.store.retire_authority(&id, &change).await?;
    app.announce_identity_revocation().await;
    Ok(StatusCode::NO_CONTENT)
}

/// List the authorities that are trusted. Their keys are files of the control plane and in no
/// answer.
#[utoipa::path(
    get,
    path = "/admin/v1/authorities",
    operation_id = "list_authorities",
    tag = "enrolment",
    responses((status = 200, description = "The authorities that are trusted",
               body = AuthorityList))
)]
pub(crate) async fn authorities(
    State(app): State<App>,
) -> Result<axum::Json<AuthorityList>, Error> {
    let rows = app.store.authorities(clock::now_ms()).await?;
    Ok(axum::Json(AuthorityList {
        authorities: rows.into_iter().map(AuthorityInfo::from).collect(),
    }))
}
