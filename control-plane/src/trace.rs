//! Spans of sessions: one trace per session, of which each span is told as soon as it is over.
//!
//! A session lasts for days, so none of its spans does: its beginning is one, to which each push,
//! each refused report and the end belong as children. Reports that are taken have none: there are
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
            FromServer::Welcome(_)
            | FromServer::Overrides(_)
            | FromServer::Advisories(_)
            | FromServer::ProbeLeases(_)
            | FromServer::Drain(_) => {}
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

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a failed step of a test is a failed test"
    )]

    use std::sync::Arc;
    use std::time::Duration;

    use lanekeeper_proto::message::{ConfigPush, Goodbye, GoodbyeReason, ReportAck};
    use opentelemetry::trace::{SpanId, Status, TracerProvider as _};
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().extend(batch);
            Ok(())
        }
    }

    fn record() -> AgentRecord {
        serde_json::from_value(serde_json::json!({
            "gateway": "edge", "instance": "i", "name": "n".repeat(1000), "connected_ms": 1,
        }))
        .unwrap()
    }

    fn push(nonce: u64) -> FromServer {
        FromServer::ConfigPush(ConfigPush {
            nonce,
            revision: nonce,
            document: "{}".into(),
            hash: String::new(),
        })
    }

    fn ack(refused: Option<&str>) -> FromServer {
        FromServer::ReportAck(ReportAck {
            seq: 7,
            want_dense: false,
            next_interval: None,
            refused: refused.map(str::to_owned),
            transitions_stored: 0,
        })
    }

    fn goodbye() -> FromServer {
        FromServer::Goodbye(Goodbye {
            reason: GoodbyeReason::Replaced,
            detail: String::new(),
            reconnect_after: Duration::ZERO,
            jitter: Duration::ZERO,
        })
    }

    /// The spans of what is done with a session, as they are told.
    fn spans(act: impl FnOnce(SessionTrace)) -> Vec<SpanData> {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(kept.clone())
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || act(SessionTrace::open(&record())));
        drop(provider);
        let spans = kept.0.lock();
        spans.clone()
    }

    fn text_of(span: &SpanData, name: &str) -> Option<String> {
        let mut attributes = span.attributes.iter();
        let found = attributes.find(|attribute| attribute.key.as_str() == name)?;
        Some(found.value.to_string())
    }

    #[test]
    fn each_span_is_told_when_it_is_over_and_hangs_below_the_opening() {
        let told = spans(|mut session| {
            session.sends(&push(1));
            session.sends(&push(2));
            session.answered(true);
            session.sends(&push(3));
            session.answered(false);
            session.answered(true);
            session.sends(&ack(None));
            session.sends(&ack(Some("no such cell")));
            session.sends(&goodbye());
            session.closes();
        });
        let names: Vec<&str> = told.iter().map(|span| &*span.name).collect();
        let push_three_times = ["push"; 3];
        assert_eq!(names[0], "session open");
        assert_eq!(names[1..4], push_three_times);
        assert_eq!(names[4..], ["report refused", "session end"]);
        let outcomes: Vec<_> = told[1..4]
            .iter()
            .map(|span| {
                (
                    text_of(span, "lanekeeper.revision").unwrap(),
                    text_of(span, "lanekeeper.outcome"),
                    matches!(span.status, Status::Error { .. }),
                )
            })
            .collect();
        let outcome = |revision: &str, word: Option<&str>, failed| {
            (revision.to_owned(), word.map(str::to_owned), failed)
        };
        assert_eq!(
            outcomes,
            [
                outcome("1", None, false),
                outcome("2", Some("applied"), false),
                outcome("3", Some("rejected"), true),
            ]
        );
        let refused = &told[4];
        let reason = text_of(refused, "lanekeeper.reason");
        assert_eq!(reason.as_deref(), Some("no such cell"));
        assert_eq!(
            text_of(refused, "lanekeeper.report_seq").as_deref(),
            Some("7")
        );
        let end = text_of(&told[5], "lanekeeper.reason");
        assert_eq!(end.as_deref(), Some("replaced"));
        assert_eq!(told[0].parent_span_id, SpanId::INVALID);
        for span in &told[1..] {
            assert_eq!(span.parent_span_id, told[0].span_context.span_id());
            assert_eq!(
                span.span_context.trace_id(),
                told[0].span_context.trace_id()
            );
        }
        let name = text_of(&told[0], "lanekeeper.agent").unwrap();
        assert_eq!(name.len(), TEXT_MAX_BYTES);
    }

    #[test]
    fn end_of_a_session_says_whose_it_was() {
        type Act = fn(SessionTrace);
        let left: Act = |mut session| session.closes();
        let lost: Act = drop;
        for (act, reason) in [(left, "left"), (lost, "lost")] {
            let told = spans(act);
            let end = told.last().unwrap();
            assert_eq!(text_of(end, "lanekeeper.reason").as_deref(), Some(reason));
        }
    }

    #[test]
    fn nothing_is_kept_where_nobody_traces() {
        let mut session = SessionTrace::open(&record());
        session.sends(&push(1));
        assert!(session.0.is_none());
    }
}
