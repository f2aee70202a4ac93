//! The one place where an [`Error`] becomes an HTTP status and a problem document (RFC 9457).
//!
//! Handlers return an [`Error`]; the response carries it unrendered to the envelope, which knows
//! the request's id and writes the body. So an answer of a library (a 405, a 413 of the framework)
//! takes the same path and looks the same.

use crate::error::{Error, Fault, cut};
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use lanekeeper_store::Error as StoreError;
use std::sync::Arc;

/// The media type of every error.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";
/// What a client is asked to wait when the store does not answer or the server is full, seconds.
const STORE_RETRY_SECS: u64 = 2;
/// What a client is asked to wait when all streams are taken, seconds.
const STREAM_RETRY_SECS: u64 = 10;
/// Faults listed in one answer; the rest is counted in `detail` only.
const MAX_FAULTS: usize = 1000;

/// The body of every error answer, `application/problem+json`.
#[derive(Debug, serde::Serialize, utoipa::ToSchema)]
pub(crate) struct ProblemDocument {
    /// Always `about:blank`: `code` tells problems apart.
    pub(crate) r#type: &'static str,
    /// The name of the status.
    pub(crate) title: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// What went wrong, in snake case, stable for programs.
    pub(crate) code: String,
    /// What went wrong, as a sentence for people, with what to do about it where that is known.
    pub(crate) detail: String,
    /// Each fault of the body or of a parameter; empty when there is nothing to point at.
    pub(crate) errors: Vec<Fault>,
    /// Names this request in the server's log.
    pub(crate) request_id: String,
}

impl ProblemDocument {
    /// The document for `error`, without what a stranger must not see of a 5xx.
    pub(crate) fn new(error: &Error, request_id: &str) -> Self {
        let status = error.status();
        let detail = match status {
            StatusCode::INTERNAL_SERVER_ERROR => {
                format!("internal error; the server's log has the cause under request {request_id}")
            }
            _ => cut(error.to_string()),
        };
        let mut errors = error.faults();
        errors.truncate(MAX_FAULTS);
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            code: error.code().to_owned(),
            detail,
            errors,
            request_id: request_id.to_owned(),
        }
    }
}

impl Error {
    /// The HTTP status of this error.
    pub(crate) fn status(&self) -> StatusCode {
        self.mapping().0
    }

    /// The stable code of this error.
    pub(crate) fn code(&self) -> &'static str {
        self.mapping().1
    }

    fn mapping(&self) -> (StatusCode, &'static str) {
        match self {
            Self::MalformedJson { .. } => (StatusCode::BAD_REQUEST, "malformed_json"),
            Self::InvalidBody(_) => (StatusCode::BAD_REQUEST, "invalid_body"),
            Self::InvalidDocument(_) => (StatusCode::BAD_REQUEST, "invalid_document"),
            Self::EmptyGateway { .. } => (StatusCode::BAD_REQUEST, "empty_gateway"),
            Self::UnknownParameter { .. } => (StatusCode::BAD_REQUEST, "unknown_parameter"),
            Self::InvalidParameter { .. } => (StatusCode::BAD_REQUEST, "invalid_parameter"),
            Self::InvalidHeader { .. } => (StatusCode::BAD_REQUEST, "invalid_header"),
            Self::BodyCut => (StatusCode::BAD_REQUEST, "body_cut"),
            Self::Unauthenticated(_) => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Self::InsufficientRole { .. } => (StatusCode::FORBIDDEN, "insufficient_role"),
            Self::CrossOrigin => (StatusCode::FORBIDDEN, "cross_origin"),
            Self::UnknownRoute => (StatusCode::NOT_FOUND, "unknown_route"),
            Self::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Self::MethodNotAllowed(_) => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::BodyTimeout(_) => (StatusCode::REQUEST_TIMEOUT, "body_timeout"),
            Self::BodiesBusy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::RevisionMismatch { .. } => (StatusCode::PRECONDITION_FAILED, "revision_mismatch"),
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::UnsupportedMedia(_) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
            }
            Self::IdempotencyKeyReused => {
                (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused")
            }
            Self::AgentGone => (StatusCode::CONFLICT, "agent_gone"),
            Self::AlreadyDone { .. } => (StatusCode::CONFLICT, "already_done"),
            Self::NoIfMatch => (StatusCode::PRECONDITION_REQUIRED, "if_match_required"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            Self::TooManyStreams(_) => (StatusCode::SERVICE_UNAVAILABLE, "too_many_streams"),
            Self::TooManyStreamsOfToken(_) => (StatusCode::TOO_MANY_REQUESTS, "too_many_streams"),
            Self::GatewayInUse { .. } => (StatusCode::PRECONDITION_REQUIRED, "gateway_in_use"),
            Self::LastUsableMember(_) => (StatusCode::CONFLICT, "last_usable_member"),
            Self::Managed { .. } => (StatusCode::CONFLICT, "managed_by_documents"),
            Self::ConfigBusy => (StatusCode::CONFLICT, "config_busy"),
            Self::OverridesBusy => (StatusCode::CONFLICT, "overrides_busy"),
            Self::Store(error) => store_mapping(error),
            Self::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
            Self::NoDatabaseYet => (StatusCode::SERVICE_UNAVAILABLE, "database"),
            Self::Refused(status) => (*status, "refused"),
            Self::UnreadableHead(status) => (*status, "unreadable_head"),
            Self::Overdue => (StatusCode::GATEWAY_TIMEOUT, "overdue"),
        }
    }

    /// The error a bare status stands for, when a library answered in our place.
    pub(crate) fn from_status(status: StatusCode, method: &http::Method) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::UnknownRoute,
            StatusCode::METHOD_NOT_ALLOWED => Self::MethodNotAllowed(method.to_string()),
            other if other.is_client_error() => Self::Refused(other),
            other => Self::Internal(format!("an inner layer answered {other}").into()),
        }
    }

    fn set_headers(&self, headers: &mut HeaderMap) {
        match self {
            Self::Unauthenticated(_) => {
                headers.insert(
                    WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"lanekeeper\""),
                );
            }
            Self::RevisionMismatch { current } => {
                if let Ok(tag) = HeaderValue::from_str(&format!("\"{current}\"")) {
                    headers.insert(ETAG, tag);
                }
            }
            Self::Store(StoreError::Unavailable { .. })
            | Self::BodiesBusy
            | Self::Overdue
            | Self::NotReady
            | Self::NoDatabaseYet => {
                headers.insert(RETRY_AFTER, HeaderValue::from(STORE_RETRY_SECS));
            }
            Self::TooManyStreams(_) | Self::TooManyStreamsOfToken(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(STREAM_RETRY_SECS));
            }
            _ => {}
        }
    }
}

fn store_mapping(error: &StoreError) -> (StatusCode, &'static str) {
    match error {
        StoreError::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
        StoreError::Exists { .. } => (StatusCode::CONFLICT, "already_exists"),
        StoreError::AlreadyDone => (StatusCode::CONFLICT, "already_done"),
        StoreError::RolloutState { .. } => (StatusCode::CONFLICT, "rollout_state"),
        StoreError::LastAgent => (StatusCode::CONFLICT, "last_agent"),
        StoreError::LastAdmin => (StatusCode::CONFLICT, "last_admin"),
        StoreError::Full { .. } => (StatusCode::CONFLICT, "limit_reached"),
        StoreError::Conflict { .. } => (StatusCode::PRECONDITION_FAILED, "revision_mismatch"),
        StoreError::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid_body"),
        StoreError::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
        StoreError::Address { .. }
        | StoreError::DataDir { .. }
        | StoreError::Migration(_)
        | StoreError::Corrupt(_)
        | StoreError::Internal { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

/// The error that a response stands for, on its way to the envelope.
#[derive(Clone)]
pub(crate) struct Failure(pub(crate) Arc<Error>);

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        self.set_headers(response.headers_mut());
        response.extensions_mut().insert(Failure(Arc::new(self)));
        response
    }
}
