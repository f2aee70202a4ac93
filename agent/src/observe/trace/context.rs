//! W3C trace context (<https://www.w3.org/TR/trace-context/>), as a provider is told it.

use http::{HeaderMap, HeaderValue};
use lanekeeper_serve::trace_context::{TRACEPARENT, TRACESTATE};
use opentelemetry::trace::{SpanContext, TraceFlags};

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
