//! HTTP as clients, browsers and balancers speak it.

use crate::caller::{Ask, chat};
use crate::dialects::ALL;
use crate::gateway::{Agent, Document};
use crate::upstream::{Upstream, completion};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::Method;
use std::io::Write as _;

const CHAT: &str = r#"{"model":"chat","messages":[]}"#;
/// [`CHAT`] and 34 blanks, by the reference implementations of zstd and Brotli.
const ZSTD: &[u8] = &[
    40, 181, 47, 253, 36, 64, 45, 1, 0, 248, 123, 34, 109, 111, 100, 101, 108, 34, 58, 34, 99, 104,
    97, 116, 34, 44, 34, 109, 101, 115, 115, 97, 103, 101, 115, 34, 58, 91, 93, 125, 32, 1, 0, 143,
    192, 9, 235, 153, 60, 102,
];
const BROTLI: &[u8] = &[
    27, 63, 0, 248, 29, 167, 197, 154, 19, 60, 167, 215, 32, 93, 123, 125, 139, 69, 167, 68, 182,
    186, 143, 73, 52, 241, 68, 14, 241, 74, 47, 142, 116, 143, 64, 184, 3,
];
/// Every path that serves a model, with a body that its dialect reads.
const ROUTES: [(&str, &str); 9] = [
    ("/v1/chat/completions", CHAT),
    ("/v1/completions", CHAT),
    ("/v1/embeddings", CHAT),
    ("/v1/responses", CHAT),
    ("/v1/messages", CHAT),
    ("/v1/messages/count_tokens", CHAT),
    ("/v1beta/models/chat:generateContent", CHAT),
    ("/v1beta/models/chat:streamGenerateContent", CHAT),
    ("/v2/chat", CHAT),
];

async fn agent(a: &Upstream) -> Agent {
    Agent::start(&Document::new().lane("a", a).yaml()).await
}

fn ask(method: Method, path: &str) -> Ask {
    Ask {
        method,
        path: path.to_owned(),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

#[tokio::test]
async fn compressed_bodies_are_served_and_go_on_plain() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(CHAT.as_bytes()).unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
    raw.write_all(CHAT.as_bytes()).unwrap();
    for (coding, body) in [
        ("gzip", gzip(CHAT.as_bytes())),
        ("x-gzip", gzip(CHAT.as_bytes())),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
        ("br", BROTLI.to_vec()),
        ("zstd", ZSTD.to_vec()),
        ("gzip, gzip", gzip(&gzip(CHAT.as_bytes()))),
        ("identity", CHAT.as_bytes().to_vec()),
    ] {
        let got = chat("chat", false)
            .with("content-encoding", coding)
            .body(body)
            .send(agent.address)
            .await;
        assert_eq!(got.status, 200, "{coding}: {}", got.body);
        let seen = a.seen().pop().unwrap();
        let sent = seen.body.trim_end();
        assert_eq!(sent, CHAT.replace("chat", "up-a"), "{coding}");
        assert_eq!(
            seen.header("content-encoding").unwrap_or("identity"),
            "identity"
        );
    }
}

#[tokio::test]
async fn large_compressed_body_is_read_beside_the_worker() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    // Of little order, so that it stays large.
    let noise: String = (0..60_000_u64)
        .map(|at| format!("{:x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let plain = format!(r#"{{"model":"chat","messages":[],"noise":"{noise}"}}"#);
    let got = chat("chat", false)
        .with("content-encoding", "gzip")
        .body(gzip(plain.as_bytes()))
        .send(agent.address)
        .await;
    assert_eq!(got.status, 200, "{}", got.body);
    assert_eq!(
        a.seen().pop().unwrap().body.len(),
        plain.len() - "chat".len() + "up-a".len()
    );
}

#[tokio::test]
async fn compressed_bodies_that_cannot_be_read_are_refused_before_any_lane() {
    let a = Upstream::start(completion("hello")).await;
    let rest = "limits: {body_max_bytes: 65536}";
    let document = Document::new().lane("a", &a).rest(rest).yaml();
    let agent = Agent::start(&document).await;
    let bomb = gzip(&vec![b' '; 1024 * 1024]);
    let mut cut = gzip(CHAT.as_bytes());
    cut.truncate(cut.len() - 4);
    for (coding, body, status, code) in [
        (
            "compress",
            b"x".to_vec(),
            415,
            "unsupported_content_encoding",
        ),
        (
            "gzip, aws-chunked",
            b"x".to_vec(),
            415,
            "unsupported_content_encoding",
        ),
        ("gzip", CHAT.as_bytes().to_vec(), 400, "invalid_request"),
        ("gzip", cut, 400, "invalid_request"),
        ("gzip", bomb, 413, "request_too_large"),
    ] {
        let got = chat("chat", false)
            .with("content-encoding", coding)
            .body(body)
            .send(agent.address)
            .await;
        assert_eq!(got.status, status, "{coding}: {}", got.body);
        assert_eq!(got.json()["error"]["code"], code);
        let accepted = (status == 415).then_some("gzip, deflate, br, zstd");
        assert_eq!(got.header("accept-encoding"), accepted);
    }
    assert_eq!(a.hits(), 0);
}

#[tokio::test]
async fn websocket_is_refused_at_every_path_in_its_dialect() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    for (path, _) in ROUTES {
        let got = ask(Method::GET, path)
            .with("connection", "Upgrade")
            .with("upgrade", "websocket")
            .with("sec-websocket-version", "13")
            .with("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .send(agent.address)
            .await;
        assert_eq!(got.status, 426, "{path}");
        assert_eq!(got.header("upgrade"), Some("HTTP/1.1"));
        assert!(got.body.contains("WebSocket"), "{path}: {}", got.body);
    }
    assert_eq!(a.hits(), 0);
}

#[tokio::test]
async fn head_is_answered_as_get_is_without_a_body() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    for path in [
        "/",
        "/healthz",
        "/v1/models",
        "/v1/models/chat",
        "/v1beta/models",
    ] {
        let get = ask(Method::GET, path).send(agent.address).await;
        let head = ask(Method::HEAD, path).send(agent.address).await;
        assert_eq!(
            (get.status, head.status),
            (200.try_into().unwrap(), get.status),
            "{path}"
        );
        assert_eq!(head.body, "", "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"));
        assert_eq!(
            head.header("content-length").unwrap(),
            get.body.len().to_string(),
            "{path}"
        );
    }
    let got = ask(Method::HEAD, "/v1/messages").send(agent.address).await;
    assert_eq!(got.status, 405);
}

#[tokio::test]
async fn options_names_the_methods_without_a_key() {
    let a = Upstream::start(completion("hello")).await;
    let digest = crate::refusals::digest("k");
    let key = format!("clients: [{{name: team, key_sha256: \"{digest}\"}}]");
    let agent = Agent::start(&Document::new().lane("a", &a).rest(&key).yaml()).await;
    for (path, _) in ROUTES {
        let got = ask(Method::OPTIONS, path).send(agent.address).await;
        assert_eq!(got.status, 204, "{path}");
        assert_eq!(got.header("allow"), Some("POST, OPTIONS"), "{path}");
        assert!(got.header("access-control-allow-origin").is_none());
    }
    let got = ask(Method::OPTIONS, "/v1/models").send(agent.address).await;
    assert_eq!(got.header("allow"), Some("GET, HEAD, OPTIONS"));
    let got = ask(Method::OPTIONS, "/v1/nothing")
        .send(agent.address)
        .await;
    assert_eq!(got.status, 401, "an unknown path tells strangers nothing");
}

#[tokio::test]
async fn pages_of_other_origins_are_refused_and_programs_are_not() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let got = chat("chat", false)
            .with(name, value)
            .with("content-type", "text/plain")
            .send(agent.address)
            .await;
        assert_eq!(got.status, 403, "{name}: {value}");
        assert_eq!(got.json()["error"]["code"], "origin_forbidden");
    }
    assert_eq!(a.hits(), 0);
    for (name, value) in [
        ("origin", "http://agent.test"),
        ("sec-fetch-site", "same-origin"),
        ("referer", "https://evil.example/page"),
    ] {
        let got = chat("chat", false)
            .with(name, value)
            .send(agent.address)
            .await;
        assert_eq!(got.status, 200, "{name}: {value}");
    }
}

#[tokio::test]
async fn slashes_too_many_change_nothing() {
    let a = Upstream::start(completion("hello")).await;
    let agent = agent(&a).await;
    for path in [
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1//chat/completions//",
        "/a//v1/chat/completions",
    ] {
        let got = chat("chat", false).at(path).send(agent.address).await;
        assert_eq!(got.status, 200, "{path}: {}", got.body);
    }
}

/// A gateway whose provider is itself, and two in a row, which are meant.
#[tokio::test]
async fn gateway_that_calls_itself_is_found_out() {
    for dialect in ALL {
        for streams in [false, true] {
            for hops_max in [1, 2, 3] {
                let a = Upstream::start(completion("hello")).await;
                let agent = dialect.agent(&Document::new().lane("a", &a)).await;
                let rest = format!("limits: {{hops_max: {hops_max}}}");
                let document = Document::new()
                    .lane_at("a", agent.address, 1, "")
                    .rest(&rest)
                    .yaml()
                    .replace(
                        "protocol: openai",
                        &format!("protocol: {}", dialect.protocol),
                    )
                    .replace("up-a", "chat");
                agent.apply(&document);
                let got = dialect.ask(streams).send(agent.address).await;
                let case = format!("{} {streams} {hops_max}: {got:?}", dialect.protocol);
                assert!(got.status.is_server_error(), "{case}");
                agent.settles().await;
                let totals = agent.plane.totals();
                // And the one that is refused at the door.
                assert_eq!((totals.requests, totals.ok), (hops_max, 0), "{case}");
                let line = "lanekeeper_refusals_total{reason=\"loop_detected\"} 1\n";
                assert!(agent.metrics().contains(line), "{case}");
                assert_eq!(a.hits(), 0);
            }
        }
    }
}

#[tokio::test]
async fn two_gateways_in_a_row_serve() {
    for dialect in ALL {
        for streams in [false, true] {
            let a = Upstream::start(dialect.answer(streams)).await;
            let near = dialect.agent(&Document::new().lane("a", &a)).await;
            let far = Document::new()
                .lane_at("a", near.address, 1, "")
                .yaml()
                .replace(
                    "protocol: openai",
                    &format!("protocol: {}", dialect.protocol),
                )
                .replace("up-a", "chat");
            let far = Agent::start(&far).await;
            let ask = dialect.ask(streams).with("via", "1.1 edge");
            let got = ask.send(far.address).await;
            assert_eq!((got.status.as_u16(), got.whole), (200, true), "{got:?}");
            let marks = "1.1 lanekeeper, 1.1 lanekeeper";
            assert_eq!(a.seen()[0].header("via"), Some(marks));
        }
    }
}
