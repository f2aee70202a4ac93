//! Every error the agent makes, in every dialect, over real sockets.

use crate::caller::{Ask, Got, chat};
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Step, Upstream, json};
use http::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;

/// How one dialect asks, and how it is told.
struct Speaker {
    protocol: &'static str,
    /// A path with the model in it, or one that leaves it to the body. `NAME` is the model.
    path: &'static str,
    /// The path of a list of models, with the header that tells whose.
    list: (&'static str, &'static str),
    unknown: &'static str,
    key_header: &'static str,
    /// The kind of error, as the dialect words it: where it stands, and for which status.
    kind_at: &'static str,
    kinds: &'static [(u16, &'static str)],
    message_at: &'static str,
}

const OPENAI_KINDS: &[(u16, &str)] = &[
    (400, "invalid_request_error"),
    (401, "authentication_error"),
    (403, "permission_error"),
    (404, "invalid_request_error"),
    (405, "invalid_request_error"),
    (408, "invalid_request_error"),
    (413, "invalid_request_error"),
    (429, "rate_limit_error"),
    (503, "server_error"),
    (508, "server_error"),
];

const SPEAKERS: [Speaker; 5] = [
    Speaker {
        protocol: "openai",
        path: "/v1/chat/completions",
        list: ("/v1/models", "x-none"),
        unknown: "/v1/nothing",
        key_header: "authorization",
        kind_at: "/error/type",
        kinds: OPENAI_KINDS,
        message_at: "/error/message",
    },
    Speaker {
        protocol: "responses",
        path: "/v1/responses",
        list: ("/v1/models", "x-none"),
        unknown: "/v1/nothing",
        key_header: "authorization",
        kind_at: "/error/type",
        kinds: OPENAI_KINDS,
        message_at: "/error/message",
    },
    Speaker {
        protocol: "anthropic",
        path: "/v1/messages",
        list: ("/v1/models", "anthropic-version"),
        unknown: "/v1/messages/nothing",
        key_header: "x-api-key",
        kind_at: "/error/type",
        kinds: &[
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (403, "permission_error"),
            (404, "not_found_error"),
            (405, "invalid_request_error"),
            (408, "timeout_error"),
            (413, "request_too_large"),
            (429, "rate_limit_error"),
            (503, "overloaded_error"),
            (508, "api_error"),
        ],
        message_at: "/error/message",
    },
    Speaker {
        protocol: "gemini",
        path: "/v1beta/models/NAME:generateContent",
        list: ("/v1beta/models", "x-none"),
        unknown: "/v1beta/nothing",
        key_header: "x-goog-api-key",
        kind_at: "/error/status",
        kinds: &[
            (400, "INVALID_ARGUMENT"),
            (401, "UNAUTHENTICATED"),
            (403, "PERMISSION_DENIED"),
            (404, "NOT_FOUND"),
            (405, "INVALID_ARGUMENT"),
            (408, "DEADLINE_EXCEEDED"),
            (413, "INVALID_ARGUMENT"),
            (429, "RESOURCE_EXHAUSTED"),
            (503, "UNAVAILABLE"),
            (508, "INTERNAL"),
        ],
        message_at: "/error/message",
    },
    Speaker {
        protocol: "cohere",
        path: "/v2/chat",
        list: ("/v1/models", "x-none"),
        unknown: "/v2/nothing",
        key_header: "authorization",
        // Cohere's errors have no kind.
        kind_at: "",
        kinds: &[],
        message_at: "/message",
    },
];

/// The digest of a caller's key, as the document wants it.
pub(crate) fn digest(key: &str) -> String {
    let bytes = Sha256::digest(key.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Speaker {
    /// A request that is good but for what the test changes.
    fn ask(&self, model: &str) -> Ask {
        let body = format!(r#"{{"messages":[],"contents":[],"input":"x","model":"{model}"}}"#);
        chat("", false)
            .at(&self.path.replace("NAME", model))
            .body(body)
    }

    fn with_key(&self, ask: Ask, key: &str) -> Ask {
        match self.key_header {
            "authorization" => ask.with("authorization", &format!("Bearer {key}")),
            header => ask.with(header, key),
        }
    }

    fn good(&self, model: &str) -> Ask {
        self.with_key(self.ask(model), "sesame")
    }

    /// Fails unless `got` says `status` the way this dialect does.
    fn check(&self, got: &Got, status: u16, case: &str) {
        let case = format!("{} {case}: {got:?}", self.protocol);
        assert_eq!(got.status.as_u16(), status, "{case}");
        assert_eq!(
            got.header("content-type"),
            Some("application/json"),
            "{case}"
        );
        let id = got.header("x-request-id").expect(&case);
        self.check_body(&got.json(), status, &case);
        if self.protocol == "anthropic" {
            assert_eq!(got.header("request-id"), Some(id), "{case}");
        }
        let waits = matches!(status, 429 | 503);
        assert_eq!(got.header("retry-after").is_some(), waits, "{case}");
    }

    fn check_body(&self, body: &Value, status: u16, case: &str) {
        let message = body.pointer(self.message_at).and_then(Value::as_str);
        assert!(message.is_some_and(|text| text.len() > 10), "{case}");
        if let Some((_, kind)) = self.kinds.iter().find(|(of, _)| *of == status) {
            assert_eq!(
                body.pointer(self.kind_at),
                Some(&Value::from(*kind)),
                "{case}"
            );
        }
        match self.protocol {
            "anthropic" => assert_eq!(body["type"], "error", "{case}"),
            "gemini" => assert_eq!(body["error"]["code"], status, "{case}"),
            "cohere" => assert!(body["id"].is_string(), "{case}"),
            _ => assert!(body["error"]["code"].is_string(), "{case}"),
        }
    }

    async fn agent(&self, a: &Upstream) -> Agent {
        let rest = format!(
            "limits: {{body_max_bytes: 65536, body_timeout_secs: 0.2}}\n\
             clients: [{{name: team, key_sha256: \"{}\", pools: [chat]}}, \
             {{name: busy, key_sha256: \"{}\", max_concurrent: 1}}]",
            digest("sesame"),
            digest("busy"),
        );
        let breaker = "{trip: {mode: consecutive, consecutive_n: 1}}";
        let document = Document::new().lane("a", a).breaker(breaker).rest(&rest);
        let protocol = format!("protocol: {}", self.protocol);
        Agent::start(&document.yaml().replace("protocol: openai", &protocol)).await
    }
}

#[tokio::test]
async fn every_refusal_before_a_lane_speaks_every_dialect() {
    for speaker in &SPEAKERS {
        let a = Upstream::start(json(500, "{}")).await;
        let agent = speaker.agent(&a).await;
        let good = || speaker.good("chat");
        let wrong_method = |method, path: &str| Ask {
            method,
            ..good().at(path)
        };
        let (list, header) = speaker.list;
        let cases: Vec<(&str, u16, Ask)> = vec![
            ("no JSON", 400, good().body("{")),
            ("no object", 400, good().body("[]")),
            ("empty", 400, good().body("")),
            ("byte order mark", 400, good().body("\u{feff}{}")),
            (
                "no UTF-8",
                400,
                good().body(&b"{\"model\":\"chat\",\"messages\":[\"\xc3\x28\"]}"[..]),
            ),
            ("no key", 401, speaker.ask("chat")),
            (
                "unknown key",
                401,
                speaker.with_key(speaker.ask("chat"), "x"),
            ),
            ("forbidden lane", 403, speaker.good("a")),
            ("unknown model", 404, speaker.good("unknown")),
            ("unknown path", 404, good().at(speaker.unknown)),
            (
                "GET",
                405,
                wrong_method(Method::GET, &speaker.path.replace("NAME", "chat")),
            ),
            (
                "PUT below a prefix",
                405,
                wrong_method(
                    Method::PUT,
                    &format!("/a{}", speaker.path.replace("NAME", "chat")),
                ),
            ),
            ("too large", 413, good().body(vec![b' '; 70_000])),
            (
                "large head",
                431,
                good().with("x-large", &"y".repeat(100 * 1024)),
            ),
            (
                "hops",
                508,
                good().with("via", "1.1 lanekeeper, 1.1 edge, 1.1 lanekeeper"),
            ),
            (
                "hops in lines",
                508,
                good()
                    .with("via", "1.1 lanekeeper")
                    .with("via", "2 lanekeeper"),
            ),
            (
                "many headers",
                431,
                (0..100).fold(good(), |ask, _| ask.with("x-many", "y")),
            ),
        ];
        for (case, status, ask) in cases {
            let got = ask.send(agent.address).await;
            speaker.check(&got, status, case);
            if status == 405 {
                assert_eq!(got.header("allow"), Some("POST"), "{case}");
            }
        }
        if speaker.protocol != "cohere" {
            let ask = wrong_method(Method::POST, list).with(header, "2023-06-01");
            let got = ask.send(agent.address).await;
            speaker.check(&got, 405, "POST to the list");
            assert_eq!(got.header("allow"), Some("GET"));
        }
        assert_eq!(a.hits(), 0, "{}", speaker.protocol);
        assert_eq!(agent.plane.totals().failed, 0);
        agent.settles().await;
    }
}

#[tokio::test]
async fn body_that_does_not_come_is_told_in_every_dialect() {
    for speaker in &SPEAKERS {
        let a = Upstream::start(json(500, "{}")).await;
        let agent = speaker.agent(&a).await;
        let path = speaker.path.replace("NAME", "chat");
        let key = match speaker.key_header {
            "authorization" => "authorization: Bearer sesame".to_owned(),
            header => format!("{header}: sesame"),
        };
        let mut stream = tokio::net::TcpStream::connect(agent.address).await.unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\n{key}\r\ncontent-length: 50\r\n\r\n{{");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        speaker.check_body(&body, 408, &answer);
        assert_eq!(a.hits(), 0);
        agent.settles().await;
    }
}

#[tokio::test]
async fn head_that_is_no_http_is_told_in_every_dialect() {
    for speaker in &SPEAKERS {
        let a = Upstream::start(json(500, "{}")).await;
        let agent = speaker.agent(&a).await;
        let path = speaker.path.replace("NAME", "chat");
        for (line, status) in [
            (format!("POST {path} HTTP/9.9\r\n\r\n"), 400),
            (format!("POST {path} HTTP/1.1\r\nno header\r\n\r\n"), 400),
            (
                format!("POST {path} HTTP/1.1\r\ncontent-length: x\r\n\r\n"),
                400,
            ),
            (
                format!("POST {path}?{} HTTP/1.1\r\n\r\n", "x".repeat(70_000)),
                431,
            ),
        ] {
            let mut stream = tokio::net::TcpStream::connect(agent.address).await.unwrap();
            stream.write_all(line.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("x-request-id: "), "{head}");
            let body: Value = serde_json::from_str(body).unwrap();
            speaker.check_body(&body, status, &answer);
        }
        assert_eq!(a.hits(), 0);
        agent.settles().await;
    }
}

/// What no pool has answered is counted all the same, under words of the agent's own.
#[tokio::test]
async fn refusals_without_a_pool_are_counted_by_reason() {
    let a = Upstream::start(json(500, "{}")).await;
    let speaker = &SPEAKERS[0];
    let agent = speaker.agent(&a).await;
    let good = || speaker.good("chat");
    let cases = [
        ("invalid_api_key", speaker.ask("chat")),
        ("model_forbidden", speaker.good("a")),
        ("model_not_found", speaker.good("unknown{x}")),
        (
            "loop_detected",
            good().with("via", "1.1 lanekeeper,1.1 lanekeeper"),
        ),
        ("unknown_path", good().at("/v1/nothing")),
        (
            "method_not_allowed",
            Ask {
                method: Method::GET,
                ..good()
            },
        ),
        ("invalid_request", good().body("{")),
        ("request_too_large", good().body(vec![b' '; 70_000])),
        (
            "headers_too_large",
            good().with("x-large", &"y".repeat(100 * 1024)),
        ),
    ];
    for (reason, ask) in cases {
        ask.send(agent.address).await;
        let line = format!("lanekeeper_refusals_total{{reason=\"{reason}\"}} 1\n");
        let metrics = agent.metrics();
        assert!(metrics.contains(&line), "{reason}: {metrics}");
    }
    assert_eq!(
        agent
            .metrics()
            .matches("\nlanekeeper_refusals_total{")
            .count(),
        9
    );
}

#[tokio::test]
async fn refusals_for_want_of_places_are_counted_apart() {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(json(200, "{}"));
    let a = Upstream::start(script).await;
    let document = Document::new()
        .lane("a", &a)
        .rest("limits: {inbound_max: 1}");
    let agent = Agent::start(&document.yaml()).await;
    let first = tokio::spawn(chat("chat", false).send(agent.address));
    eventually("the first runs", || a.hits() == 1).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 503, "{got:?}");
    let line = "lanekeeper_refusals_total{reason=\"inbound_limit\"} 1\n";
    assert!(agent.metrics().contains(line), "{}", agent.metrics());
    gate.add_permits(1);
    first.await.unwrap();
}

#[tokio::test]
async fn busy_callers_and_spent_pools_are_told_in_every_dialect() {
    for speaker in &SPEAKERS {
        let gate = Arc::new(Semaphore::new(0));
        let mut script = vec![Step::Gate(Arc::clone(&gate))];
        script.extend(json(503, "{}"));
        let a = Upstream::start(script).await;
        let agent = speaker.agent(&a).await;
        let busy = || speaker.with_key(speaker.ask("chat"), "busy");
        let first = tokio::spawn(busy().send(agent.address));
        eventually("the first runs", || a.hits() == 1).await;
        let got = busy().send(agent.address).await;
        speaker.check(&got, 429, "busy caller");
        gate.add_permits(1);
        assert_eq!(first.await.unwrap().status, 503);
        // Its only lane rests now, so that nothing is sent any more.
        let got = speaker.good("chat").send(agent.address).await;
        speaker.check(&got, 503, "spent pool");
        assert_eq!(a.hits(), 1, "{}", speaker.protocol);
        agent.settles().await;
    }
}
