//! Spans of requests and attempts, after OpenTelemetry's conventions for generative AI.
//!
//! A request's span begins with its head and ends with its answer; each attempt is a client span
//! below it, and the provider is told the attempt's span as its parent (W3C trace context). Without
//! a tracer none of this exists: a request carries an empty option and nothing else.
//!
//! Spans carry names, numbers and outcomes. Prompts, answers, headers, queries and keys never
//! become attributes, and what a caller may choose freely is cut at a bound.

mod attempt;
mod context;

pub(crate) use attempt::{AttemptTrace, Destination};

use crate::observe::metrics::RequestOutcome;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::usage::Told;
use lanekeeper_serve::trace_context;
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;

/// Longest text of a caller or provider that becomes an attribute.
const TEXT_MAX_BYTES: usize = 256;

/// The span of one request. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub(crate) struct RequestTrace(Arc<Request>);

struct Request {
    tracer: SdkTracer,
    /// What the spans of its attempts hang below.
    context: Context,
    /// Someone looks at this span; without, only its context counts.
    is_recording: bool,
    open: Mutex<Open>,
}

/// What is known of a request so far.
struct Open {
    span: Span,
    dialect: Option<Dialect>,
    status: Option<StatusCode>,
    outcome: Option<RequestOutcome>,
    attempts: u32,
    told: Told,
}

impl RequestTrace {
    /// Begins the span of a request, below the caller's own if there is one.
    pub(crate) fn begin(tracer: &SdkTracer, method: &Method, headers: &HeaderMap) -> Self {
        let parent = trace_context::of_caller(headers);
        // A method is any token; only the usual one names a span.
        let name = if method == Method::POST {
            "POST"
        } else {
            "HTTP"
        };
        let mut span = tracer
            .span_builder(name)
            .with_kind(SpanKind::Server)
            .start_with_context(tracer, &parent);
        let is_recording = span.is_recording();
        if is_recording {
            span.set_attribute(text("http.request.method", method.as_str()));
            if let Some(authority) = host(headers) {
                span.set_attribute(text("server.address", authority.host()));
                if let Some(port) = authority.port_u16() {
                    span.set_attribute(KeyValue::new("server.port", i64::from(port)));
                }
            }
        }
        Self(Arc::new(Request {
            tracer: tracer.clone(),
            context: Context::new().with_remote_span_context(span.span_context().clone()),
            is_recording,
            open: Mutex::new(Open {
                span,
                dialect: None,
                status: None,
                outcome: None,
                attempts: 0,
                told: Told::default(),
            }),
        }))
    }

    /// The request is one of a known dialect.
    pub(crate) fn speaks(&self, dialect: Dialect) {
        let mut open = self.0.open.lock();
        open.dialect = Some(dialect);
        if !self.0.is_recording {
            return;
        }
        let operation = dialect.telemetry_name();
        open.span.update_name(operation);
        open.span.set_attributes([
            KeyValue::new("gen_ai.operation.name", operation),
            KeyValue::new("gen_ai.provider.name", dialect.vendor().telemetry_name()),
        ]);
    }

    /// The model the caller asked for, whether there is one of that name or not.
    pub(crate) fn asks_for(&self, model: &str) {
        if self.0.is_recording {
            let mut open = self.0.open.lock();
            open.span.set_attribute(text("gen_ai.request.model", model));
        }
    }

    /// The model exists: its name is a configured one, fit for the span's name, which has to stay
    /// one of few. `pool` is empty for a lane that was asked for directly.
    pub(crate) fn resolved(&self, model: &str, pool: &str) {
        if !self.0.is_recording {
            return;
        }
        let mut open = self.0.open.lock();
        if let Some(dialect) = open.dialect {
            open.span
                .update_name(format!("{} {model}", dialect.telemetry_name()));
        }
        if !pool.is_empty() {
            open.span.set_attribute(text("lanekeeper.pool", pool));
        }
    }

    /// The status the caller gets.
    pub(crate) fn answered(&self, status: StatusCode) {
        self.0.open.lock().status = Some(status);
    }

    /// How the request ended.
    pub(crate) fn ended(&self, outcome: RequestOutcome) {
        self.0.open.lock().outcome = Some(outcome);
    }

    /// Begins the span of one attempt.
    pub(crate) fn attempt(&self, destination: &Destination<'_>) -> AttemptTrace {
        let (number, dialect) = {
            let mut open = self.0.open.lock();
            open.attempts = open.attempts.saturating_add(1);
            (open.attempts, open.dialect)
        };
        AttemptTrace::begin(self.clone(), destination, dialect, number)
    }

    /// Takes over what an attempt that was answered has been told.
    fn tell(&self, told: Told) {
        self.0.open.lock().told.update(told);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.is_recording {
            self.open.get_mut().close();
        }
    }
}

impl Open {
    fn close(&mut self) {
        let Self {
            span,
            status,
            outcome,
            attempts,
            told,
            ..
        } = self;
        set_told(span, told);
        if *attempts > 0 {
            span.set_attribute(KeyValue::new("lanekeeper.attempts", i64::from(*attempts)));
        }
        if let Some(status) = status {
            set_status_code(span, *status);
        }
        if let Some(outcome) = outcome {
            span.set_attribute(KeyValue::new("lanekeeper.outcome", outcome.as_str()));
        }
        let failed = match outcome {
            Some(
                RequestOutcome::Failed | RequestOutcome::Exhausted | RequestOutcome::Cancelled,
            ) => outcome.map(|outcome| Cow::Borrowed(outcome.as_str())),
            Some(RequestOutcome::Ok | RequestOutcome::ClientFault) | None => status
                .filter(StatusCode::is_server_error)
                .map(|status| Cow::Owned(status.as_str().to_owned())),
        };
        if let Some(kind) = failed {
            set_error(span, kind);
        }
    }
}

/// The host the caller addressed.
fn host(headers: &HeaderMap) -> Option<Authority> {
    headers.get(HOST)?.as_bytes().try_into().ok()
}

/// A text attribute, cut at [`TEXT_MAX_BYTES`].
fn text(name: &'static str, value: &str) -> KeyValue {
    let value = value
        .get(..value.floor_char_boundary(TEXT_MAX_BYTES))
        .unwrap_or_default();
    KeyValue::new(name, value.to_owned())
}

fn set_told(span: &mut Span, told: &Told) {
    if let Some(model) = &told.model {
        span.set_attribute(text("gen_ai.response.model", model));
    }
    for (name, count) in [
        ("gen_ai.usage.input_tokens", told.input_tokens),
        ("gen_ai.usage.output_tokens", told.output_tokens),
    ] {
        if let Some(count) = count.and_then(|count| i64::try_from(count).ok()) {
            span.set_attribute(KeyValue::new(name, count));
        }
    }
}

fn set_status_code(span: &mut Span, status: StatusCode) {
    let status = i64::from(status.as_u16());
    span.set_attribute(KeyValue::new("http.response.status_code", status));
}

fn set_error(span: &mut Span, kind: Cow<'static, str>) {
    let kind: Value = match kind {
        Cow::Borrowed(kind) => kind.into(),
        Cow::Owned(kind) => kind.into(),
    };
    span.set_attribute(KeyValue::new("error.type", kind));
    // The type says it all; a description could only repeat somebody's words.
    span.set_status(Status::error(""));
}
