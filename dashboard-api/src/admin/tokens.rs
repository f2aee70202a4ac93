//! API tokens: list, create, revoke. A token's secret is in one answer and nowhere else.

use super::change;
use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::idempotency::Unrepeatable;
use crate::input::body::{Fields, Form};
use crate::input::{Json, Path};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use lanekeeper_model::wording::is_unseen;
use lanekeeper_store::{ExposeSecret, NewToken, Role, TokenRow};

/// Longest token name, bytes.
const MAX_NAME_BYTES: usize = 63;
/// Longest life of a token that has one, seconds: ten years. Beyond it, leave the field out.
pub(crate) const MAX_LIFE_SECS: u64 = 10 * 365 * 24 * 60 * 60;

/// A token to create.
#[derive(utoipa::ToSchema)]
pub(crate) struct TokenForm {
    /// Whom or what it is for; shown as the actor of its changes. 1 to 63 bytes.
    name: String,
    /// What it may do.
    #[schema(value_type = TokenRole)]
    role: Role,
    /// How long it is valid, seconds; left out = until it is revoked.
    expires_in_secs: Option<u64>,
}

/// What a token may do; each includes the one before.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the store's type to readers of the API")]
pub(crate) enum TokenRole {
    /// Read.
    Viewer,
    /// Override and drain as well.
    Operator,
    /// Configure and manage tokens as well.
    Admin,
}

impl Form for TokenForm {
    const FIELDS: &'static [&'static str] = &["name", "role", "expires_in_secs"];

    fn read(fields: &mut Fields) -> Option<Self> {
        let name = fields.text("name").inspect(|name| {
            if name.trim().is_empty() || name.len() > MAX_NAME_BYTES {
                let message = format!("must be 1 to {MAX_NAME_BYTES} bytes");
                fields.refuse("name", "out_of_range", message);
            }
            if name.contains(is_unseen) {
                let message = "must not have control or invisible characters";
                fields.refuse("name", "invalid_value", message);
            }
        });
        let role = fields.text("role").and_then(|word| {
            let role = [Role::Viewer, Role::Operator, Role::Admin]
                .into_iter()
                .find(|role| role.as_str() == word);
            if role.is_none() {
                let message = "must be viewer, operator or admin";
                fields.refuse("role", "invalid_value", message);
            }
            role
        });
        let expires_in_secs = fields.whole("expires_in_secs");
        if expires_in_secs.is_some_and(|secs| !(1..=MAX_LIFE_SECS).contains(&secs)) {
            let message = format!("must be between 1 and {MAX_LIFE_SECS}; leave it out for no end");
            fields.refuse("expires_in_secs", "out_of_range", message);
        }
        Some(Self {
            name: name?,
            role: role?,
            expires_in_secs,
        })
    }
}

/// A token without its secret.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct TokenInfo {
    /// Names the token in paths; no secret.
    id: String,
    /// Whom or what it is for.
    name: String,
    /// What it may do.
    #[schema(value_type = TokenRole)]
    role: Role,
    /// Who created it.
    created_by: String,
    /// When it was created, RFC 3339.
    created_at: String,
    /// When it ends, RFC 3339; null = when it is revoked.
    expires_at: Option<String>,
}

impl From<TokenRow> for TokenInfo {
    fn from(row: TokenRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            role: row.role,
            created_by: row.created_by,
            created_at: clock::rfc3339(row.created_ms),
            expires_at: row.expires_ms.map(clock::rfc3339),
        }
    }
}

/// A token that was just created.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct NewTokenInfo {
    #[serde(flatten)]
    info: TokenInfo,
    /// The token itself, `id.secret`. It is shown this once.
    token: String,
}

/// The tokens that are not revoked.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct TokenList {
    /// Oldest first; expired ones included.
    tokens: Vec<TokenInfo>,
}

/// List tokens.
#[utoipa::path(
    get,
    path = "/admin/v1/tokens",
    operation_id = "list_tokens",
    tag = "tokens",
    responses((status = 200, description = "The tokens that are not revoked", body = TokenList))
)]
pub(crate) async fn list(State(app): State<App>) -> Result<axum::Json<TokenList>, Error> {
    let rows = app.store.list_tokens().await?;
    Ok(axum::Json(TokenList {
        tokens: rows.into_iter().map(TokenInfo::from).collect(),
    }))
}

/// Create a token.
#[utoipa::path(
    post,
    path = "/admin/v1/tokens",
    operation_id = "create_token",
    tag = "tokens",
    request_body = TokenForm,
    responses(
        (status = 201, description = "Created; the secret is in this answer only",
         body = NewTokenInfo),
        (status = 400, description = "A field cannot be used"),
        (status = 409, description = "The limit of tokens is reached"),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(form): Json<TokenForm>,
) -> Result<Response, Error> {
    let change = change(&caller, None)?;
    let expires_ms = form
        .expires_in_secs
        .map(|secs| change.now_ms.saturating_add(secs.saturating_mul(1000)));
    let new = NewToken {
        name: form.name,
        role: form.role,
        expires_ms,
    };
    let (row, secret) = app.store.create_token(new, &change).await?;
    let location = [(LOCATION, format!("/admin/v1/tokens/{}", row.id))];
    let body = NewTokenInfo {
        info: row.into(),
        token: secret.expose_secret().to_owned(),
    };
    let once = axum::Extension(Unrepeatable);
    Ok((StatusCode::CREATED, location, once, axum::Json(body)).into_response())
}

/// Revoke a token. It is invalid everywhere within five seconds.
#[utoipa::path(
    delete,
    path = "/admin/v1/tokens/{id}",
    operation_id = "revoke_token",
    tag = "tokens",
    params(("id" = String, Path, description = "The token's id")),
    responses(
        (status = 204, description = "Revoked"),
        (status = 409, description = "No other admin token would live as long"),
    )
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Error> {
    app.store.revoke_token(&id, &change(&caller, None)?).await?;
    app.announce_revocation().await;
    Ok(StatusCode::NO_CONTENT)
}
