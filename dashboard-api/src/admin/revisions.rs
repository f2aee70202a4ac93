//! A gateway's history, and the way back.

use super::config::{current, told};
use super::empty::Emptying;
use super::{DocumentChangeQuery, PageQuery, change};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::document::Document;
use crate::input::precondition::IfMatch;
use crate::input::{Path, Query, cursor};
use crate::revision_info::RevisionInfo;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use lanekeeper_store::Revision;
use serde_json::Value;

/// Revisions of the largest page: each is read with its document.
const MAX_PAGE: u32 = 50;

/// One revision with its document.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct RevisionDocument {
    #[serde(flatten)]
    info: RevisionInfo,
    /// The whole document as it was then.
    document: Value,
}

/// A page of revisions, newest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct RevisionPage {
    /// The revisions.
    revisions: Vec<RevisionInfo>,
    /// Where the next page starts; null on the last one.
    next_cursor: Option<String>,
}

/// List revisions, newest first, at most 50 a page.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/revisions",
    operation_id = "list_revisions",
    tag = "revisions",
    params(("gateway" = String, Path, description = "The gateway's name"), PageQuery),
    responses(
        (status = 200, description = "A page of revisions", body = RevisionPage),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    Path(gateway): Path<String>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<RevisionPage>, Error> {
    let limit = cursor::limit(page.limit.as_deref())?.min(MAX_PAGE);
    let before = cursor::parsed(page.cursor.as_deref())?;
    let mut rows = app.store.revisions(&gateway, before, limit + 1).await?;
    if rows.is_empty() && before.is_none() {
        return Err(Error::NotFound {
            kind: "gateway",
            name: gateway,
        });
    }
    let next_cursor = cursor::cut(&mut rows, limit, |row| row.number.to_string());
    Ok(axum::Json(RevisionPage {
        revisions: rows.into_iter().map(RevisionInfo::from).collect(),
        next_cursor,
    }))
}

/// Read one revision with its document.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/revisions/{revision}",
    operation_id = "read_revision",
    tag = "revisions",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("revision" = u64, Path, description = "The revision")
    ),
    responses(
        (status = 200, description = "The revision", body = RevisionDocument),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    Path((gateway, number)): Path<(String, u64)>,
) -> Result<axum::Json<RevisionDocument>, Error> {
    let mut revision = find(&app, &gateway, number).await?;
    let document = revision.document.take();
    Ok(axum::Json(RevisionDocument {
        info: revision.into(),
        document,
    }))
}

/// Make an old document current again, as a new revision.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways/{gateway}/revisions/{revision}/rollback",
    operation_id = "roll_back",
    tag = "revisions",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("revision" = u64, Path, description = "The revision to go back to"),
        ("If-Match" = Option<String>, Header, description = "Only if this is the current revision"),
        DocumentChangeQuery
    ),
    responses(
        (status = 200, description = "The new revision; ETag names it", body = RevisionInfo),
        (status = 400, description = "The old document breaks a rule that came later, or has no usable pool"),
        (status = 412, description = "Another revision is current"),
    )
)]
pub(crate) async fn roll_back(
    State(app): State<App>,
    caller: Caller,
    Path((gateway, number)): Path<(String, u64)>,
    Query(query): Query<DocumentChangeQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let based_on = IfMatch::of(&headers)?.unwrap_or(IfMatch::Any);
    let emptying = Emptying::of_query(query.allow_empty.as_deref())?;
    let target = find(&app, &gateway, number).await?;
    let current = current(&app, &gateway).await?;
    based_on.check(current.number)?;
    let checked = Document::from(target.document)
        .check(Some(&gateway))
        .await?;
    emptying.check(&current.document, &checked)?;
    let message = query
        .message
        .unwrap_or_else(|| format!("roll back to revision {number}"));
    let change = change(&caller, Some(message))?;
    let base = based_on.over(current.number);
    let written = app
        .store
        .write_revision(&gateway, base, &checked.document, &target.hash, &change)
        .await?;
    app.announce_revision(&gateway).await;
    Ok(told(written))
}

pub(super) async fn find(app: &App, gateway: &str, number: u64) -> Result<Revision, Error> {
    app.store
        .revision(gateway, number)
        .await?
        .ok_or_else(|| Error::NotFound {
            kind: "revision",
            name: format!("{gateway}/{number}"),
        })
}
