//! Requests that are wrong, told in the caller's dialect; and who may call what.

use crate::caller::{Ask, chat};
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Step, Upstream, completion, json};
use http::Method;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;

async fn agent(a: &Upstream) -> Agent {
    let rest = "limits: {body_max_bytes: 1048576, body_timeout_secs: 0.5}";
    Agent::start(&Document::new().lane("a", a).rest(rest).yaml()).await
}

/// Most HTTP libraries write a request to its end before they read: to them a connection that
/// closes in the middle of a long body is a broken pipe, not a refusal.
#[tokio::test]
async fn caller_that_sends_its_body_first_sees_the_refusal_of_its_head() {
    let a = Upstream::start(completion("hello")).await;
    let digest = crate::refusals::digest("k");
    let key = format!("clients: [{{name: team, key_sha256: \"{digest}\"}}]");
    let agent = Agent::start(&Document::new().lane("a", &a).rest(&key).yaml()).await;
    let body = vec![b' '; 12 * 1024 * 1024];
    for (method, path, key, status) in [
        ("POST", "/v1/chat/completions", "wrong", 401),
        ("POST", "/v1/nothing", "k", 404),
        ("PUT", "/v1/chat/completions", "k", 405),
    ] {
        let mut stream = tokio::net::TcpStream::connect(agent.address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // Twice, for the connection is as good as before.
        for _ in 0..2 {
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
            let mut answer = String::new();
            let mut some = [0; 4096];
            while !answer.ends_with("}}") {
                let read = stream.read(&mut some).await.unwrap();
                assert!(read > 0, "{path}: {answer}");
                answer.push_str(std::str::from_utf8(&some[..read]).unwrap());
            }
            let expected = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&expected), "{path}: {answer}");
        }
    }
    assert_eq!(a.hits(), 0);
}

#[tokio::test]
async fn wrong_requests_are_refused_in_the_callers_dialect_before_any_lane() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    let good = || chat("chat", false);
    let cases: Vec<(Ask, u16)> = vec![
        (good().body("{"), 400),
        (good().body(""), 400),
        (good().body("[]"), 400),
        (good().body(r#"{"messages":[]}"#), 400),
        (good().body(r#"{"model":"chat","model":"b"}"#), 400),
        (chat("unknown", false), 404),
        (good().at("/v1/nothing"), 404),
        (
            Ask {
                method: Method::GET,
                ..good()
            },
            405,
        ),
        (
            Ask {
                method: Method::DELETE,
                ..good()
            },
            405,
        ),
        (good().body(vec![b' '; 3 * 1024 * 1024]), 413),
    ];
    for (ask, status) in cases {
        let shown = format!("{} {}", ask.method, ask.path);
        let openai = ask.send(agent.address).await;
        assert_eq!(openai.status.as_u16(), status, "{shown}: {openai:?}");
        assert!(openai.json()["error"]["message"].is_string(), "{shown}");
        assert!(openai.header("x-request-id").is_some());
    }
    let got = chat("unknown", false)
        .at("/v1/messages")
        .send(agent.address)
        .await;
    assert_eq!(got.status, 404);
    assert_eq!(
        (&got.json()["type"], &got.json()["error"]["type"]),
        (&"error".into(), &"not_found_error".into())
    );
    let got = chat("chat", false)
        .at("/v1/messages/count_tokens")
        .send(agent.address)
        .await;
    assert_eq!(got.status, 400, "{got:?}");
    let document = got.json();
    assert_eq!(document["type"], "error");
    assert!(
        document["error"]["message"]
            .as_str()
            .unwrap()
            .contains("count")
    );
    assert_eq!(a.hits(), 0);
    assert_eq!(agent.plane.totals().failed, 0);
    agent.settles().await;
}

#[tokio::test]
async fn body_that_does_not_come_is_timed_out() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    let mut stream = tokio::net::TcpStream::connect(agent.address).await.unwrap();
    stream
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\n{")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains(r#""code":"request_timeout""#), "{answer}");
    agent.settles().await;
}

#[tokio::test]
async fn request_must_name_exactly_one_host() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    let body = r#"{"model":"chat","messages":[]}"#;
    for (path, version, hosts, status) in [
        ("/v1/chat/completions", "1.1", "", 400),
        ("/v1/chat/completions", "1.1", "host: a\r\nhost: b\r\n", 400),
        ("/v1/chat/completions", "1.1", "host: a\r\nhost: a\r\n", 400),
        ("/v1/chat/completions", "1.0", "host: a\r\nhost: b\r\n", 400),
        ("/v1/messages", "1.1", "", 400),
        ("http://a/v1/chat/completions", "1.1", "", 400),
        ("/v1/chat/completions", "1.1", "host: a\r\n", 200),
        ("/v1/chat/completions", "1.0", "", 200),
    ] {
        let answer = raw(
            &agent,
            &format!(
                "POST {path} HTTP/{version}\r\n{hosts}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
        .await;
        let case = format!("{path} {version} {hosts:?}: {answer}");
        assert_eq!(
            answer.split(' ').nth(1),
            Some(&*status.to_string()),
            "{case}"
        );
        if status == 400 {
            let body: serde_json::Value =
                serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
            let is_anthropic = body["type"] == "error";
            assert_eq!(is_anthropic, path == "/v1/messages", "{case}");
            let message = body["error"]["message"].as_str().unwrap();
            assert!(message.contains("host header"), "{case}");
        }
    }
    assert_eq!(a.hits(), 2);
}

#[tokio::test]
async fn request_that_states_its_length_twice_is_refused_with_all_that_follows() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    let body = r#"{"model":"chat","messages":[]}"#;
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let good = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let good_chunked = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{chunked}"
    );
    for (path, headers) in [
        (
            "/v1/chat/completions",
            "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        ),
        (
            "/v1/messages",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        ),
    ] {
        let twice = format!("POST {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n{chunked}");
        for (before, served) in [(String::new(), 0), (format!("{good}{good_chunked}"), 2)] {
            let hits = a.hits();
            let answers = raw(&agent, &format!("{before}{twice}{good}")).await;
            assert_eq!(answers.matches("HTTP/1.1 200").count(), served, "{answers}");
            assert_eq!(
                answers.matches("HTTP/1.1 ").count(),
                served + 1,
                "{answers}"
            );
            let last = answers.rsplit("HTTP/1.1 ").next().unwrap();
            assert!(last.starts_with("400"), "{answers}");
            assert!(last.contains("both content-length"), "{answers}");
            assert_eq!(last.contains(r#""type":"error""#), path == "/v1/messages");
            assert_eq!(a.hits() - hits, served, "{answers}");
        }
    }
}

/// Sends bytes and reads whatever comes until the agent closes.
async fn raw(agent: &Agent, bytes: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(agent.address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn direct_routes_reach_the_lane_under_a_cell_of_their_own() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    for (path, model) in [
        ("/v1/chat/completions", "a"),
        ("/v1/chat/completions", "p-a/a"),
        ("/a/v1/chat/completions", "whatever"),
        ("/p-a/a/v1/chat/completions", "whatever"),
        ("/chat/v1/chat/completions", "whatever"),
    ] {
        let got = chat(model, false).at(path).send(agent.address).await;
        assert_eq!(got.status, 200, "{path} {model}: {got:?}");
    }
    assert!(
        a.seen()
            .iter()
            .all(|seen| seen.body.contains(r#""model":"up-a""#))
    );
    assert_eq!(agent.cell("", "a")["window"]["ok"], 4);
    assert_eq!(agent.cell("chat", "a")["window"]["ok"], 1);
    let got = chat("x", false)
        .at("/p-b/a/v1/chat/completions")
        .send(agent.address)
        .await;
    assert_eq!(got.status, 404);
}

#[tokio::test]
async fn only_known_clients_get_in_and_only_to_their_pools() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(completion("hello")).await;
    let digest: String = Sha256::digest(b"sesame")
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let rest = format!(
        "clients: [{{name: team, key_sha256: \"{digest}\", pools: [chat], max_concurrent: 1}}]"
    );
    let agent = Agent::start(&Document::new().lane("a", &a).rest(&rest).yaml()).await;
    let known = || chat("chat", false).with("authorization", "Bearer sesame");
    assert_eq!(chat("chat", false).send(agent.address).await.status, 401);
    assert_eq!(known().send(agent.address).await.status, 200);
    let body = chat("a", false).body;
    assert_eq!(known().body(body).send(agent.address).await.status, 403);
    assert!(
        a.seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );

    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(completion("slow"));
    a.next(script);
    let address = agent.address;
    let hits = a.hits();
    let first = tokio::spawn(known().send(address));
    eventually("the first runs", || a.hits() == hits + 1).await;
    let second = known().send(agent.address).await;
    assert_eq!(second.status, 429, "{second:?}");
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
}

#[tokio::test]
async fn full_agent_refuses_with_503() {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(completion("slow"));
    let a = Upstream::start(script).await;
    let rest = "limits: {inbound_max: 1}";
    let agent = Agent::start(&Document::new().lane("a", &a).rest(rest).yaml()).await;
    let address = agent.address;
    let first = tokio::spawn(async move { chat("chat", false).send(address).await });
    eventually("the first runs", || a.hits() == 1).await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 503);
    assert!(got.header("retry-after").is_some());
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
}

#[tokio::test]
async fn answer_headers_are_clean_and_say_where_they_come_from() {
    let a = Upstream::start(crate::upstream::answer(
        200,
        &[
            ("content-type", "application/json"),
            ("set-cookie", "a=b"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("x-lanekeeper-lane", "forged"),
            ("x-ratelimit-remaining", "7"),
        ],
        &crate::upstream::completion_body("hello"),
    ))
    .await;
    let agent = agent(&a).await;
    let got = chat("chat", false)
        .with("x-request-id", "mine-1")
        .send(agent.address)
        .await;
    assert_eq!(got.header("set-cookie"), None);
    assert_eq!(got.header("x-hop"), None);
    assert_eq!(got.header("x-ratelimit-remaining"), Some("7"));
    assert_eq!(got.header("x-lanekeeper-lane"), Some("a"));
    assert_eq!(got.header("x-lanekeeper-attempts"), Some("1"));
    assert_eq!(got.header("x-request-id"), Some("mine-1"));
}

#[tokio::test]
async fn other_openai_operations_pass_through() {
    let a = Upstream::start(json(
        200,
        r#"{"object":"list","data":[{"embedding":[0.5]}]}"#,
    ))
    .await;
    let agent = agent(&a).await;
    let got = chat("chat", false)
        .at("/v1/embeddings")
        .send(agent.address)
        .await;
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(a.seen()[0].path, "/v1/embeddings");
}
