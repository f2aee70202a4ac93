//! What crosses the agent over real sockets, and what must not: framing, headers of one hop, bytes
//! that are no text, and keys.

use crate::caller::{Got, chat};
use crate::dialects::GEMINI;
use crate::gateway::{Agent, Document};
use crate::upstream::{Upstream, answer, completion, completion_body, json};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends these very bytes and reads to the end of the connection.
async fn raw(agent: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(agent).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn post(headers: &[u8], body: &str) -> Vec<u8> {
    let line = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
    let length = format!("content-length: {}\r\n\r\n{body}", body.len());
    [&line[..], headers, length.as_bytes()].concat()
}

/// A name shorter than the lane's own, so that the body's length changes on the way.
const BODY: &str = r#"{"messages":[],"model":"a"}"#;

/// Field report B97: however a body comes, the provider gets it with the length it has there.
#[tokio::test]
async fn provider_gets_a_body_of_the_length_that_is_stated() {
    let a = Upstream::start(completion("hello")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let (first, second) = BODY.split_at(9);
    let chunked = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x};x=y\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    for request in [chunked.into_bytes(), post(b"", BODY)] {
        let got = raw(agent.address, &request).await;
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    }
    // A client that waits for consent gets it.
    let request = post(b"expect: 100-continue\r\n", BODY);
    let (head, body) = request.split_at(request.len() - BODY.len());
    let mut stream = TcpStream::connect(agent.address).await.unwrap();
    stream.write_all(head).await.unwrap();
    let mut consent = [0; 25];
    stream.read_exact(&mut consent).await.unwrap();
    assert_eq!(&consent, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body).await.unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).await.unwrap();
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");

    assert_eq!(a.hits(), 3);
    for seen in a.seen() {
        assert_eq!(seen.body, BODY.replace(r#""a""#, r#""up-a""#));
        let length = seen.body.len().to_string();
        assert_eq!(seen.header("content-length"), Some(length.as_str()));
        for name in ["transfer-encoding", "expect"] {
            assert_eq!(seen.header(name), None, "{name}");
        }
    }
    // The model cannot be read in a packed body, so it is no request.
    let packed = "\u{1f}\u{8b}\u{8}packed";
    let got = raw(agent.address, &post(b"content-encoding: gzip\r\n", packed)).await;
    assert!(got.starts_with("HTTP/1.1 400"), "{got}");
    assert_eq!(a.hits(), 3);
}

/// Field report B110: what describes one hop stays there, in both directions and however it is
/// spelled.
#[tokio::test]
async fn headers_of_one_hop_do_not_cross() {
    let body = completion_body("hello");
    let script = answer(
        200,
        &[
            ("content-type", "application/json"),
            ("Connection", "x-bar"),
            ("x-bar", "1"),
            ("Keep-Alive", "timeout=9"),
            ("proxy-authenticate", "Basic"),
            ("x-kept", "1"),
        ],
        &body,
    );
    let a = Upstream::start(script).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let hop = b"CONNECTION: X-Foo, keep-alive\r\nx-foo: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n\
        Proxy-Authorization: z\r\nKEEP-ALIVE: timeout=5\r\ntrailer: x\r\nX-Title: 1\r\nX-Odd: 1\r\n";
    let got = raw(agent.address, &post(hop, BODY)).await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    let got = got.to_ascii_lowercase();
    assert!(got.contains("\r\nx-kept: 1\r\n"), "{got}");
    for name in ["x-bar", "keep-alive", "proxy-authenticate"] {
        assert!(!got.contains(&format!("\r\n{name}:")), "{name}: {got}");
    }
    let seen = a.seen().remove(0);
    assert_eq!(seen.header("x-title"), Some("1"));
    for name in [
        "x-odd",
        "x-foo",
        "te",
        "upgrade",
        "proxy-authorization",
        "keep-alive",
        "trailer",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    for length in ["", " ", "+5", "5, 5", "0x5"] {
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"
        );
        let got = raw(agent.address, request.as_bytes()).await;
        assert!(got.starts_with("HTTP/1.1 400"), "{length:?}: {got}");
        assert!(got.contains(r#""type":"invalid_request_error""#), "{got}");
    }
    assert_eq!(a.hits(), 1);
}

/// Field report B106: bytes that are no text are a key like any other, and names nobody has are
/// told so.
#[tokio::test]
async fn bytes_that_are_no_text_break_nothing() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let sessions = "affinity: {mode: session, header_name: x-session-id}";
    let document = Document::new().lane("a", &a).lane("b", &b).pool(sessions);
    let agent = Agent::start(&document.yaml()).await;
    let body = BODY.replace(r#""a""#, r#""chat""#);
    for header in [
        &b"x-session-id: sesi\xc3\xb3n\r\n"[..],
        b"x-session-id: \xff\xfe\r\n",
        b"x-session-id: one\r\nx-session-id: two\r\n",
    ] {
        let (before_a, before_b) = (a.hits(), b.hits());
        for _ in 0..4 {
            let got = raw(agent.address, &post(header, &body)).await;
            assert!(got.starts_with("HTTP/1.1 200"), "{header:?}: {got}");
        }
        let to = (a.hits() - before_a, b.hits() - before_b);
        assert!(to == (4, 0) || to == (0, 4), "{header:?}: {to:?}");
    }
    // An empty one is none.
    let before = a.hits();
    for _ in 0..4 {
        raw(agent.address, &post(b"x-session-id:\r\n", &body)).await;
    }
    assert_eq!(a.hits() - before, 2);
    let named = |got: Got| (got.status.as_u16(), got.body.contains('\u{4e2d}'));
    let got = chat("\u{4e2d}\u{6587}", false).send(agent.address).await;
    assert_eq!(named(got), (404, true));
    let path = "/v1beta/models/%E4%B8%AD:streamGenerateContent";
    let got = chat("", false)
        .at(path)
        .body("{}")
        .send(agent.address)
        .await;
    assert_eq!(named(got), (404, true));
    let odd = b"x-request-id: \xff\r\nuser-agent: \xc3\xb3\r\nx-odd: \xff\r\n";
    let got = raw(agent.address, &post(odd, &body)).await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
}

/// Field report B113: the provider's key goes into its header and nowhere else, whatever happens.
#[tokio::test]
async fn providers_key_is_seen_by_the_provider_only() {
    const KEY: &str = "SECRET123";
    let echoes = format!(
        r#"{{"error":{{"code":400,"message":"bad key {KEY}","status":"INVALID_ARGUMENT","details":[{{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}}]}}}}"#
    );
    let plain = format!(r#"{{"error":{{"message":"{KEY} is over its limits"}}}}"#);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), KEY).unwrap();
    let with_key = |yaml: String| {
        let key = format!("api_key: {{file: \"{}\"}}", file.path().display());
        yaml.replace("api_key: null", &key)
            .replace("protocol: openai", "protocol: gemini")
    };
    let nobody = "127.0.0.1:1".parse().unwrap();
    let mut agents = Vec::new();
    let mut upstreams = Vec::new();
    for script in [
        json(400, &echoes),
        json(401, &plain),
        json(403, &plain),
        json(429, &plain),
        json(503, &plain),
        json(200, &echoes),
        json(200, GEMINI.whole),
    ] {
        let a = Upstream::start(script).await;
        agents.push(Agent::start(&with_key(Document::new().lane("a", &a).yaml())).await);
        upstreams.push(a);
    }
    let document = Document::new()
        .lane_at("a", nobody, 1, "attempt_timeout_ms: 3000")
        .rest("allow_private_hosts: [does-not-exist.invalid]");
    let unresolved =
        with_key(document.yaml()).replace(&nobody.to_string(), "does-not-exist.invalid");
    agents.push(Agent::start(&unresolved).await);
    let plain_peer = upstreams.first().unwrap().address;
    let no_tls = Document::new().lane_at("a", plain_peer, 1, "attempt_timeout_ms: 3000");
    let no_tls = with_key(no_tls.yaml()).replace("http://", "https://");
    agents.push(Agent::start(&no_tls).await);
    for agent in &agents {
        for streams in [false, true] {
            let got = GEMINI.ask(streams).send(agent.address).await;
            let stats = serde_json::to_string(&agent.plane.stats()).unwrap();
            let (reports, problems) = (agent.plane.cells(), agent.plane.problems());
            let all = format!(
                "{got:?} {stats} {reports:?} {problems:?} {}",
                agent.metrics()
            );
            assert!(!all.contains(KEY), "{all}");
        }
    }
    for a in &upstreams {
        for seen in a.seen() {
            assert_eq!(seen.header("x-goog-api-key"), Some(KEY));
            assert!(
                !seen.path.contains(KEY) && !seen.body.contains(KEY),
                "{seen:?}"
            );
        }
    }
}
