//! What surrounds every answer: an id, a time limit, security headers, one form of error, a log line
//! and a span.
//!
//! The path is logged, the query and the body never are: a sign-in link carries its token there.

use crate::clock;
use crate::error::Error;
use crate::problem::{Failure, PROBLEM_JSON, ProblemDocument};
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, Method};
use lanekeeper_serve::UnreadHead;
use lanekeeper_serve::trace_context;
use std::error::Error as StdError;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Longest time to the head of an answer. A stream's body is not under it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The header that names a request towards its client.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Nothing of an API answer may run or be framed when a browser is made to show it.
const API_CSP: HeaderValue =
    HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'");

/// Runs the inner service and finishes its answer.
pub(crate) async fn wrap(request: Request, next: Next) -> Response {
    let id = uuid::Uuid::now_v7().simple().to_string();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let started = clock::instant();

    let span = span(&request, &id);
    let run = AssertUnwindSafe(next.run(request).instrument(span.clone())).catch_unwind();
    let mut response = match tokio::time::timeout(ANSWER_TIMEOUT, run).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => Error::Internal("a handler panicked".into()).into_response(),
        Err(_) => Error::Overdue.into_response(),
    };
    if let Some(error) = failure(&response, &method) {
        log_failure(&error, &id, &method, &path);
        render(&mut response, &error, &id);
    }
    set_headers(response.headers_mut(), &id);
    finish(&span, &response);
    tracing::debug!(
        request = %id,
        %method,
        path,
        status = response.status().as_u16(),
        elapsed_ms = started.elapsed().as_millis(),
        "answered"
    );
    response
}

/// Answers a request whose head could not be read, which no layer has seen.
pub(crate) fn refuse_unread(head: UnreadHead<'_>) -> http::Response<Bytes> {
    let id = uuid::Uuid::now_v7().simple().to_string();
    let error = Error::UnreadableHead(head.status);
    let body = serde_json::to_vec(&ProblemDocument::new(&error, &id)).unwrap_or_default();
    let mut response = http::Response::new(Bytes::from(body));
    *response.status_mut() = head.status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    set_headers(response.headers_mut(), &id);
    response
}

/// The span of a request, below its caller's if that has one, for whoever exports spans: log lines have all of it anyway, so it is below
/// their usual level.
fn span(request: &Request, id: &str) -> Span {
    let method = request.method();
    // The name of a span must be one of few, so that it is the route's and not the path's.
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("unknown", MatchedPath::as_str);
    let span = tracing::debug_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = %method,
        http.route = route,
        http.response.status_code = Empty,
        "error.type" = Empty,
        request.id = id,
    );
    if !span.is_disabled() {
        // Refused where nobody exports spans and only a log wants them.
        _ = span.set_parent(trace_context::of_caller(request.headers()));
    }
    span
}

fn finish(span: &Span, response: &Response) {
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("error.type", status.as_str());
        span.record("otel.status_code", "ERROR");
    }
}

/// The error of a response, also when a library made it without one.
fn failure(response: &Response, method: &Method) -> Option<Arc<Error>> {
    if let Some(Failure(error)) = response.extensions().get::<Failure>() {
        return Some(Arc::clone(error));
    }
    let status = response.status();
    let failed = status.is_client_error() || status.is_server_error();
    failed.then(|| Arc::new(Error::from_status(status, method)))
}

fn render(response: &mut Response, error: &Error, id: &str) {
    *response.status_mut() = error.status();
    let body = serde_json::to_vec(&ProblemDocument::new(error, id)).unwrap_or_default();
    response.headers_mut().remove(CONTENT_LENGTH);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    *response.body_mut() = Body::from(body);
}

fn set_headers(headers: &mut HeaderMap, id: &str) {
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(API_CSP);
}

fn log_failure(error: &Error, id: &str, method: &Method, path: &str) {
    if !error.status().is_server_error() {
        return;
    }
    // Any client can bring this about as often as it likes; the second was said when the wait began.
    if matches!(error, Error::TooManyStreams(_) | Error::NoDatabaseYet) {
        tracing::debug!(request = id, %method, path, "{error}");
        return;
    }
    let mut causes = String::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push_str(": ");
        causes.push_str(&cause.to_string());
        source = cause.source();
    }
    tracing::error!(request = id, %method, path, "{error}{causes}");
}
