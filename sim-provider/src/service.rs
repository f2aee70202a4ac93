//! Routes of the simulated provider: calls, faults, and the journal of arrivals.

use crate::answer::{self, Body};
use crate::dialect::{Call, Dialect, Route};
use crate::fault::{Fault, FaultBook, MAX_FAULTS};
use crate::journal::{Arrival, Journal};
use crate::{Config, clock};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::Service;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

/// Largest body of a call.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// The whole provider; clones share its faults and journal.
#[derive(Clone)]
pub(crate) struct Provider {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    faults: Mutex<FaultBook>,
    journal: Mutex<Journal>,
}

impl Provider {
    pub(crate) fn new(config: Config) -> Self {
        let inner = Inner {
            config,
            faults: Mutex::default(),
            journal: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }
}

impl Service<Request<Incoming>> for Provider {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { Ok(inner.route(request).await) })
    }
}

/// An error of the provider's own interface.
fn refused(status: StatusCode, message: &str) -> Response<Body> {
    answer::json(status, &json!({"error": message}))
}

fn wrong_method(allow: &'static str) -> Response<Body> {
    let mut response = refused(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allow}"));
    response
        .headers_mut()
        .insert(header::ALLOW, header::HeaderValue::from_static(allow));
    response
}

impl Inner {
    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        match path.as_str() {
            "/faults" => self.faults(request).await,
            "/requests" => self.requests(&request),
            "/livez" => answer::json(StatusCode::OK, &json!({"status": "ok"})),
            _ if path.starts_with("/faults/") => self.fault(&request),
            _ if path.ends_with("/v1/models") || path.ends_with("/v1beta/models") => {
                Self::models(&request)
            }
            _ => match Route::of(&path, request.uri().query().unwrap_or_default()) {
                Some(_) if request.method() != Method::POST => wrong_method("POST"),
                Some(route) => self.call(&route, request).await,
                None => refused(
                    StatusCode::NOT_FOUND,
                    &format!("nothing is served at {path}"),
                ),
            },
        }
    }

    /// Each vendor's packages want a list of their own, and give themselves away by a header.
    fn models(request: &Request<Incoming>) -> Response<Body> {
        if request.method() != Method::GET {
            return wrong_method("GET");
        }
        let speaks = |name| request.headers().contains_key(name);
        let dialect = if speaks("anthropic-version") {
            Dialect::Anthropic
        } else if speaks("x-goog-api-key") || request.uri().path().contains("/v1beta/") {
            Dialect::Gemini
        } else {
            Dialect::OpenAi
        };
        answer::json(StatusCode::OK, &dialect.models())
    }

    async fn call(&self, route: &Route, request: Request<Incoming>) -> Response<Body> {
        let dialect = route.dialect;
        let (head, body) = request.into_parts();
        let Some(body) = read(body).await else {
            return answer::json(
                StatusCode::PAYLOAD_TOO_LARGE,
                &dialect.error_body(413, "The request is too large."),
            );
        };
        let mut call = route.read_call(&body, self.config.words);
        let model = call
            .as_ref()
            .map_or_else(|_| String::new(), |call| call.model.clone());
        let stream = call.as_ref().is_ok_and(|call| call.stream);
        let path = head.uri.path();
        let fault = self
            .faults
            .lock()
            .pick(&model, path, clock::now(), clock::chance);
        self.journal.lock().record(Arrival {
            seq: 0,
            at_ms: u64::try_from(clock::unix_time().as_millis()).unwrap_or(u64::MAX),
            path: path.to_owned(),
            model,
            stream,
            headers: head
                .headers
                .iter()
                .map(|(name, value)| {
                    (
                        name.to_string(),
                        String::from_utf8_lossy(value.as_bytes()).into_owned(),
                    )
                })
                .collect(),
            body_bytes: body.len(),
            fault: fault.as_ref().map(|fault| fault.id),
        });
        let fault = fault.map(|active| active.fault).unwrap_or_default();
        if let (Ok(call), Some(script), false) = (&mut call, &self.config.script, fault.empty) {
            call.play(script, &body);
        }
        match call {
            Ok(call) => self.answer(&call, &fault).await,
            Err(message) => {
                answer::json(StatusCode::BAD_REQUEST, &dialect.error_body(400, &message))
            }
        }
    }

    async fn answer(&self, call: &Call, fault: &Fault) -> Response<Body> {
        answer::to_call(call, fault, self.config.latency, self.config.frame_interval).await
    }

    async fn faults(&self, request: Request<Incoming>) -> Response<Body> {
        match *request.method() {
            Method::GET => {
                let mut faults = self.faults.lock();
                answer::json(
                    StatusCode::OK,
                    &json!({"faults": faults.list(clock::now())}),
                )
            }
            Method::DELETE => answer::json(
                StatusCode::OK,
                &json!({"lifted": self.faults.lock().clear()}),
            ),
            Method::POST => {
                let Some(body) = read(request.into_body()).await else {
                    return refused(StatusCode::PAYLOAD_TOO_LARGE, "the fault is too large");
                };
                self.set_fault(&body)
            }
            _ => wrong_method("GET, POST, DELETE"),
        }
    }

    fn set_fault(&self, body: &[u8]) -> Response<Body> {
        let fault: Fault = match serde_json::from_slice(body) {
            Ok(fault) => fault,
            Err(error) => return refused(StatusCode::BAD_REQUEST, &error.to_string()),
        };
        let problems = fault.problems();
        if !problems.is_empty() {
            return answer::json(
                StatusCode::BAD_REQUEST,
                &json!({"error": "the fault is not valid", "errors": problems}),
            );
        }
        match self.faults.lock().add(fault, clock::now()) {
            Some(active) => answer::json(StatusCode::CREATED, &json!(active)),
            None => refused(
                StatusCode::TOO_MANY_REQUESTS,
                &format!("at most {MAX_FAULTS} faults are held at once"),
            ),
        }
    }

    fn fault(&self, request: &Request<Incoming>) -> Response<Body> {
        if request.method() != Method::DELETE {
            return wrong_method("DELETE");
        }
        let id = request
            .uri()
            .path()
            .rsplit('/')
            .next()
            .and_then(|id| id.parse().ok());
        match id {
            Some(id) if self.faults.lock().lift(id) => {
                answer::json(StatusCode::OK, &json!({"lifted": 1}))
            }
            _ => refused(StatusCode::NOT_FOUND, "there is no fault of that id"),
        }
    }

    /// `GET /requests?after=SEQ&model=NAME`, `DELETE /requests`.
    fn requests(&self, request: &Request<Incoming>) -> Response<Body> {
        match *request.method() {
            Method::GET => {
                let query = request.uri().query().unwrap_or_default();
                let field = |name: &str| {
                    query
                        .split('&')
                        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
                };
                let after = match field("after").map(str::parse::<u64>) {
                    None => 0,
                    Some(Ok(after)) => after,
                    Some(Err(_)) => {
                        return refused(StatusCode::BAD_REQUEST, "after: must be a number");
                    }
                };
                let journal = self.journal.lock();
                let list: Value = json!({"requests": journal.list(after, field("model"))});
                answer::json(StatusCode::OK, &list)
            }
            Method::DELETE => answer::json(
                StatusCode::OK,
                &json!({"forgotten": self.journal.lock().clear()}),
            ),
            _ => wrong_method("GET, DELETE"),
        }
    }
}

/// The body within its bound; `None` when it is larger or the caller went away.
async fn read(body: Incoming) -> Option<Bytes> {
    Some(
        Limited::new(body, MAX_BODY_BYTES)
            .collect()
            .await
            .ok()?
            .to_bytes(),
    )
}
