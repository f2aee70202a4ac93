//! A gateway's document: read, replace, patch, and try without writing.

use super::empty::Emptying;
use super::structural_diff::{Difference, differences};
use super::{DocumentChangeQuery, change, merge_patch};
use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Fault};
use crate::input::document::{Document, MergePatch};
use crate::input::precondition::{IfMatch, held, revision_tag};
use crate::input::{Path, Query};
use crate::revision_info::RevisionInfo;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};
use lanekeeper_model::Checked;
use lanekeeper_store::{Change, Revision};
use serde_json::Value;
use std::borrow::Cow;

/// Times a document is made anew from what others wrote meanwhile.
const ATTEMPTS: usize = 8;

/// The current revision of a gateway, which must exist.
pub(super) async fn current(app: &App, gateway: &str) -> Result<Revision, Error> {
    app.store
        .current(gateway)
        .await?
        .ok_or_else(|| Error::NotFound {
            kind: "gateway",
            name: gateway.to_owned(),
        })
}

/// Read the document.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/config",
    operation_id = "read_config",
    tag = "config",
    params(("gateway" = String, Path, description = "The gateway's name")),
    responses(
        (status = 200, description = "The document; ETag is the revision",
         body = ref("#/components/schemas/Document")),
        (status = 304, description = "The client holds this revision"),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    Path(gateway): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let revision = current(&app, &gateway).await?;
    let tag = revision_tag(revision.number);
    if held(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response());
    }
    Ok(([(ETAG, tag)], axum::Json(revision.document)).into_response())
}

/// Replace the document. A document that is the current one already makes no revision and no entry of
/// the audit trail; the answer names the revision that has it.
#[utoipa::path(
    put,
    path = "/admin/v1/gateways/{gateway}/config",
    operation_id = "replace_config",
    tag = "config",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("If-Match" = String, Header, description = "ETag of the document the change is based on"),
        DocumentChangeQuery
    ),
    request_body(
        description = "The gateway document",
        content(
            (ref("#/components/schemas/Document") = "application/json"),
            (ref("#/components/schemas/Document") = "application/yaml")
        )
    ),
    responses(
        (status = 200, description = "The revision that is current now; ETag names it",
         body = RevisionInfo),
        (status = 400, description = "The document has errors; all are listed, nothing changed"),
        (status = 412, description = "Another revision is current; its ETag is in the answer"),
        (status = 428, description = "If-Match is missing"),
    )
)]
pub(crate) async fn replace(
    State(app): State<App>,
    caller: Caller,
    Path(gateway): Path<String>,
    Query(query): Query<DocumentChangeQuery>,
    headers: HeaderMap,
    document: Document,
) -> Result<Response, Error> {
    let based_on = IfMatch::required(&headers)?;
    let checked = document.check(Some(&gateway)).await?;
    let emptying = Emptying::of_query(query.allow_empty.as_deref())?;
    let change = change(&caller, query.message)?;
    let next = Next::Whole(&checked);
    write(&app, &change, &gateway, &based_on, emptying, next).await
}

/// Change parts of the document by a JSON merge patch: null removes a key. A patch that changes nothing
/// makes no revision and no entry of the audit trail; the response names the current revision.
#[utoipa::path(
    patch,
    path = "/admin/v1/gateways/{gateway}/config",
    operation_id = "patch_config",
    tag = "config",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("If-Match" = String, Header, description = "ETag of the document the change is based on"),
        DocumentChangeQuery
    ),
    request_body(
        description = "A merge patch (RFC 7396)",
        content(
            (serde_json::Value = "application/merge-patch+json"),
            (serde_json::Value = "application/json")
        )
    ),
    responses(
        (status = 200, description = "The revision that is current now; ETag names it",
         body = RevisionInfo),
        (status = 400, description = "The patched document has errors; all are listed"),
        (status = 409, description = "Concurrent changes; nothing was written"),
        (status = 412, description = "Another revision is current; its ETag is in the answer"),
        (status = 428, description = "If-Match is missing"),
    )
)]
pub(crate) async fn patch(
    State(app): State<App>,
    caller: Caller,
    Path(gateway): Path<String>,
    Query(query): Query<DocumentChangeQuery>,
    headers: HeaderMap,
    MergePatch(patch): MergePatch,
) -> Result<Response, Error> {
    let based_on = IfMatch::required(&headers)?;
    let patched = |current: &Value| {
        let mut document = current.clone();
        merge_patch::apply(&mut document, patch.clone());
        Ok(document)
    };
    let emptying = Emptying::of_query(query.allow_empty.as_deref())?;
    let change = change(&caller, query.message)?;
    let next = Next::Made(&patched);
    write(&app, &change, &gateway, &based_on, emptying, next).await
}

/// Makes the next document out of the current one.
pub(super) type Make<'a> = &'a (dyn Fn(&Value) -> Result<Value, Error> + Sync);

/// What a gateway's next document is.
#[derive(Clone, Copy)]
pub(super) enum Next<'a> {
    /// This one, which is checked.
    Whole(&'a Checked),
    /// The current one with a change, which is yet to be checked.
    Made(Make<'a>),
}

/// Makes a document the current one, unless it is that already. When someone else wrote in between
/// the change is made anew on that, as long as the precondition holds of it: `*` holds of every
/// revision (RFC 9110, section 13.1.1).
pub(super) async fn write(
    app: &App,
    change: &Change,
    gateway: &str,
    based_on: &IfMatch,
    emptying: Emptying,
    next: Next<'_>,
) -> Result<Response, Error> {
    for _ in 0..ATTEMPTS {
        let current = current(app, gateway).await?;
        based_on.check(current.number)?;
        let (checked, expected) = match next {
            Next::Whole(checked) => (Cow::Borrowed(checked), based_on.over(current.number)),
            Next::Made(make) => {
                let document = Document::from(make(&current.document)?);
                let checked = document.check(Some(gateway)).await?;
                (Cow::Owned(checked), Some(current.number))
            }
        };
        emptying.check(&current.document, &checked)?;
        let document = &checked.document;
        let hash = lanekeeper_model::content_hash(document);
        if hash == current.hash {
            return Ok(told(current));
        }
        let written = app
            .store
            .write_revision(gateway, expected, document, &hash, change)
            .await;
        match written.map_err(Error::from) {
            Ok(revision) => {
                app.announce_revision(gateway).await;
                return Ok(told(revision));
            }
            Err(Error::RevisionMismatch { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Err(Error::ConfigBusy)
}

/// The answer of a write.
pub(super) fn told(revision: Revision) -> Response {
    let tag = revision_tag(revision.number);
    ([(ETAG, tag)], axum::Json(RevisionInfo::from(revision))).into_response()
}

/// The result of validating a document.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Verdict {
    /// True when the document would be taken.
    valid: bool,
    /// Each thing that is wrong with it.
    errors: Vec<Fault>,
}

/// What the query of a check may hold.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CheckQuery {
    /// True checks as a write with it does: the document may leave the gateway without any usable
    /// pool. Default false.
    #[param(value_type = Option<bool>)]
    allow_empty: Option<String>,
}

/// Check a document without writing it. The gateway need not exist.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways/{gateway}/config/validate",
    operation_id = "validate_config",
    tag = "config",
    params(("gateway" = String, Path, description = "The gateway's name"), CheckQuery),
    request_body(
        description = "The gateway document",
        content(
            (ref("#/components/schemas/Document") = "application/json"),
            (ref("#/components/schemas/Document") = "application/yaml")
        )
    ),
    responses((status = 200, description = "The result, valid or not", body = Verdict))
)]
pub(crate) async fn validate(
    State(app): State<App>,
    Path(gateway): Path<String>,
    Query(query): Query<CheckQuery>,
    document: Document,
) -> Result<axum::Json<Verdict>, Error> {
    let emptying = Emptying::of_query(query.allow_empty.as_deref())?;
    let checked = match document.check(Some(&gateway)).await {
        Ok(checked) => match app.store.current(&gateway).await? {
            Some(current) => emptying.check(&current.document, &checked),
            None => Ok(()),
        },
        Err(error) => Err(error),
    };
    match checked {
        Ok(()) => Ok(axum::Json(Verdict {
            valid: true,
            errors: Vec::new(),
        })),
        Err(error @ (Error::InvalidDocument(_) | Error::EmptyGateway { .. })) => {
            Ok(axum::Json(Verdict {
                valid: false,
                errors: error.faults(),
            }))
        }
        Err(other) => Err(other),
    }
}

/// What a document would change.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Diff {
    /// The revision compared with.
    revision: u64,
    /// The differences, at most 1,000.
    changes: Vec<Difference>,
    /// True when there are more.
    truncated: bool,
}

/// Compare a document with the current one without writing it.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways/{gateway}/config/diff",
    operation_id = "diff_config",
    tag = "config",
    params(("gateway" = String, Path, description = "The gateway's name")),
    request_body(
        description = "The gateway document",
        content(
            (ref("#/components/schemas/Document") = "application/json"),
            (ref("#/components/schemas/Document") = "application/yaml")
        )
    ),
    responses(
        (status = 200, description = "What would change", body = Diff),
        (status = 400, description = "The document has errors; all are listed"),
    )
)]
pub(crate) async fn diff(
    State(app): State<App>,
    Path(gateway): Path<String>,
    document: Document,
) -> Result<axum::Json<Diff>, Error> {
    let checked = document.check(Some(&gateway)).await?;
    let current = current(&app, &gateway).await?;
    let (changes, truncated) = differences(&current.document, &checked.document);
    Ok(axum::Json(Diff {
        revision: current.number,
        changes,
        truncated,
    }))
}
