//! Gateway documents in a body: JSON, or YAML for people who keep files.

use super::budget::BodyShare;
use super::{body, json};
use crate::error::Error;
use axum::extract::{FromRequest, Request};
use lanekeeper_model::{Checked, Problem};
use serde_json::Value;

/// Types under which a document is taken.
const ACCEPTED: &str = "application/json or application/yaml";

/// A document as it was sent, not yet checked.
pub(crate) struct Document {
    content: Content,
    /// What its body holds, also when its sender leaves before it is checked.
    share: Option<BodyShare>,
}

enum Content {
    /// Parsed JSON.
    Json(Value),
    /// YAML text.
    Yaml(String),
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self {
            content: Content::Json(value),
            share: None,
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Document {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let (parts, whole) = request.into_parts();
        let yaml = match body::media_type(&parts.headers)?.as_deref() {
            Some("application/json") => false,
            Some("application/yaml" | "application/x-yaml" | "text/yaml") => true,
            _ => return Err(body::unsupported(&parts.headers, ACCEPTED)),
        };
        let bytes = body::read(&parts, whole, body::MAX_DOCUMENT_BYTES).await?;
        let content = if yaml {
            let text = String::from_utf8(bytes.into()).map_err(|_| {
                Error::InvalidDocument(vec![Problem {
                    pointer: String::new(),
                    code: "not_utf8".to_owned(),
                    message: "the document is not UTF-8".to_owned(),
                }])
            })?;
            Content::Yaml(text)
        } else {
            Content::Json(json::parse(&bytes)?)
        };
        Ok(Self {
            content,
            share: parts.extensions.get().cloned(),
        })
    }
}

impl Document {
    /// Checks the document against every rule, off the threads that serve requests.
    ///
    /// With `gateway` the document's own name must be that one: a file applied to the wrong
    /// gateway is a mistake, not a renaming.
    pub(crate) async fn check(self, gateway: Option<&str>) -> Result<Checked, Error> {
        let Self { content, share } = self;
        let checked = tokio::task::spawn_blocking(move || {
            let checked = match content {
                Content::Json(value) => lanekeeper_model::check_json(&value),
                Content::Yaml(text) => lanekeeper_model::check_yaml(&text),
            };
            drop(share);
            checked
        })
        .await
        .map_err(|error| Error::Internal(error.into()))?
        .map_err(Error::InvalidDocument)?;
        match gateway {
            Some(name) if *checked.gateway.name != *name => {
                Err(Error::InvalidDocument(vec![Problem {
                    pointer: "/gateway".to_owned(),
                    code: "name_mismatch".to_owned(),
                    message: format!(
                        "the document is for '{}', the path for '{name}'",
                        checked.gateway.name
                    ),
                }]))
            }
            _ => Ok(checked),
        }
    }
}

/// A JSON merge patch (RFC 7396) in a body.
pub(crate) struct MergePatch(pub(crate) Value);

impl<S: Send + Sync> FromRequest<S> for MergePatch {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let accepted = ["application/merge-patch+json", "application/json"];
        value(request, &accepted).await.map(Self)
    }
}

/// One provider, lane or pool of a document in a body.
pub(crate) struct Fragment(pub(crate) Value);

impl<S: Send + Sync> FromRequest<S> for Fragment {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        value(request, &["application/json"]).await.map(Self)
    }
}

async fn value(request: Request, accepted: &[&str]) -> Result<Value, Error> {
    let (parts, whole) = request.into_parts();
    let given = body::media_type(&parts.headers)?;
    if !given.is_some_and(|given| accepted.contains(&given.as_str())) {
        return Err(body::unsupported(&parts.headers, &accepted.join(" or ")));
    }
    let bytes = body::read(&parts, whole, body::MAX_DOCUMENT_BYTES).await?;
    json::parse(&bytes)
}
