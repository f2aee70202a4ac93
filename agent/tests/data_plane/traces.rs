//! The spans of requests and attempts: their names, parents and attributes, and what the provider
//! is told of them.

use crate::caller::{Ask, chat};
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{
    Script, Upstream, answer, chunk, completion, delta, json, stream_end, stream_head,
};
use lanekeeper_agent::plane::Plane;
use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Keeps every finished span.
#[derive(Clone, Debug, Default)]
struct Collected(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Collected {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

struct Traced {
    agent: Agent,
    collected: Collected,
    _provider: SdkTracerProvider,
}

/// One span, its attributes as text.
#[derive(Debug)]
struct Seen {
    span: SpanData,
    attributes: BTreeMap<String, String>,
}

impl Seen {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }
}

impl Traced {
    async fn start(document: &str) -> Self {
        Self::sampled(document, Sampler::ParentBased(Box::new(Sampler::AlwaysOn))).await
    }

    async fn sampled(document: &str, sampler: Sampler) -> Self {
        let collected = Collected::default();
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_simple_exporter(collected.clone())
            .build();
        let plane = Plane::traced(Some(provider.tracer("test")));
        Self {
            agent: Agent::start_on(plane, document).await,
            collected,
            _provider: provider,
        }
    }

    /// Waits for `count` spans; attempts come before their requests.
    async fn spans(&self, count: usize) -> Vec<Seen> {
        eventually("all spans have ended", || {
            self.collected.0.lock().unwrap().len() >= count
        })
        .await;
        let spans = self.collected.0.lock().unwrap().clone();
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
            .into_iter()
            .map(|span| {
                let mut attributes = BTreeMap::new();
                for attribute in &span.attributes {
                    let value = attribute.value.to_string();
                    let before = attributes.insert(attribute.key.to_string(), value);
                    assert!(before.is_none(), "{} is set twice", attribute.key);
                }
                Seen { span, attributes }
            })
            .collect()
    }
}

fn traceparent(trace: &str, span: &Seen) -> String {
    format!("00-{trace}-{}-01", span.span.span_context.span_id())
}

const ANSWER: &str = r#"{"id":"c","object":"chat.completion","model":"real-model","choices":[{"index":0,"message":{"role":"assistant","content":"SECRET ANSWER"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}"#;

#[tokio::test]
async fn request_and_its_attempts_are_one_trace_below_the_callers() {
    let sick = Upstream::start(json(500, "{}")).await;
    let well = Upstream::start(json(200, ANSWER)).await;
    let document = Document::new()
        .lane_at("a", sick.address, 100, "")
        .lane("b", &well);
    let traced = Traced::start(&document.yaml()).await;
    let got = chat("chat", false)
        .with("traceparent", CALLER)
        .with("tracestate", "vendor=1")
        .with("tracestate", "other=2")
        .with("authorization", "Bearer SECRET-KEY")
        .send(traced.agent.address)
        .await;
    assert_eq!(got.status, 200, "{got:?}");

    let spans = traced.spans(3).await;
    let [failed, served, request] = &spans[..] else {
        panic!("{spans:#?}")
    };
    assert_eq!(request.span.name, "chat chat");
    assert_eq!(request.span.span_kind, SpanKind::Server);
    assert_eq!(
        request.span.parent_span_id.to_string(),
        "b7ad6b7169203331",
        "the caller's span is the parent"
    );
    assert!(request.span.parent_span_is_remote);
    assert_eq!(request.span.status, Status::Unset);
    for (name, wanted) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "chat"),
        ("gen_ai.response.model", "real-model"),
        ("gen_ai.usage.input_tokens", "9"),
        ("gen_ai.usage.output_tokens", "3"),
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
        ("server.address", "agent.test"),
        ("lanekeeper.pool", "chat"),
        ("lanekeeper.attempts", "2"),
        ("lanekeeper.outcome", "ok"),
    ] {
        assert_eq!(request.get(name), Some(wanted), "{name} of {request:#?}");
    }
    assert_eq!(request.get("error.type"), None);

    for (attempt, upstream, lane) in [(failed, &sick, "a"), (served, &well, "b")] {
        assert_eq!(attempt.span.name, format!("chat up-{lane}"));
        assert_eq!(attempt.span.span_kind, SpanKind::Client);
        assert_eq!(
            attempt.span.parent_span_id,
            request.span.span_context.span_id()
        );
        let port = upstream.address.port().to_string();
        for (name, wanted) in [
            ("gen_ai.request.model", format!("up-{lane}").as_str()),
            ("gen_ai.provider.name", "openai"),
            ("lanekeeper.lane", lane),
            ("lanekeeper.provider", format!("p-{lane}").as_str()),
            ("server.address", "127.0.0.1"),
            ("server.port", &port),
        ] {
            assert_eq!(attempt.get(name), Some(wanted), "{name} of {attempt:#?}");
        }
        let seen = &upstream.seen()[0];
        assert_eq!(
            seen.header("traceparent"),
            Some(traceparent(TRACE, attempt).as_str()),
            "the provider works below the attempt"
        );
        assert_eq!(seen.header("tracestate"), Some("vendor=1,other=2"));
    }
    assert_eq!(failed.get("error.type"), Some("500"));
    assert_eq!(failed.get("http.response.status_code"), Some("500"));
    assert_eq!(failed.get("lanekeeper.disposition"), Some("transient"));
    assert!(matches!(failed.span.status, Status::Error { .. }));
    assert_eq!(served.get("lanekeeper.disposition"), Some("success"));
    assert_eq!(served.get("http.request.resend_count"), Some("1"));
    assert_eq!(served.get("gen_ai.usage.output_tokens"), Some("3"));

    let everything = format!("{spans:?}");
    for secret in ["SECRET", "Bearer", "\"hi\""] {
        assert!(!everything.contains(secret), "{secret} is in a span");
    }
}

fn usage_stream() -> Script {
    let first = delta("hello").replace("\"id\":\"c\"", "\"id\":\"c\",\"model\":\"streamed\"");
    vec![
        stream_head(),
        chunk(&first),
        chunk(crate::upstream::FINISH),
        chunk(
            "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n",
        ),
        chunk(crate::upstream::DONE),
        stream_end(),
    ]
}

#[tokio::test]
async fn span_of_a_stream_ends_with_the_stream_and_knows_its_tokens() {
    let upstream = Upstream::start(usage_stream()).await;
    let traced = Traced::start(&Document::new().lane("a", &upstream).yaml()).await;
    let got = chat("chat", true).send(traced.agent.address).await;
    assert!(got.whole, "{got:?}");
    let spans = traced.spans(2).await;
    for span in &spans {
        assert_eq!(span.get("gen_ai.response.model"), Some("streamed"));
        assert_eq!(span.get("gen_ai.usage.input_tokens"), Some("5"));
        assert_eq!(span.get("gen_ai.usage.output_tokens"), Some("1"));
    }
    assert_eq!(spans[1].get("lanekeeper.outcome"), Some("ok"));
    assert!(spans[1].span.end_time >= spans[0].span.end_time);
}

#[tokio::test]
async fn broken_answer_is_an_error_of_both_spans() {
    let mut script = usage_stream();
    script.truncate(2);
    script.push(crate::upstream::Step::Close);
    let upstream = Upstream::start(script).await;
    let traced = Traced::start(&Document::new().lane("a", &upstream).yaml()).await;
    let got = chat("chat", true).send(traced.agent.address).await;
    assert!(!got.whole, "{got:?}");
    let spans = traced.spans(2).await;
    assert_eq!(spans[0].get("lanekeeper.disposition"), Some("transient"));
    assert_eq!(spans[1].get("error.type"), Some("failed"));
    assert_eq!(spans[1].get("lanekeeper.outcome"), Some("failed"));
    assert_eq!(spans[1].get("http.response.status_code"), Some("200"));
}

#[tokio::test]
async fn names_of_spans_are_configured_ones_whatever_callers_ask_for() {
    let upstream = Upstream::start(completion("hi")).await;
    let traced = Traced::start(&Document::new().lane("a", &upstream).yaml()).await;
    let long = "x".repeat(1000);
    let got = chat(&long, false).send(traced.agent.address).await;
    assert_eq!(got.status, 404);
    let got = chat("chat", false)
        .at("/nowhere?key=SECRET")
        .send(traced.agent.address)
        .await;
    assert_eq!(got.status, 404);
    let spans = traced.spans(2).await;
    assert_eq!(spans[0].span.name, "chat");
    assert_eq!(spans[0].get("gen_ai.request.model").unwrap().len(), 256);
    assert_eq!(spans[0].get("http.response.status_code"), Some("404"));
    assert_eq!(spans[0].span.status, Status::Unset, "4xx is the caller's");
    assert_eq!(spans[1].span.name, "POST");
    assert!(!format!("{spans:?}").contains("SECRET"));
}

#[tokio::test]
async fn every_operation_has_its_name() {
    let upstream = Upstream::start(answer(400, &[], "{}")).await;
    let openai = Document::new().lane("a", &upstream).yaml();
    let of = |protocol: &str| openai.replace("protocol: openai", &format!("protocol: {protocol}"));
    let body = r#"{"model":"chat","input":"x"}"#;
    let cases: [(&str, &str, &str, &str); 8] = [
        ("openai", "/v1/completions", "text_completion", "openai"),
        ("openai", "/v1/embeddings", "embeddings", "openai"),
        ("responses", "/v1/responses", "chat", "openai"),
        ("anthropic", "/v1/messages", "chat", "anthropic"),
        (
            "anthropic",
            "/v1/messages/count_tokens",
            "count_tokens",
            "anthropic",
        ),
        (
            "gemini",
            "/v1beta/models/chat:generateContent",
            "generate_content",
            "gcp.gemini",
        ),
        (
            "gemini",
            "/v1beta/models/chat:embedContent",
            "embeddings",
            "gcp.gemini",
        ),
        ("cohere", "/v2/chat", "chat", "cohere"),
    ];
    for (protocol, path, operation, provider) in cases {
        let traced = Traced::start(&of(protocol)).await;
        let ask: Ask = chat("chat", false).at(path).body(body);
        ask.send(traced.agent.address).await;
        let spans = traced.spans(2).await;
        assert_eq!(spans[1].span.name, format!("{operation} chat"), "{path}");
        for span in &spans {
            assert_eq!(span.get("gen_ai.operation.name"), Some(operation), "{path}");
            assert_eq!(span.get("gen_ai.provider.name"), Some(provider), "{path}");
        }
    }
}

#[tokio::test]
async fn trace_that_nobody_records_is_still_passed_on() {
    let upstream = Upstream::start(completion("hi")).await;
    let document = Document::new().lane("a", &upstream).yaml();
    let traced = Traced::start(&document).await;
    let unsampled = CALLER.replace("-01", "-00");
    chat("chat", false)
        .with("traceparent", &unsampled)
        .send(traced.agent.address)
        .await;
    let told = upstream.seen()[0].header("traceparent").unwrap().to_owned();
    assert!(
        told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"),
        "{told}"
    );
    assert_ne!(told, unsampled, "the provider hangs below the agent");

    // What is no trace context begins a new trace.
    for (name, value) in [
        ("traceparent", "00-zz-yy-01"),
        ("traceparent", &format!("{CALLER}-more")),
    ] {
        chat("chat", false)
            .with(name, value)
            .send(traced.agent.address)
            .await;
        let seen = upstream.seen();
        let told = seen.last().unwrap().header("traceparent").unwrap();
        assert!(!told.contains(TRACE) && told.ends_with("-01"), "{told}");
    }
}

#[tokio::test]
async fn without_a_tracer_the_callers_context_passes_untouched() {
    let upstream = Upstream::start(completion("hi")).await;
    let agent = Agent::start(&Document::new().lane("a", &upstream).yaml()).await;
    chat("chat", false)
        .with("traceparent", CALLER)
        .with("tracestate", "vendor=1")
        .send(agent.address)
        .await;
    let seen = &upstream.seen()[0];
    assert_eq!(seen.header("traceparent"), Some(CALLER));
    assert_eq!(seen.header("tracestate"), Some("vendor=1"));
}
