//! The ops listener: is the process alive, has it read everything once, and what does it count. It
//! is there before the stores are, so that a process that waits for them is not taken for a dead
//! one.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use lanekeeper_serve::Limits;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::follow::config::ConfigWatch;
use crate::metrics::Metrics;

/// Connections of scrapers and probes open at once.
const CONNECTIONS_MAX: usize = 128;
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// What the answers are made of.
pub(crate) struct Ops {
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Cancelled when the process is to end.
    pub(crate) closing: CancellationToken,
    /// How far the configuration has been read; missing until the stores are there.
    pub(crate) watch: OnceLock<Arc<ConfigWatch>>,
}

impl Ops {
    /// Serves the ops listener until `shutdown`; running answers get `grace` then.
    ///
    /// # Errors
    ///
    /// When the listener cannot go on.
    pub(crate) async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        grace: Duration,
        shutdown: CancellationToken,
    ) -> Result<(), lanekeeper_serve::Error> {
        let limits = Limits {
            max_connections: CONNECTIONS_MAX,
            ..Limits::default()
        };
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = self.answer(request.method(), request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        });
        lanekeeper_serve::serve(listener, limits, service, shutdown, grace).await
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
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
            "/metrics" => match self.metrics.encode() {
                Ok(exposition) => typed(StatusCode::OK, OPEN_METRICS, exposition),
                Err(error) => {
                    tracing::error!(%error, "metrics cannot be encoded");
                    text(StatusCode::INTERNAL_SERVER_ERROR, "internal error\n")
                }
            },
            "/readyz" => match self.hindrance() {
                Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
                None => text(StatusCode::OK, "ok\n"),
            },
            _ => text(StatusCode::OK, "ok\n"),
        }
    }

    /// Why agents should not be sent here.
    fn hindrance(&self) -> Option<&'static str> {
        if self.closing.is_cancelled() {
            return Some("stopping\n");
        }
        match self.watch.get() {
            None => Some("waiting for the configuration database\n"),
            Some(watch) if !watch.is_ready() => Some("the configuration has not been read yet\n"),
            Some(_) => None,
        }
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
