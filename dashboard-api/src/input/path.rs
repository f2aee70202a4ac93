//! Path parameters.

use crate::error::Error;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, MatchedPath};
use http::request::Parts;
use serde::de::DeserializeOwned;

/// The parameters of the matched route's path as `T`.
pub(crate) struct Path<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for Path<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send,
{
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        // No name holds it, and PostgreSQL would refuse to look for one.
        if parts.uri.path().contains("%00") {
            return Err(Error::UnknownRoute);
        }
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(path) => Ok(Self(path.0)),
            Err(rejection) => Err(refusal(parts, &rejection)),
        }
    }
}

/// Names the parameter at fault. Of all values only numbers can be of the wrong kind.
fn refusal(parts: &Parts, rejection: &PathRejection) -> Error {
    let PathRejection::FailedToDeserializePathParams(error) = rejection else {
        return Error::Internal(rejection.body_text().into());
    };
    let (name, reason) = match error.kind() {
        ErrorKind::ParseErrorAtIndex { index, .. } => {
            (parameter(parts, *index), "must be a whole number")
        }
        ErrorKind::ParseErrorAtKey { key, .. } => (key.clone(), "must be a whole number"),
        ErrorKind::InvalidUtf8InPathParam { key } => (key.clone(), "must be UTF-8"),
        _ => (parameter(parts, 0), "cannot be used"),
    };
    Error::InvalidParameter {
        name,
        reason: reason.to_owned(),
    }
}

/// The name of the route's parameter at this index.
fn parameter(parts: &Parts, index: usize) -> String {
    let route = parts.extensions.get::<MatchedPath>();
    route
        .and_then(|route| route.as_str().split('{').nth(index + 1))
        .and_then(|rest| rest.split('}').next())
        .unwrap_or("path")
        .to_owned()
}
