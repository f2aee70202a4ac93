//! The ops listener: what probes, scrapers and people may ask an agent. It never changes
//! anything, and it answers from memory alone.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use lanekeeper_serve::Limits;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::plane::Plane;
use crate::status::Status;

mod pulse;
mod stats;

pub(crate) use pulse::{BEAT_INTERVAL, Pulse};

/// Connections open at once; probes and scrapers need few.
const MAX_CONNECTIONS: usize = 256;
/// How long running answers get when the process ends.
const GRACE: Duration = Duration::from_secs(2);

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// What the answers are made of.
#[derive(Clone)]
pub(crate) struct Ops {
    /// The data plane.
    pub(crate) plane: Plane,
    /// Facts about this process.
    pub(crate) status: Arc<Status>,
    /// Signs of life of the proxy threads.
    pub(crate) pulse: Arc<Pulse>,
}

impl Ops {
    /// Serves until `stop`.
    ///
    /// # Errors
    ///
    /// When the socket breaks.
    pub(crate) async fn serve(
        self,
        listener: std::net::TcpListener,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let limits = Limits {
            max_connections: MAX_CONNECTIONS,
            ..Limits::default()
        };
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = self.answer(request.method(), request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        });
        lanekeeper_serve::serve(listener, limits, service, stop, GRACE)
            .await
            .map_err(io::Error::other)
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let route: fn(&Self) -> Response<Full<Bytes>> = match path {
            "/livez" => Self::livez,
            "/readyz" => Self::readyz,
            "/healthz" => Self::healthz,
            "/metrics" => Self::metrics,
            "/stats" => Self::stats,
            "/journal" => Self::journal,
            _ => {
                return error(
                    StatusCode::NOT_FOUND,
                    "not_found",
                    "there are /livez, /readyz, /healthz, /metrics, /stats and /journal",
                );
            }
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut answer = error(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "only GET and HEAD",
            );
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        route(self)
    }

    /// Every event loop turns.
    fn livez(&self) -> Response<Full<Bytes>> {
        match self.pulse.stalled(clock::now()) {
            None => probe(StatusCode::OK, "live"),
            Some(worker) => probe(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("proxy thread {worker} does not respond"),
            ),
        }
    }

    /// Callers may be sent here. Independent of the control plane: an agent without one serves on.
    fn readyz(&self) -> Response<Full<Bytes>> {
        let hindrance = if self.status.draining() {
            Some("draining")
        } else if self.plane.applied().is_none() {
            Some("no configuration yet")
        } else if !self.status.listening() {
            Some("not listening yet")
        } else {
            None
        };
        match hindrance {
            None => probe(StatusCode::OK, "ready"),
            Some(reason) => probe(StatusCode::SERVICE_UNAVAILABLE, reason),
        }
    }

    fn healthz(&self) -> Response<Full<Bytes>> {
        if self.plane.any_lane_usable() {
            probe(StatusCode::OK, "healthy")
        } else {
            probe(StatusCode::SERVICE_UNAVAILABLE, "no lane is usable")
        }
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let mut text = String::new();
        stats::encode_session_metrics(&self.plane, &self.status, &mut text);
        // Ends with the end mark of the format, so it comes last.
        self.plane.encode_metrics(&self.status.gateway(), &mut text);
        respond(StatusCode::OK, METRICS, text)
    }

    fn journal(&self) -> Response<Full<Bytes>> {
        respond(StatusCode::OK, LINES, self.plane.journal())
    }

    fn stats(&self) -> Response<Full<Bytes>> {
        json(
            StatusCode::OK,
            &stats::page(&self.plane, &self.status, clock::now()),
        )
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorFacts<'a>,
}

#[derive(Serialize)]
struct ErrorFacts<'a> {
    code: &'a str,
    message: &'a str,
}

fn error(status: StatusCode, code: &str, message: &str) -> Response<Full<Bytes>> {
    let body = ErrorBody {
        error: ErrorFacts { code, message },
    };
    json(status, &body)
}

fn json(status: StatusCode, body: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_vec(body) {
        Ok(bytes) => respond(status, JSON, bytes),
        Err(error) => {
            tracing::error!(%error, "an answer does not encode");
            probe(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
        }
    }
}

fn probe(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    respond(status, TEXT, format!("{text}\n"))
}

fn respond(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
