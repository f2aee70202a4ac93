//! Spans of sessions: one trace per session, of which each span is told as soon as it is over.
//!
//! A session lasts for days, so none of its spans does: its beginning is one, to which each push, each
//! refused report and the end belong as children. Reports that are taken have none: there are
//! thousands a second, and metrics count them. Without a tracer a session carries an empty option.

use lanekeeper_model::AgentRecord;
use lanekeeper_proto::message::FromServer;
use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt as _;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Longest text of an agent that becomes an attribute, in bytes.
const TEXT_MAX_BYTES: usize = 256;

/// The spans of one session.
pub(crate) struct SessionTrace(Option<Box<Open>>);

struct Open {
    /// What the session's spans hang below.
    context: Context,
    /// The push that is not answered.
    push: Option<Span>,
    /// How the session ends, as far as is known.
    ending: &'static str,
}

impl SessionTrace {
    /// A session that no span was begun for.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The session of an agent was opened.
    pub(crate) fn open(record: &AgentRecord) -> Self {
        let span = tracing::debug_span!(
            "session",
            otel.name = "session open",
            otel.kind = "server",
            lanekeeper.gateway = text(&record.gateway),
            lanekeeper.agent = text(&record.name),
            lanekeeper.instance = text(&record.instance),
            lanekeeper.session_epoch = record.session_epoch,
            lanekeeper.revision = record.applied_revision,
        );
        let session = span.context().span().span_context().clone();
        Self(session.is_valid().then(|| {
            Box::new(Open {
                context: Context::new().with_remote_span_context(session),
                push: None,
                ending: "lost",
            })
        }))
    }

    /// Something is sent to the agent.
    pub(crate) fn sends(&mut self, message: &FromServer) {
        let Some(open) = &mut self.0 else {
            return;
        };
        match message {
            FromServer::ConfigPush(push) => {
                let span = tracing::debug_span!(
                    "push",
                    otel.kind = "client",
                    otel.status_code = Empty,
                    lanekeeper.revision = push.revision,
                    lanekeeper.outcome = Empty,
                    "error.type" = Empty,
                );
                // A push that a newer one overtakes ends unanswered.
                open.push = Some(open.below(span));
            }
            FromServer::ReportAck(ack) => {
                if let Some(reason) = &ack.refused {
                    let span = tracing::debug_span!(
                        "report",
                        otel.name = "report refused",
                        otel.kind = "server",
                        otel.status_code = "ERROR",
                        lanekeeper.report_seq = ack.seq,
                        lanekeeper.reason = text(reason),
                        "error.type" = "refused",
                    );
                    drop(open.below(span));
                }
            }
            FromServer::Goodbye(goodbye) => open.ending = goodbye.reason.as_str(),
            FromServer::Welcome(_) | FromServer::Overrides(_) | FromServer::Drain(_) => {}
        }
    }

    /// The agent answered the latest push.
    pub(crate) fn answered(&mut self, applied: bool) {
        let push = self.0.as_mut().and_then(|open| open.push.take());
        let Some(push) = push else {
            return;
        };
        if applied {
            push.record("lanekeeper.outcome", "applied");
        } else {
            push.record("lanekeeper.outcome", "rejected");
            push.record("error.type", "rejected");
            push.record("otel.status_code", "ERROR");
        }
    }

    /// The agent said goodbye, or this side has.
    pub(crate) fn closes(&mut self) {
        if let Some(open) = &mut self.0
            && open.ending == "lost"
        {
            open.ending = "left";
        }
    }
}

impl Drop for SessionTrace {
    fn drop(&mut self) {
        if let Some(open) = &self.0 {
            let span = tracing::debug_span!(
                "session",
                otel.name = "session end",
                otel.kind = "server",
                lanekeeper.reason = open.ending,
            );
            drop(open.below(span));
        }
    }
}

impl Open {
    fn below(&self, span: Span) -> Span {
        // Only refused where nobody exports spans, and then there is no open session here.
        _ = span.set_parent(self.context.clone());
        span
    }
}

/// A text cut at [`TEXT_MAX_BYTES`].
fn text(value: &str) -> &str {
    value
        .get(..value.floor_char_boundary(TEXT_MAX_BYTES))
        .unwrap_or_default()
}
