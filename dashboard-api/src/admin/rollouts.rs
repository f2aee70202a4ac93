//! Rollouts: the plan that a gateway's writes follow, what is on its way to the agents, and the
//! orders that hold it, let it go on or take it back.

mod form;
pub(crate) mod view;

use self::form::{Start, StartForm};
use self::view::{RolloutDetail, RolloutInfo, RolloutPage};
use super::{ChangeQuery, PageQuery, change, config};
use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::{Error, Fault};
use crate::input::document::{Document, Fragment};
use crate::input::precondition::{IfMatch, revision_tag};
use crate::input::{Path, Query, cursor};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, LOCATION};
use http::{HeaderMap, StatusCode};
use lanekeeper_model::rollout::{RolloutOrder, RolloutPlan};
use lanekeeper_store::{RolloutStart, StoredRollout};

/// Rollouts of the largest page: each is read with its comparison.
const MAX_PAGE: u32 = 50;

/// Which rollout is meant.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RolloutPath {
    /// The gateway's name
    gateway: String,
    /// The revision rolled out; it names the rollout
    revision: u64,
}

/// Read the plan that later writes of the gateway's configuration follow.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/rollout-plan",
    operation_id = "read_rollout_plan",
    tag = "rollouts",
    params(("gateway" = String, Path, description = "The gateway's name")),
    responses(
        (status = 200, description = "The plan; all_at_once unless another was set",
         body = ref("#/components/schemas/RolloutPlan")),
    )
)]
pub(crate) async fn read_plan(
    State(app): State<App>,
    Path(gateway): Path<String>,
) -> Result<axum::Json<RolloutPlan>, Error> {
    match app.store.rollout_plan(&gateway).await? {
        Some(plan) => Ok(axum::Json(plan)),
        None => Err(Error::NotFound {
            kind: "gateway",
            name: gateway,
        }),
    }
}

/// Set the plan that later writes of the gateway's configuration follow. Fields left out get their
/// defaults. A rollout in progress keeps the plan it began with.
#[utoipa::path(
    put,
    path = "/admin/v1/gateways/{gateway}/rollout-plan",
    operation_id = "replace_rollout_plan",
    tag = "rollouts",
    params(("gateway" = String, Path, description = "The gateway's name"), ChangeQuery),
    request_body(
        description = "The plan",
        content((ref("#/components/schemas/RolloutPlan") = "application/json"))
    ),
    responses(
        (status = 200, description = "The plan as it is kept",
         body = ref("#/components/schemas/RolloutPlan")),
        (status = 400, description = "The plan has errors; all are listed, nothing changed"),
    )
)]
pub(crate) async fn replace_plan(
    State(app): State<App>,
    caller: Caller,
    Path(gateway): Path<String>,
    Query(query): Query<ChangeQuery>,
    Fragment(body): Fragment,
) -> Result<axum::Json<RolloutPlan>, Error> {
    let plan = RolloutPlan::check(&body)
        .map_err(|problems| Error::InvalidBody(problems.into_iter().map(Fault::from).collect()))?;
    let change = change(&caller, query.message)?;
    app.store.put_rollout_plan(&gateway, &plan, &change).await?;
    Ok(axum::Json(plan))
}

/// List rollouts, newest first, at most 50 a page.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/rollouts",
    operation_id = "list_rollouts",
    tag = "rollouts",
    params(("gateway" = String, Path, description = "The gateway's name"), PageQuery),
    responses(
        (status = 200, description = "A page of rollouts",
         body = ref("#/components/schemas/RolloutPage")),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    Path(gateway): Path<String>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<RolloutPage>, Error> {
    let limit = cursor::limit(page.limit.as_deref())?.min(MAX_PAGE);
    let before = cursor::parsed(page.cursor.as_deref())?;
    if app.store.gateway(&gateway).await?.is_none() {
        return Err(Error::NotFound {
            kind: "gateway",
            name: gateway,
        });
    }
    let mut rows = app.store.rollouts(&gateway, before, limit + 1).await?;
    let next_cursor = cursor::cut(&mut rows, limit, |row| row.rollout.revision.to_string());
    Ok(axum::Json(RolloutPage {
        rollouts: rows.into_iter().map(RolloutInfo::from).collect(),
        next_cursor,
    }))
}

/// Roll out a document, or the content of an earlier revision, as a new revision.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways/{gateway}/rollouts",
    operation_id = "start_rollout",
    tag = "rollouts",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("If-Match" = Option<String>, Header,
         description = "ETag of the configuration the change is based on; required with a document")
    ),
    request_body = StartForm,
    responses(
        (status = 201, description = "The rollout; ETag names its revision",
         body = ref("#/components/schemas/RolloutInfo")),
        (status = 400, description = "The plan or the document has errors; all are listed"),
        (status = 412, description = "Another revision is current; its ETag is in the answer"),
        (status = 428, description = "A document without If-Match"),
    )
)]
pub(crate) async fn start(
    State(app): State<App>,
    caller: Caller,
    Path(gateway): Path<String>,
    headers: HeaderMap,
    Fragment(body): Fragment,
) -> Result<Response, Error> {
    let Start {
        plan,
        content,
        message,
        emptying,
    } = form::read(body)?;
    let based_on = match content {
        form::Content::Document(_) => IfMatch::required(&headers)?,
        form::Content::Revision(_) => IfMatch::of(&headers)?.unwrap_or(IfMatch::Any),
    };
    let current = config::current(&app, &gateway).await?;
    based_on.check(current.number)?;
    let (document, message) = match content {
        form::Content::Document(document) => (document, message),
        form::Content::Revision(number) => {
            let revision = super::revisions::find(&app, &gateway, number).await?;
            let default = || format!("roll out the content of revision {number}");
            (revision.document, message.or_else(|| Some(default())))
        }
    };
    let checked = Document::from(document)
        .check(Some(&gateway))
        .await
        .map_err(form::in_document)?;
    emptying
        .check(&current.document, &checked)
        .map_err(form::in_document)?;
    let hash = lanekeeper_model::content_hash(&checked.document);
    let start = RolloutStart {
        document: &checked.document,
        hash: &hash,
        plan: plan.as_ref(),
    };
    let change = change(&caller, message).map_err(form::in_body)?;
    let base = based_on.over(current.number);
    let stored = app
        .store
        .start_rollout(&gateway, base, start, &change)
        .await?;
    app.announce_revision(&gateway).await;
    let revision = stored.rollout.revision;
    let headers = [
        (
            LOCATION,
            format!("/admin/v1/gateways/{gateway}/rollouts/{revision}"),
        ),
        (ETAG, revision_tag(revision)),
    ];
    let body = axum::Json(RolloutInfo::from(stored));
    Ok((StatusCode::CREATED, headers, body).into_response())
}

/// Show a rollout with its agents.
#[utoipa::path(
    get,
    path = "/admin/v1/gateways/{gateway}/rollouts/{revision}",
    operation_id = "show_rollout",
    tag = "rollouts",
    params(RolloutPath),
    responses(
        (status = 200, description = "The rollout and its agents",
         body = ref("#/components/schemas/RolloutDetail")),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(path): Path<RolloutPath>,
) -> Result<axum::Json<RolloutDetail>, Error> {
    let stored = app.store.rollout(&path.gateway, path.revision).await?;
    let snapshot = app.fleet.snapshot().await?;
    let detail = RolloutDetail::new(stored, &snapshot, clock::now_ms());
    Ok(axum::Json(detail))
}

/// Pause a rollout: agents keep their revision, and no further stage begins.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways/{gateway}/rollouts/{revision}/pause",
    operation_id = "pause_rollout",
    tag = "rollouts",
    params(RolloutPath, ChangeQuery),
    responses(
        (status = 200, description = "The rollout", body = ref("#/components/schemas/RolloutInfo")),
        (status = 409, description = "The rollout is in a state that does not allow this")
    )
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RolloutPath>,
    Query(query): Query<ChangeQuery>,
) -> Result<axum::Json<RolloutInfo>, Error> {
    order(&app, &caller, &path, RolloutOrder::Pause, query.message).await
}

/// Resume a paused or stopped rollout; the timers and the baseline of its stage start over.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways/{gateway}/rollouts/{revision}/resume",
    operation_id = "resume_rollout",
    tag = "rollouts",
    params(RolloutPath, ChangeQuery),
    responses(
        (status = 200, description = "The rollout", body = ref("#/components/schemas/RolloutInfo")),
        (status = 409, description = "The rollout is in a state that does not allow this")
    )
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RolloutPath>,
    Query(query): Query<ChangeQuery>,
) -> Result<axum::Json<RolloutInfo>, Error> {
    order(&app, &caller, &path, RolloutOrder::Resume, query.message).await
}

/// What an abort's query may hold.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AbortQuery {
    /// False stops the rollout where it is; true, the default, restores the old content on every
    /// agent, as a new revision.
    #[param(value_type = Option<bool>)]
    rollback: Option<String>,
    /// Why; kept with the revision and in the audit trail.
    message: Option<String>,
}

/// Abort a rollout and restore the old content, or only stop it.
#[utoipa::path(
    post,
    path = "/admin/v1/gateways/{gateway}/rollouts/{revision}/abort",
    operation_id = "abort_rollout",
    tag = "rollouts",
    params(RolloutPath, AbortQuery),
    responses(
        (status = 200, description = "The rollout", body = ref("#/components/schemas/RolloutInfo")),
        (status = 409, description = "The rollout is in a state that does not allow this")
    )
)]
pub(crate) async fn abort(
    State(app): State<App>,
    caller: Caller,
    Path(path): Path<RolloutPath>,
    Query(query): Query<AbortQuery>,
) -> Result<axum::Json<RolloutInfo>, Error> {
    let message = query.message;
    match query.rollback.as_deref() {
        Some("false") => order(&app, &caller, &path, RolloutOrder::Stop, message).await,
        None | Some("true") => {
            let RolloutPath { gateway, revision } = &path;
            let default = || format!("roll back revision {revision}");
            let change = change(&caller, message.or_else(|| Some(default())))?;
            let aborted = app.store.abort_rollout(gateway, *revision, &change).await?;
            Ok(told(&app, aborted).await)
        }
        Some(_) => Err(Error::InvalidParameter {
            name: "rollback".to_owned(),
            reason: "must be true or false".to_owned(),
        }),
    }
}

async fn order(
    app: &App,
    caller: &Caller,
    RolloutPath { gateway, revision }: &RolloutPath,
    order: RolloutOrder,
    message: Option<String>,
) -> Result<axum::Json<RolloutInfo>, Error> {
    let change = change(caller, message)?;
    let stored = app
        .store
        .order_rollout(gateway, *revision, order, &change)
        .await?;
    Ok(told(app, stored).await)
}

/// The answer about a rollout that the control planes have been told of.
async fn told(app: &App, stored: StoredRollout) -> axum::Json<RolloutInfo> {
    app.announce_revision(&stored.rollout.gateway).await;
    axum::Json(stored.into())
}
