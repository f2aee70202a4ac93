//! The authenticated sender of a request, as handlers get it.

use crate::error::Error;
use axum::extract::FromRequestParts;
use http::request::Parts;
use lanekeeper_store::{IdempotencyKey, Principal};
use std::sync::Arc;

/// The authenticated sender of a request.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Who the token belongs to.
    pub(crate) principal: Principal,
    /// The token that was presented: a stream checks now and then that it is still valid.
    pub(crate) token: Arc<str>,
    /// The key under which the sender may repeat this write.
    pub(crate) idempotency: Option<IdempotencyKey>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(|| Error::Internal("the route has no guard".into()))
    }
}
