//! Gateways: list, create, show, delete.

use super::empty::Emptying;
use super::{ChangeQuery, DocumentChangeQuery, PageQuery, change};
use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::input::document::Document;
use crate::input::precondition::{IfMatch, held, revision_tag};
use crate::input::{Path, Query, cursor};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, LOCATION};
use http::{HeaderMap, StatusCode};
use lanekeeper_store::GatewayRow;
use std::collections::BTreeMap;

/// One gateway without its document.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct GatewayInfo {
    /// Its name.
    name: String,
    /// The current revision.
    revision: u64,
    /// SHA-256 of the current document in canonical form, hex.
    hash: String,
    /// The current document's labels.
    labels: BTreeMap<String, String>,
    /// The file of the server's documents folder that its document comes from; the API refuses to
    /// change it then. Null when there is none.
    documents_file: Option<String>,
    /// When it was created, RFC 3339.
    created_at: String,
    /// When its configuration last changed, RFC 3339.
    updated_at: String,
}

impl GatewayInfo {
    fn of(row: GatewayRow, app: &App) -> Self {
        Self {
            documents_file: app.managed.file_of(&row.name),
            name: row.name,
            revision: row.revision,
            hash: row.hash,
            labels: row.labels,
            created_at: clock::rfc3339(row.created_ms),
            updated_at: clock::rfc3339(row.updated_ms),
        }
    }
}

/// A page of gateways, by name.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct GatewayPage {
    /// The gateways.
    gateways: Vec<GatewayInfo>,
    /// Where the next page starts; null on the last one.
    next_cursor: Option<String>,
}

/// List gateways.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways",
    operation_id = "list_gateways",
    tag = "gateways",
    params(PageQuery),
    responses((status = 200, description = "A page of gateways, by name", body = GatewayPage))
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<GatewayPage>, Error> {
    let limit = cursor::limit(page.limit.as_deref())?;
    let after = page.cursor.as_deref().map(cursor::key).transpose()?;
    let mut rows = app.store.list_gateways(after.as_deref(), limit + 1).await?;
    let next_cursor = cursor::cut(&mut rows, limit, |row| row.name.clone());
    Ok(axum::Json(GatewayPage {
        gateways: rows
            .into_iter()
            .map(|row| GatewayInfo::of(row, &app))
            .collect(),
        next_cursor,
    }))
}

/// Create a gateway from its document.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways",
    operation_id = "create_gateway",
    tag = "gateways",
    params(DocumentChangeQuery),
    request_body(
        description = "The gateway document",
        content(
            (ref("#/components/schemas/Document") = "application/json"),
            (ref("#/components/schemas/Document") = "application/yaml")
        )
    ),
    responses(
        (status = 201, description = "Created; ETag is the revision",
         body = crate::revision_info::RevisionInfo),
        (status = 400, description = "The document has errors; all are listed"),
        (status = 409, description = "A gateway with this name already exists"),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<DocumentChangeQuery>,
    document: Document,
) -> Result<Response, Error> {
    let emptying = Emptying::of_query(query.allow_empty.as_deref())?;
    let checked = document.check(None).await?;
    let name = checked.gateway.name.to_string();
    app.managed.check(&name)?;
    // Agents of a gateway that was deleted go on to serve it, until it is created again.
    if emptying == Emptying::Refused
        && !checked.gateway.has_usable_pool()
        && live_agents(&app, &name).await? > 0
    {
        return Err(Error::EmptyGateway { pointer: "/pools" });
    }
    let hash = lanekeeper_model::content_hash(&checked.document);
    let change = change(&caller, query.message)?;
    let revision = app
        .store
        .create_gateway(&name, &checked.document, &hash, &change)
        .await?;
    app.announce_revision(&name).await;
    let headers = [
        (LOCATION, format!("/admin/v1/gateways/{name}")),
        (ETAG, revision_tag(revision.number)),
    ];
    let body = axum::Json(crate::revision_info::RevisionInfo::from(revision));
    Ok((StatusCode::CREATED, headers, body).into_response())
}

/// Show a gateway without its document.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}",
    operation_id = "show_gateway",
    tag = "gateways",
    params(("gateway" = String, Path, description = "The gateway's name")),
    responses(
        (status = 200, description = "The gateway; ETag is its current revision", body = GatewayInfo),
        (status = 304, description = "The client holds this revision"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let row = app
        .store
        .gateway(&name)
        .await?
        .ok_or_else(|| Error::NotFound {
            kind: "gateway",
            name: name.clone(),
        })?;
    let tag = revision_tag(row.revision);
    if held(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response());
    }
    Ok(([(ETAG, tag)], axum::Json(GatewayInfo::of(row, &app))).into_response())
}

/// Delete a gateway. Its agents keep serving what they have; its history stays in the audit trail.
/// While agents of it are live, If-Match is required.
#[utoipa::path(
    delete,
    path = "/admin/v1/gateways/{gateway}",
    operation_id = "delete_gateway",
    tag = "gateways",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("If-Match" = Option<String>, Header, description = "Only if this is the current revision"),
        ChangeQuery
    ),
    responses(
        (status = 204, description = "Deleted"),
        (status = 412, description = "Another revision is current"),
        (status = 428, description = "The gateway has live agents, and If-Match is missing"),
    )
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<ChangeQuery>,
    headers: HeaderMap,
) -> Result<StatusCode, Error> {
    let expected = match IfMatch::of(&headers)? {
        None => {
            let live = live_agents(&app, &name).await?;
            if live > 0 {
                return Err(Error::GatewayInUse { live });
            }
            None
        }
        Some(IfMatch::Any) => None,
        Some(based_on) => {
            let current = super::config::current(&app, &name).await?.number;
            based_on.check(current)?;
            Some(current)
        }
    };
    app.store
        .delete_gateway(&name, expected, &change(&caller, query.message)?)
        .await?;
    app.announce_revision(&name).await;
    Ok(StatusCode::NO_CONTENT)
}

/// How many agents serve a gateway now.
async fn live_agents(app: &App, gateway: &str) -> Result<usize, Error> {
    let snapshot = app.fleet.snapshot().await?;
    Ok(snapshot.live_agents(gateway, clock::now_ms()))
}
