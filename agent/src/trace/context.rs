//! W3C trace context (<https://www.w3.org/TR/trace-context/>): read from a caller, told to a
//! provider.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceFlags};
use opentelemetry_sdk::propagation::TraceContextPropagator;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The caller's span, if its headers name one. What is malformed or said twice begins a new trace.
pub(super) fn of_caller(headers: &HeaderMap) -> Context {
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

/// The headers that name a span as the parent of whatever its receiver does.
#[derive(Clone)]
pub(crate) struct ParentHeaders {
    parent: HeaderValue,
    state: Option<HeaderValue>,
}

impl ParentHeaders {
    pub(super) fn of(span: &SpanContext) -> Option<Self> {
        let text = format!(
            "00-{}-{}-{:02x}",
            span.trace_id(),
            span.span_id(),
            span.trace_flags() & TraceFlags::SAMPLED
        );
        let parent = HeaderValue::try_from(text)
            .ok()
            .filter(|_| span.is_valid())?;
        let state = span.trace_state().header();
        let state = (!state.is_empty()).then(|| HeaderValue::try_from(state).ok());
        Some(Self {
            parent,
            state: state.flatten(),
        })
    }

    /// Puts them in place of the caller's.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(TRACEPARENT, self.parent.clone());
        match &self.state {
            Some(state) => {
                headers.insert(TRACESTATE, state.clone());
            }
            None => {
                headers.remove(TRACESTATE);
            }
        }
    }
}
