//! One provider, lane or pool at a time. Each write is a whole new revision, checked as a whole.

use super::config::{Next, write};
use super::empty::Emptying;
use super::{DocumentChangeQuery, change};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::document::Fragment;
use crate::input::precondition::IfMatch;
use crate::input::{Path, Query};
use crate::revision_info::RevisionInfo;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde_json::{Map, Value};

/// The sections of a document that hold named resources, with the word for one of them.
const SECTIONS: [(&str, &str); 3] = [
    ("providers", "provider"),
    ("models", "lane"),
    ("pools", "pool"),
];

/// A section of a document.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes a parameter to readers of the API")]
enum Section {
    Providers,
    Models,
    Pools,
}

type ResourcePath = (String, String, String);

/// Add or replace one provider, lane or pool.
#[utoipa::path(
    put,
    path = "/admin/v1/gateways/{gateway}/{section}/{name}",
    operation_id = "put_resource",
    tag = "config",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("section" = inline(Section), Path, description = "The kind of resource"),
        ("name" = String, Path, description = "The resource's name"),
        ("If-Match" = String, Header, description = "ETag of the document the change is based on"),
        DocumentChangeQuery
    ),
    request_body(
        description = "The provider, lane or pool as it is in the document",
        content = serde_json::Value
    ),
    responses(
        (status = 200, description = "The revision that is current now; ETag names it",
         body = RevisionInfo),
        (status = 400, description = "The document would have errors; all are listed"),
        (status = 409, description = "Concurrent changes; nothing was written"),
        (status = 412, description = "Another revision is current; its ETag is in the answer"),
        (status = 428, description = "If-Match is missing"),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path((gateway, section, name)): Path<ResourcePath>,
    Query(query): Query<DocumentChangeQuery>,
    headers: HeaderMap,
    Fragment(resource): Fragment,
) -> Result<Response, Error> {
    word_for(&section)?;
    let based_on = IfMatch::required(&headers)?;
    let with = |current: &Value| {
        let mut document = current.clone();
        if let Some(root) = document.as_object_mut() {
            let resources = root
                .entry(section.as_str())
                .or_insert_with(|| Value::Object(Map::new()));
            if let Some(resources) = resources.as_object_mut() {
                resources.insert(name.clone(), resource.clone());
            }
        }
        Ok(document)
    };
    let emptying = Emptying::of_query(query.allow_empty.as_deref())?;
    let change = change(&caller, query.message)?;
    let next = Next::Made(&with);
    write(&app, &change, &gateway, &based_on, emptying, next).await
}

/// Remove one provider, lane or pool.
#[utoipa::path(
    delete,
    path = "/admin/v1/gateways/{gateway}/{section}/{name}",
    operation_id = "remove_resource",
    tag = "config",
    params(
        ("gateway" = String, Path, description = "The gateway's name"),
        ("section" = inline(Section), Path, description = "The kind of resource"),
        ("name" = String, Path, description = "The resource's name"),
        ("If-Match" = String, Header, description = "ETag of the document the change is based on"),
        DocumentChangeQuery
    ),
    responses(
        (status = 200, description = "The revision that is current now; ETag names it",
         body = RevisionInfo),
        (status = 400, description = "Something still refers to it"),
        (status = 409, description = "Concurrent changes; nothing was written"),
        (status = 412, description = "Another revision is current; its ETag is in the answer"),
        (status = 428, description = "If-Match is missing"),
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path((gateway, section, name)): Path<ResourcePath>,
    Query(query): Query<DocumentChangeQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let kind = word_for(&section)?;
    let based_on = IfMatch::required(&headers)?;
    let without = |current: &Value| {
        let mut document = current.clone();
        let removed = document
            .get_mut(&section)
            .and_then(Value::as_object_mut)
            .and_then(|resources| resources.remove(&name));
        match removed {
            Some(_) => Ok(document),
            None => Err(Error::NotFound {
                kind,
                name: name.clone(),
            }),
        }
    };
    let emptying = Emptying::of_query(query.allow_empty.as_deref())?;
    let change = change(&caller, query.message)?;
    let next = Next::Made(&without);
    write(&app, &change, &gateway, &based_on, emptying, next).await
}

fn word_for(section: &str) -> Result<&'static str, Error> {
    SECTIONS
        .iter()
        .find(|(known, _)| *known == section)
        .map(|(_, word)| *word)
        .ok_or(Error::UnknownRoute)
}
