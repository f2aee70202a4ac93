//! The ops listener: is the process alive, has it read everything once, and what does it count.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use lanekeeper_serve::Limits;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::core::Core;

/// Connections of scrapers and probes open at once.
const CONNECTIONS_MAX: usize = 128;
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Serves the ops listener until `shutdown`.
///
/// # Errors
///
/// When the listener cannot go on.
pub(crate) async fn serve(
    core: Arc<Core>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), lanekeeper_serve::Error> {
    let limits = Limits {
        max_connections: CONNECTIONS_MAX,
        ..Limits::default()
    };
    let grace = core.timing.shutdown_grace;
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&core, request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(answer) }
    });
    lanekeeper_serve::serve(listener, limits, service, shutdown, grace).await
}

fn answer(core: &Core, method: &Method, path: &str) -> Response<Full<Bytes>> {
    if !matches!(path, "/livez" | "/readyz" | "/metrics") {
        return text(StatusCode::NOT_FOUND, "not found\n");
    }
    if method != Method::GET && method != Method::HEAD {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/metrics" => match core.metrics.encode() {
            Ok(exposition) => typed(StatusCode::OK, OPEN_METRICS, exposition),
            Err(error) => {
                tracing::error!(%error, "metrics cannot be encoded");
                text(StatusCode::INTERNAL_SERVER_ERROR, "internal error\n")
            }
        },
        "/readyz" if core.closing.is_cancelled() => {
            text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
        }
        "/readyz" if !core.watch.is_ready() => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "the configuration has not been read yet\n",
        ),
        _ => text(StatusCode::OK, "ok\n"),
    }
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    typed(status, TEXT, body)
}

fn typed(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
