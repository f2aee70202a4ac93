//! The span of one attempt on one lane.

use super::context::ParentHeaders;
use super::{RequestTrace, set_error, set_status_code, set_told, text};
use crate::proof::Proof;
use http::StatusCode;
use lanekeeper_breaker::Cause;
use lanekeeper_protocol::sse;
use lanekeeper_protocol::usage::{self, Told};
use lanekeeper_protocol::{Dialect, Protocol, Vendor, vendor};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanKind, Tracer as _};
use opentelemetry_sdk::trace::Span;
use std::borrow::Cow;

/// Where an attempt goes, as its span names it.
pub(crate) struct Destination<'a> {
    /// The pool; empty for a lane that was asked for directly.
    pub(crate) pool: &'a str,
    pub(crate) lane: &'a str,
    pub(crate) provider: &'a str,
    pub(crate) protocol: Protocol,
    pub(crate) upstream_model: &'a str,
    /// Host and port; `None` when the provider's address is unusable.
    pub(crate) server: Option<(&'a str, u16)>,
}

/// The span of one attempt; it ends when it is dropped, by default as given up.
pub(crate) struct AttemptTrace {
    request: RequestTrace,
    span: Span,
    status: Option<StatusCode>,
    proof: Option<Proof>,
    vendor: &'static dyn Vendor,
    told: Told,
}

impl AttemptTrace {
    pub(super) fn begin(
        request: RequestTrace,
        destination: &Destination<'_>,
        dialect: Option<Dialect>,
        number: u32,
    ) -> Self {
        let tracer = &request.0.tracer;
        let operation = dialect.map_or("attempt", Dialect::telemetry_name);
        let vendor = vendor(destination.protocol);
        let mut span = tracer
            .span_builder(format!("{operation} {}", destination.upstream_model))
            .with_kind(SpanKind::Client)
            .start_with_context(tracer, &request.0.context);
        if span.is_recording() {
            span.set_attributes([
                KeyValue::new("gen_ai.operation.name", operation),
                KeyValue::new("gen_ai.provider.name", vendor.telemetry_name()),
                text("gen_ai.request.model", destination.upstream_model),
                text("lanekeeper.lane", destination.lane),
                text("lanekeeper.provider", destination.provider),
                KeyValue::new("http.request.method", "POST"),
            ]);
            if !destination.pool.is_empty() {
                span.set_attribute(text("lanekeeper.pool", destination.pool));
            }
            if let Some((host, port)) = destination.server {
                span.set_attributes([
                    text("server.address", host),
                    KeyValue::new("server.port", i64::from(port)),
                ]);
            }
            if number > 1 {
                let resend = i64::from(number.saturating_sub(1));
                span.set_attribute(KeyValue::new("http.request.resend_count", resend));
            }
        }
        Self {
            request,
            span,
            status: None,
            proof: None,
            vendor,
            told: Told::default(),
        }
    }

    /// What tells the provider that its work belongs below this span.
    pub(crate) fn headers(&self) -> Option<ParentHeaders> {
        ParentHeaders::of(self.span.span_context())
    }

    /// The status of the provider's answer.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// A whole answer is here.
    pub(crate) fn document(&mut self, body: &[u8]) {
        if self.span.is_recording() {
            self.told.update(usage::read(self.vendor, body));
        }
    }

    /// A frame of the answer is here. Most are only searched.
    pub(crate) fn frame(&mut self, frame: &sse::Frame) {
        if !self.span.is_recording() {
            return;
        }
        let raw = &frame.raw;
        let tells =
            usage::may_tell_usage(raw) || (self.told.model.is_none() && usage::may_tell_model(raw));
        if let (true, Some(data)) = (tells, frame.data()) {
            self.told.update(usage::read(self.vendor, &data));
        }
    }

    /// What the attempt proved.
    pub(crate) fn proved(&mut self, proof: Proof) {
        self.proof = Some(proof);
    }
}

impl Drop for AttemptTrace {
    fn drop(&mut self) {
        if !self.span.is_recording() {
            return;
        }
        let span = &mut self.span;
        set_told(span, &self.told);
        if let Some(status) = self.status {
            set_status_code(span, status);
        }
        let (disposition, error) = match self.proof {
            Some(Proof::Success) => ("success", None),
            Some(Proof::Neutral) => ("neutral", None),
            Some(Proof::Transient { cause, .. }) => ("transient", Some(kind(cause))),
            Some(Proof::HardDown { cause }) => ("hard_down", Some(kind(cause))),
            Some(Proof::ClientFault { status }) => {
                ("client_fault", Some(Cow::Owned(status.to_string())))
            }
            None => ("abandoned", Some(Cow::Borrowed("cancelled"))),
        };
        span.set_attribute(KeyValue::new("lanekeeper.disposition", disposition));
        if let Some(error) = error {
            set_error(span, error);
        }
        if matches!(self.proof, Some(Proof::Success | Proof::Neutral)) {
            self.request.tell(std::mem::take(&mut self.told));
        }
    }
}

/// A failing status says more than the kind it is of.
fn kind(cause: Cause) -> Cow<'static, str> {
    match cause.status {
        Some(status) => Cow::Owned(status.to_string()),
        None => Cow::Borrowed(cause.kind.as_str()),
    }
}
