//! W3C trace context (<https://www.w3.org/TR/trace-context/>), as the caller of any listener tells it.

use http::{HeaderMap, HeaderName};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The header that names the caller's span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header that holds what tracing systems add to it.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The caller's span, if its headers name one. What is malformed or said twice begins a new trace.
pub fn of_caller(headers: &HeaderMap) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &Caller::of(headers))
}

struct Caller {
    parent: Option<String>,
    state: Option<String>,
}

impl Caller {
    fn of(headers: &HeaderMap) -> Self {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = match (parents.next(), parents.next()) {
            (Some(only), None) => only.to_str().ok().map(str::to_owned),
            _ => None,
        };
        // Several headers are one list (RFC 9110, 5.3).
        let states: Option<Vec<_>> = { headers.get_all(TRACESTATE).iter() }
            .map(|value| value.to_str().ok())
            .collect();
        let state = states
            .map(|states| states.join(","))
            .filter(|state| !state.is_empty());
        Self { parent, state }
    }
}

impl Extractor for Caller {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.parent.as_deref(),
            "tracestate" => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}
