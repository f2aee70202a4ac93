//! `Idempotency-Key`: a write whose answer was lost is sent again, is not made again, and is
//! answered as the first time.
//!
//! The key is stored in the transaction of the change, so a server that dies between the change
//! and its answer does not make it twice either; the repetition's answer is then made from the
//! audit trail.

use crate::app::App;
use crate::caller::Caller;
use crate::clock;
use crate::error::Error;
use crate::input::body::{self, MAX_DOCUMENT_BYTES};
use crate::input::precondition::revision_tag;
use crate::problem::Failure;
use crate::revision_info::RevisionInfo;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use lanekeeper_store::{
    AuditEntry, Error as StoreError, IDEMPOTENCY_KEY_MAX, IDEMPOTENT_ANSWER_MAX, IdempotencyKey,
    Remembered,
};
use sha2::{Digest, Sha256};

/// The header by which a client names a write.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer is one that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Headers of an answer that are kept with it.
const KEPT: [HeaderName; 3] = [CONTENT_TYPE, ETAG, LOCATION];

/// Marks an answer that holds a secret: it is given once and kept nowhere.
#[derive(Clone, Copy)]
pub(crate) struct Unrepeatable;

/// An answer as it is kept.
#[derive(serde::Serialize, serde::Deserialize)]
struct Kept {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// Runs a write, or answers for the one that was made under the same key.
pub(crate) async fn run(
    app: &App,
    mut caller: Caller,
    mut request: Request,
    next: Next,
) -> Result<Response, Error> {
    let Some(key) = key_of(request.headers())? else {
        request.extensions_mut().insert(caller);
        return Ok(next.run(request).await);
    };
    let (mut parts, body) = request.into_parts();
    let body = body::read(&parts, body, MAX_DOCUMENT_BYTES).await?;
    let fingerprint = fingerprint(&parts, &body);
    let actor = caller.principal.id.clone();
    if let Some(answer) = repetition(app, &actor, &key, &fingerprint).await? {
        return Ok(answer);
    }
    let attempt = IdempotencyKey::new(&key, &fingerprint);
    caller.idempotency = Some(attempt.clone());
    parts.extensions.insert(caller);
    let answer = next.run(Request::from_parts(parts, Body::from(body))).await;
    if was_overtaken(&answer) {
        return Ok(repetition(app, &actor, &key, &fingerprint)
            .await?
            .unwrap_or(answer));
    }
    if answer.status().is_success() {
        return keep(app, &actor, &attempt, answer).await;
    }
    Ok(answer)
}

fn key_of(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let refused = |reason: &str| Error::InvalidHeader {
        name: "idempotency-key",
        reason: reason.to_owned(),
    };
    if values.next().is_some() {
        return Err(refused("is given more than once"));
    }
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_MAX {
        return Err(refused("must be 1 to 255 visible ASCII characters"));
    }
    Ok(Some(key.to_owned()))
}

/// A digest of all that decides what a write does.
fn fingerprint(parts: &Parts, body: &[u8]) -> String {
    let target = parts
        .uri
        .path_and_query()
        .map_or_else(|| parts.uri.path(), |it| it.as_str());
    let mut digest = Sha256::new();
    for part in [parts.method.as_str().as_bytes(), target.as_bytes(), body] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A request with the same key made the change while this one was under way.
fn was_overtaken(answer: &Response) -> bool {
    let failure = answer.extensions().get::<Failure>();
    failure.is_some_and(|it| matches!(*it.0, Error::Store(StoreError::AlreadyDone)))
}

/// The answer for a change that was made before; `None` when there was none.
async fn repetition(
    app: &App,
    actor: &str,
    key: &str,
    fingerprint: &str,
) -> Result<Option<Response>, Error> {
    let remembered = app.store.remembered(actor, key, clock::now_ms()).await?;
    let Some(remembered) = remembered else {
        return Ok(None);
    };
    let Remembered {
        fingerprint: first,
        answer,
        entry,
    } = remembered;
    if first != fingerprint {
        return Err(Error::IdempotencyKeyReused);
    }
    let kept = answer.and_then(|text| serde_json::from_str::<Kept>(&text).ok());
    let mut answer = match kept {
        Some(kept) => restored(kept)?,
        None => rebuilt(app, entry).await?,
    };
    answer
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(Some(answer))
}

/// Keeps an answer for a repetition. Failing to keep it is no failure of the write.
async fn keep(
    app: &App,
    actor: &str,
    attempt: &IdempotencyKey,
    answer: Response,
) -> Result<Response, Error> {
    let size = HttpBody::size_hint(answer.body()).upper();
    let is_small = size.is_some_and(|size| size <= IDEMPOTENT_ANSWER_MAX as u64);
    if !is_small || answer.extensions().get::<Unrepeatable>().is_some() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let body = body
        .collect()
        .await
        .map_err(|error| Error::Internal(error.into()))?
        .to_bytes();
    let headers = KEPT.iter().filter_map(|name| {
        let value = parts.headers.get(name)?.to_str().ok()?;
        Some((name.to_string(), value.to_owned()))
    });
    let kept = Kept {
        status: parts.status.as_u16(),
        headers: headers.collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let text = serde_json::to_string(&kept).map_err(|error| Error::Internal(error.into()))?;
    if let Err(error) = app.store.keep_answer(actor, attempt, &text).await {
        tracing::warn!(%error, "failed to store the response of an idempotent write; the change is stored");
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

fn restored(kept: Kept) -> Result<Response, Error> {
    let mut answer = Response::builder().status(kept.status);
    for (name, value) in kept.headers {
        answer = answer.header(name, value);
    }
    answer
        .body(Body::from(kept.body))
        .map_err(|error| Error::Internal(error.into()))
}

/// The answer of a server that died before it could keep its own.
async fn rebuilt(app: &App, entry: AuditEntry) -> Result<Response, Error> {
    let number = entry
        .after
        .as_ref()
        .and_then(|after| after.get("revision")?.as_u64());
    let gateway = entry.resource.strip_prefix("gateways/");
    if let (Some(number), Some(gateway)) = (number, gateway)
        && let Some(revision) = app.store.revision(gateway, number).await?
    {
        let status = if entry.action == "gateway.create" {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        let headers = [(ETAG, revision_tag(number))];
        let body = axum::Json(RevisionInfo::from(revision));
        return Ok((status, headers, body).into_response());
    }
    let takes_away = ["delete", "revoke", "release", "forget"]
        .iter()
        .any(|verb| entry.action.ends_with(verb));
    if takes_away {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(Error::AlreadyDone {
        resource: entry.resource,
    })
}
