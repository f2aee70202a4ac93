//! Spans of real processes, received by a collector, and what happens without one.

use lanekeeper_tests::{LIVENESS, Pace, Process, eventually, http_client};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;

/// Spans leave an agent within this time, a slow machine included.
const EXPORT_BOUND: Duration = Duration::from_secs(20);
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector that keeps everything.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> (Self, SocketAddr) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(collector.clone());
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpIncoming::from(listener)),
        );
        (collector, address)
    }

    fn resource(&self, name: &str) -> Option<String> {
        let requests = self.0.lock().unwrap();
        let resource = requests.first()?.resource_spans[0].resource.clone()?;
        text(&resource.attributes, name)
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    /// The first span that `is` accepts, as soon as it arrives.
    async fn span(&self, what: &str, is: impl Fn(&Span) -> bool) -> Span {
        let (span, _) = eventually(what, EXPORT_BOUND, || async {
            let spans = self.spans();
            let names: Vec<_> = spans.iter().map(|span| span.name.clone()).collect();
            let found = spans.into_iter().find(|span| is(span));
            found.ok_or_else(|| format!("only {names:?}"))
        })
        .await;
        span
    }
}

/// An attribute as text.
fn text(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.as_ref()? {
        AnyValue {
            value: Some(Value::StringValue(text)),
        } => Some(text.clone()),
        AnyValue {
            value: Some(Value::IntValue(number)),
        } => Some(number.to_string()),
        other => panic!("{name} is {other:?}"),
    }
}

/// A provider that answers one status with one body, and keeps the head of each request.
async fn provider(status: u16, body: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut request = vec![0u8; 64 * 1024];
                let mut read = 0;
                // The bodies of these tests end with the only closing brace at an object's end.
                while !request[..read].ends_with(b"}]}") {
                    match stream.read(&mut request[read..]).await {
                        Ok(more) if more > 0 => read += more,
                        _ => return,
                    }
                }
                let head = String::from_utf8_lossy(&request[..read]).into_owned();
                kept.lock().unwrap().push(head);
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (address, heads)
}

const ANSWER: &str = r#"{"id":"c","object":"chat.completion","model":"answering","choices":[{"index":0,"message":{"role":"assistant","content":"SECRET"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;

/// An agent over these providers, tried in their order.
async fn agent(folder: &Path, providers: &[SocketAddr], environment: &[(&str, String)]) -> Process {
    let names: Vec<String> = (0..providers.len()).map(|n| format!("p{n}")).collect();
    let parts = || names.iter().zip(providers);
    let document = json!({
        "gateway": "traced",
        "providers": parts().map(|(name, address)| (name.clone(), json!({"protocol": "openai",
            "api_key": null, "base_url": format!("http://{address}")})))
            .collect::<serde_json::Map<_, _>>(),
        "models": parts().map(|(name, _)| (format!("m-{name}"), json!({"provider": name})))
            .collect::<serde_json::Map<_, _>>(),
        "pools": {"chat": {"members": names.iter().enumerate().map(|(place, name)|
            json!({"target": format!("m-{name}"), "weight": if place == 0 { 100 } else { 1 }}))
            .collect::<Vec<_>>()}},
    });
    let file = folder.join("gateway.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let arguments = [
        "agent".to_owned(),
        format!("--config={}", file.display()),
        "--listen=127.0.0.1:0".to_owned(),
        "--ops-listen=127.0.0.1:0".to_owned(),
        "--drain-pause-secs=0".to_owned(),
        "--drain-grace-secs=1".to_owned(),
    ];
    let log = folder.join("log");
    Process::start(&arguments, environment, &["proxy", "ops"], &log)
        .await
        .unwrap()
}

async fn call(http: &reqwest::Client, agent: &Process) -> u16 {
    let body = r#"{"model":"chat","messages":[{"role":"user","content":"SECRET"}]}"#;
    let url = format!("{}/v1/chat/completions", agent.url("proxy"));
    let request = http
        .post(url)
        .header("content-type", "application/json")
        .header("authorization", "Bearer SECRET")
        .header("traceparent", CALLER)
        .body(body);
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn collector_gets_the_request_its_attempts_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, address) = Collector::start().await;
    let (sick, sick_heads) = provider(503, "{}").await;
    let (well, well_heads) = provider(200, ANSWER).await;
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))];
    let agent = agent(folder.path(), &[sick, well], &environment).await;
    assert_eq!(call(&http_client(), &agent).await, 200);

    let is_server = |span: &Span| span.kind == SpanKind::Server as i32;
    let request = collector.span("the request's span", is_server).await;
    assert_eq!(request.name, "chat chat");
    assert_eq!(
        hex(&request.trace_id),
        "0af7651916cd43dd8448eb211c80319c",
        "the trace is the caller's"
    );
    assert_eq!(hex(&request.parent_span_id), "b7ad6b7169203331");
    let get = |name: &str| text(&request.attributes, name);
    assert_eq!(get("gen_ai.response.model").as_deref(), Some("answering"));
    assert_eq!(get("gen_ai.usage.input_tokens").as_deref(), Some("9"));
    assert_eq!(get("http.response.status_code").as_deref(), Some("200"));
    assert_eq!(
        collector.resource("service.name").as_deref(),
        Some("lanekeeper-agent")
    );

    for (lane, heads, error) in [
        ("m-p0", sick_heads, Some("503")),
        ("m-p1", well_heads, None),
    ] {
        let attempt = collector
            .span(lane, |span| {
                text(&span.attributes, "lanekeeper.lane").as_deref() == Some(lane)
            })
            .await;
        assert_eq!(attempt.parent_span_id, request.span_id);
        assert_eq!(attempt.kind, SpanKind::Client as i32);
        assert_eq!(text(&attempt.attributes, "error.type").as_deref(), error);
        let wanted = format!(
            "traceparent: 00-{}-{}-01\r\n",
            hex(&attempt.trace_id),
            hex(&attempt.span_id)
        );
        let head = heads.lock().unwrap()[0].clone();
        assert!(head.contains(&wanted), "{head} without {wanted}");
    }
    let everything = format!("{:?}", collector.spans());
    assert!(!everything.contains("SECRET"), "{everything}");
}

#[tokio::test]
async fn last_spans_are_sent_when_an_agent_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, address) = Collector::start().await;
    let (well, _) = provider(200, ANSWER).await;
    let environment = [("LANEKEEPER_OTLP_ENDPOINT", format!("http://{address}"))];
    let mut agent = agent(folder.path(), &[well], &environment).await;
    assert_eq!(call(&http_client(), &agent).await, 200);
    agent.signal("TERM").await;
    assert_eq!(agent.exit_code(EXPORT_BOUND).await, Some(0));
    assert_eq!(collector.spans().len(), 2);
}

#[tokio::test]
async fn no_request_waits_for_a_collector_that_is_down_or_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    for (protocol, address) in [
        ("grpc", refused),
        ("grpc", silent.local_addr().unwrap()),
        ("http/protobuf", silent.local_addr().unwrap()),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (well, _) = provider(200, ANSWER).await;
        let environment = [
            ("LANEKEEPER_OTLP_ENDPOINT", format!("http://{address}")),
            ("LANEKEEPER_OTLP_PROTOCOL", protocol.to_owned()),
        ];
        let mut agent = agent(folder.path(), &[well], &environment).await;
        let http = http_client();
        let (began, pace) = (std::time::Instant::now(), Pace::watch());
        for _ in 0..200 {
            assert_eq!(call(&http, &agent).await, 200, "{protocol} {address}");
        }
        let took = began.elapsed();
        assert!(
            took < pace.allowed(Duration::from_secs(10)),
            "{protocol}: {took:?}"
        );
        agent.signal("TERM").await;
        let code = agent.exit_code(LIVENESS).await;
        assert_eq!(code, Some(0), "{protocol} {address}");
    }
}

/// A collector that speaks OTLP over HTTP, as one of its users would name it.
#[tokio::test]
async fn spans_go_over_http_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (well, _) = provider(200, ANSWER).await;
    let environment = [
        ("LANEKEEPER_OTLP_ENDPOINT", format!("http://{address}/")),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf".to_owned()),
    ];
    let agent = agent(folder.path(), &[well], &environment).await;
    assert_eq!(call(&http_client(), &agent).await, 200);
    let received = tokio::time::timeout(EXPORT_BOUND, async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let mut chunk = [0u8; 4096];
        while !String::from_utf8_lossy(&bytes).contains("gen_ai.operation.name") {
            let read = stream.read(&mut chunk).await.unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&chunk[..read]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let received = received.await.unwrap();
    assert!(received.starts_with("POST /v1/traces "), "{received}");
    assert!(received.contains("application/x-protobuf"), "{received}");
}

#[tokio::test]
async fn unusable_endpoint_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.json");
    std::fs::write(&file, "{}").unwrap();
    let arguments = [
        "agent".to_owned(),
        format!("--config={}", file.display()),
        "--otlp-endpoint=http://[nonsense".to_owned(),
    ];
    let output = tokio::process::Command::new(lanekeeper_tests::target_folder().join("lanekeeper"))
        .args(&arguments)
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("--otlp-endpoint"), "{printed}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server whose spans go to this collector, and its admin token.
async fn server(folder: &Path, collector: SocketAddr) -> (Process, String) {
    let arguments = [
        "server".to_owned(),
        "--insecure".to_owned(),
        format!("--data-dir={}", folder.join("data").display()),
        format!("--bootstrap-token-file={}", folder.join("token").display()),
        "--grpc-listen=127.0.0.1:0".to_owned(),
        "--http-listen=127.0.0.1:0".to_owned(),
        "--ops-listen=127.0.0.1:0".to_owned(),
        format!("--otlp-endpoint=http://{collector}"),
    ];
    let log = folder.join("server.log");
    let server = Process::start(&arguments, &[], &["grpc", "http", "ops"], &log)
        .await
        .unwrap();
    let token = std::fs::read_to_string(folder.join("token")).unwrap();
    (server, token.trim().to_owned())
}

#[tokio::test]
async fn requests_of_the_api_are_spans_by_route_below_their_callers() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, address) = Collector::start().await;
    let (server, token) = server(folder.path(), address).await;
    let path = "/admin/v1/gateways/SECRET/config";
    let ask = |parents: &[&str]| {
        let request = http_client().get(format!("{}{path}?a=SECRET", server.url("http")));
        let request = request.bearer_auth(&token).header("tracestate", "vendor=1");
        let parents = parents.iter();
        parents.fold(request, |request, parent| {
            request.header("traceparent", *parent)
        })
    };
    let other = CALLER.replace("0af7", "1af7");
    let not_sampled = CALLER.replace("-01", "-00").replace("0af7", "2af7");
    let mut asked = Vec::new();
    for parents in [
        vec![not_sampled.as_str()],
        vec![CALLER],
        vec![],
        vec!["nonsense"],
        vec![CALLER, other.as_str()],
    ] {
        let answer = ask(&parents).send().await.unwrap();
        let id = answer.headers()["x-request-id"]
            .to_str()
            .unwrap()
            .to_owned();
        asked.push((parents, id, answer.status().as_u16().to_string()));
    }
    for (parents, id, status) in asked.split_off(1) {
        let is_asked = |span: &Span| text(&span.attributes, "request.id").as_ref() == Some(&id);
        let span = collector.span("the span of the API", is_asked).await;
        let get = |name: &str| text(&span.attributes, name);
        assert_eq!(get("http.request.method").as_deref(), Some("GET"));
        assert_eq!(get("http.response.status_code"), Some(status));
        let route = get("http.route").unwrap();
        assert_eq!(span.name, format!("GET {route}"));
        assert!(!format!("{span:?}").contains("SECRET"), "{span:?}");
        let is_callers = hex(&span.trace_id) == "0af7651916cd43dd8448eb211c80319c"
            && hex(&span.parent_span_id) == "b7ad6b7169203331"
            && span.trace_state == "vendor=1";
        assert_eq!(is_callers, parents == [CALLER], "{parents:?}: {span:?}");
        assert_eq!(
            span.parent_span_id.is_empty(),
            parents != [CALLER],
            "{parents:?}"
        );
    }
    let everything = format!("{:?}", collector.spans());
    let (_, unsampled, _) = &asked[0];
    assert!(
        !everything.contains(unsampled),
        "its caller decided against it"
    );
}

#[tokio::test]
async fn session_of_an_agent_is_a_trace_of_its_beginning_its_pushes_and_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, address) = Collector::start().await;
    let (server, token) = server(folder.path(), address).await;
    let document = json!({"gateway": "edge"});
    let created = http_client()
        .post(format!("{}/admin/v1/gateways", server.url("http")))
        .bearer_auth(&token)
        .json(&document)
        .send()
        .await
        .unwrap();
    assert_eq!(created.status(), 201, "{}", created.text().await.unwrap());
    let arguments = [
        "agent".to_owned(),
        "--insecure".to_owned(),
        format!("--control-plane=http://{}", server.address("grpc")),
        "--gateway=edge".to_owned(),
        "--name=node".to_owned(),
        "--listen=127.0.0.1:0".to_owned(),
        "--ops-listen=127.0.0.1:0".to_owned(),
        format!("--cache-dir={}", folder.path().join("cache").display()),
        "--drain-pause-secs=0".to_owned(),
    ];
    let log = folder.path().join("agent.log");
    let agent = Process::start(&arguments, &[], &["proxy", "ops"], &log)
        .await
        .unwrap();
    let named = |name: &'static str| move |span: &Span| span.name == name;
    let session = collector
        .span("the session's span", named("session open"))
        .await;
    let of_session = |name: &str| text(&session.attributes, name);
    assert_eq!(of_session("lanekeeper.gateway").as_deref(), Some("edge"));
    assert_eq!(of_session("lanekeeper.agent").as_deref(), Some("node"));
    let push = collector.span("the push's span", named("push")).await;
    let of_push = |name: &str| text(&push.attributes, name);
    assert_eq!(of_push("lanekeeper.revision").as_deref(), Some("1"));
    assert_eq!(of_push("lanekeeper.outcome").as_deref(), Some("applied"));
    agent.signal("TERM").await;
    let end = collector.span("the end's span", named("session end")).await;
    assert_eq!(
        text(&end.attributes, "lanekeeper.reason").as_deref(),
        Some("left")
    );
    for span in [&push, &end] {
        assert_eq!(span.trace_id, session.trace_id, "{}", span.name);
        assert_eq!(span.parent_span_id, session.span_id, "{}", span.name);
    }
}
