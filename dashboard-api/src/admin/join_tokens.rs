//! Join tokens: list, create, revoke. A token's secret is in one answer and nowhere else.

use super::change;
use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::{Error, Fault};
use crate::idempotency::Unrepeatable;
use crate::input::body::{Fields, Form};
use crate::input::{Json, Path, Query};
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use lanekeeper_store::{ExposeSecret, JoinToken, NewJoinToken};

/// Longest life of a join token, seconds: 30 days.
pub(crate) const MAX_TTL_SECS: u64 = 30 * 24 * 60 * 60;
/// Life of a join token unless told otherwise, seconds: an hour.
const TTL_SECS: u64 = 60 * 60;
/// Most agents that one join token lets in.
pub(crate) const MAX_USES: u64 = 100_000;

/// A join token to create.
#[derive(utoipa::ToSchema)]
pub(crate) struct JoinTokenForm {
    /// The gateway that agents may join with it. It must exist.
    gateway: String,
    /// How long it is valid, seconds, at most 30 days. Default one hour.
    ttl_secs: Option<u64>,
    /// How many agents may join with it, at most 100,000. Default 1.
    max_uses: Option<u64>,
}

impl Form for JoinTokenForm {
    const FIELDS: &'static [&'static str] = &["gateway", "ttl_secs", "max_uses"];

    fn read(fields: &mut Fields) -> Option<Self> {
        let gateway = fields.text("gateway");
        let mut bounded = |field, max| {
            let number = fields.whole(field);
            if number.is_some_and(|number| !(1..=max).contains(&number)) {
                let message = format!("must be between 1 and {max}");
                fields.refuse(field, "out_of_range", message);
            }
            number
        };
        Some(Self {
            ttl_secs: bounded("ttl_secs", MAX_TTL_SECS),
            max_uses: bounded("max_uses", MAX_USES),
            gateway: gateway?,
        })
    }
}

/// A join token without its secret.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct JoinTokenInfo {
    /// Names the join token in paths; no secret.
    id: String,
    /// The gateway that agents may join with it.
    gateway: String,
    /// Who created it.
    created_by: String,
    /// When it was created, RFC 3339.
    created_at: String,
    /// When it expires, RFC 3339.
    expires_at: String,
    /// How many agents may join with it.
    max_uses: u64,
    /// How many agents have joined with it.
    uses: u64,
}

impl From<JoinToken> for JoinTokenInfo {
    fn from(row: JoinToken) -> Self {
        Self {
            id: row.id,
            gateway: row.gateway,
            created_by: row.created_by,
            created_at: clock::rfc3339(row.created_ms),
            expires_at: clock::rfc3339(row.expires_ms),
            max_uses: row.max_uses,
            uses: row.uses,
        }
    }
}

/// A join token that was just created.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct NewJoinTokenInfo {
    #[serde(flatten)]
    info: JoinTokenInfo,
    /// The join token itself: `id.secret` and the fingerprint of each authority that the agent may
    /// meet. It is shown this once.
    token: String,
}

/// The join tokens that are not revoked.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct JoinTokenList {
    /// Oldest first; those that ended within the last day included.
    join_tokens: Vec<JoinTokenInfo>,
}

/// What the revocation of a join token may ask for.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RevokeQuery {
    /// True = also revoke the certificates of the agents that joined with it. Default false.
    agents: Option<bool>,
}

/// List join tokens.
#[utoipa::path(
    get,
    path = "/admin/v1/join-tokens",
    operation_id = "list_join_tokens",
    tag = "enrolment",
    responses((status = 200, description = "The join tokens that are not revoked",
               body = JoinTokenList))
)]
pub(crate) async fn list(State(app): State<App>) -> Result<axum::Json<JoinTokenList>, Error> {
    let rows = app.store.list_join_tokens(clock::now_ms()).await?;
    Ok(axum::Json(JoinTokenList {
        join_tokens: rows.into_iter().map(JoinTokenInfo::from).collect(),
    }))
}

/// Create a join token.
#[utoipa::path(
    post,
    path = "/admin/v1/join-tokens",
    operation_id = "create_join_token",
    tag = "enrolment",
    request_body = JoinTokenForm,
    responses(
        (status = 201, description = "Created; the secret is in this answer only",
         body = NewJoinTokenInfo),
        (status = 400, description = "A field cannot be used"),
        (status = 409, description = "The limit of join tokens is reached"),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(form): Json<JoinTokenForm>,
) -> Result<Response, Error> {
    if app.store.gateway(&form.gateway).await?.is_none() {
        let message = format!("there is no gateway '{}'", form.gateway);
        let fault = Fault::at("/gateway", "unknown_reference", message);
        return Err(Error::InvalidBody(vec![fault]));
    }
    let change = change(&caller, None)?;
    let ttl_ms = form.ttl_secs.unwrap_or(TTL_SECS).saturating_mul(1000);
    let new = NewJoinToken {
        gateway: form.gateway,
        expires_ms: change.now_ms.saturating_add(ttl_ms),
        max_uses: form.max_uses.unwrap_or(1),
    };
    let authorities = app.store.authorities(change.now_ms).await?;
    let (row, secret) = app.store.create_join_token(new, &change).await?;
    let mut token = secret.expose_secret().to_owned();
    for authority in authorities {
        token.push('.');
        token.push_str(&authority.fingerprint);
    }
    let location = [(LOCATION, format!("/admin/v1/join-tokens/{}", row.id))];
    let body = NewJoinTokenInfo {
        info: row.into(),
        token,
    };
    let once = Extension(Unrepeatable);
    Ok((StatusCode::CREATED, location, once, axum::Json(body)).into_response())
}

/// Revoke a join token. No agent can join with it from then on; agents that have joined stay, unless requested
/// otherwise.
#[utoipa::path(
    delete,
    path = "/admin/v1/join-tokens/{id}",
    operation_id = "revoke_join_token",
    tag = "enrolment",
    params(("id" = String, Path, description = "The join token's id"), RevokeQuery),
    responses(
        (status = 204, description = "Revoked"),
    )
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<RevokeQuery>,
) -> Result<StatusCode, Error> {
    let agents = query.agents.unwrap_or_default();
    let change = change(&caller, None)?;
    app.store.revoke_join_token(&id, agents, &change).await?;
    app.announce_identity_revocation().await;
    Ok(StatusCode::NO_CONTENT)
}
