//! Path parameters.

use crate::error::Error;
use axum::extract::FromRequestParts;
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
            Err(rejection) => Err(Error::InvalidParameter {
                name: "path".to_owned(),
                reason: rejection.body_text(),
            }),
        }
    }
}
