//! Endpoints beside the generations, which pass on lanes of their protocol by status alone.

use crate::caller::{Ask, chat};
use crate::gateway::{Agent, Document};
use crate::upstream::{Script, Step, Upstream, json};
use http::Method;

const ALL: [(&str, &str); 7] = [
    ("openai", "/v1/moderations"),
    ("openai", "/v1/images/generations"),
    ("openai", "/v1/audio/speech"),
    ("openai", "/v1/rerank"),
    ("cohere", "/v2/rerank"),
    ("responses", "/v1/responses/compact"),
    ("responses", "/v1/responses/input_tokens"),
];
const TRIP_AT_ONCE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 60}";

async fn agent(document: &Document, protocol: &str) -> Agent {
    let protocol = format!("protocol: {protocol}");
    Agent::start(&document.yaml().replace("protocol: openai", &protocol)).await
}

fn ask(path: &str) -> Ask {
    chat("chat", false)
        .at(path)
        .body(r#"{"input":"hi","model":"chat"}"#)
}

/// An answer of this type whose body is `bytes`.
fn answer(content_type: &str, bytes: &[u8]) -> Script {
    let length = bytes.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    vec![Step::Write(head.into_bytes()), Step::Write(bytes.to_vec())]
}

#[tokio::test]
async fn each_passes_with_the_lanes_model_and_nothing_of_its_answer_is_read() {
    for (protocol, path) in ALL {
        // Every one of these would be a failure of a chat.
        for body in ["{\"results\":[]}", "{\"error\":null,\"x\":1}", "[]"] {
            let a = Upstream::start(json(200, body)).await;
            let agent = agent(&Document::new().lane("a", &a), protocol).await;
            let got = ask(path).send(agent.address).await;
            assert_eq!(
                (got.status.as_u16(), got.body.as_str()),
                (200, body),
                "{path}"
            );
            let seen = &a.seen()[0];
            assert_eq!(seen.path, path);
            assert_eq!(seen.body, r#"{"input":"hi","model":"up-a"}"#);
            agent.settles().await;
            assert_eq!(agent.lane("a")["ok"], 1);
        }
    }
}

#[tokio::test]
async fn failure_goes_to_the_next_lane_under_the_same_breaker() {
    for (protocol, path) in ALL {
        let a = Upstream::start(json(503, "{}")).await;
        let b = Upstream::start(json(200, "{\"ok\":true}")).await;
        let document = Document::new()
            .lane_at("a", a.address, 1000, "")
            .lane("b", &b)
            .breaker(TRIP_AT_ONCE);
        let agent = agent(&document, protocol).await;
        let got = ask(path).send(agent.address).await;
        assert_eq!(
            got.header("x-lanekeeper-lane"),
            Some("b"),
            "{path}: {got:?}"
        );
        assert_eq!(agent.cell("chat", "a")["state"], "open", "{path}");
    }
}

#[tokio::test]
async fn document_that_breaks_off_goes_to_the_next_lane() {
    let mut broken = answer("application/json", b"{\"results\":[1,2,3]}");
    broken.pop();
    broken.extend([Step::Write(b"{\"resu".to_vec()), Step::Close]);
    let a = Upstream::start(broken).await;
    let b = Upstream::start(json(200, "{\"ok\":true}")).await;
    let document = Document::new()
        .lane_at("a", a.address, 1000, "")
        .lane("b", &b);
    let agent = agent(&document, "openai").await;
    let got = ask("/v1/rerank").send(agent.address).await;
    assert_eq!(
        (got.status.as_u16(), got.body.as_str()),
        (200, "{\"ok\":true}")
    );
    assert_eq!((a.hits(), b.hits()), (1, 1));
}

#[tokio::test]
async fn audio_passes_as_it_comes_and_as_it_is() {
    let bytes: Vec<u8> = (0..600_000u32).map(|at| (at % 251) as u8).collect();
    let a = Upstream::start(answer("audio/mpeg", &bytes)).await;
    let agent = agent(&Document::new().lane("a", &a), "openai").await;
    let reading = ask("/v1/audio/speech").begin(agent.address).await;
    assert_eq!(reading.rest_of_bytes().await, bytes);
    agent.settles().await;
    let lane = agent.lane("a");
    assert_eq!((&lane["ok"], &lane["failed"]), (&1.into(), &0.into()));
}

#[tokio::test]
async fn audio_that_breaks_off_ends_as_a_broken_answer_and_counts() {
    let mut script = answer("audio/mpeg", &[7; 1000]);
    script.pop();
    script.extend([Step::Write(vec![7; 10]), Step::Close]);
    let a = Upstream::start(script).await;
    let agent = agent(&Document::new().lane("a", &a), "openai").await;
    let got = ask("/v1/audio/speech").send(agent.address).await;
    assert!(got.status == 200 && !got.ended, "{got:?}");
    agent.settles().await;
    assert_eq!(agent.lane("a")["failed"], 1);
}

#[tokio::test]
async fn events_of_an_image_pass_unread() {
    let events = "event: image_generation.partial_image\ndata: {\"b64_json\":\"x\"}\n\n\
                  event: image_generation.completed\ndata: {\"b64_json\":\"y\"}\n\n";
    let a = Upstream::start(answer("text/event-stream", events.as_bytes())).await;
    let agent = agent(&Document::new().lane("a", &a), "openai").await;
    let got = ask("/v1/images/generations")
        .body(r#"{"model":"chat","prompt":"a cat","stream":true}"#)
        .send(agent.address)
        .await;
    assert!(got.status == 200 && got.whole, "{got:?}");
    assert_eq!(got.body, events);
}

#[tokio::test]
async fn each_endpoint_has_a_cell_where_the_policy_splits() {
    let breaker = "{per_endpoint: true, trip: {mode: consecutive, consecutive_n: 1}}";
    let a = Upstream::start(json(503, "{}")).await;
    let agent = agent(&Document::new().lane("a", &a).breaker(breaker), "openai").await;
    assert_eq!(ask("/v1/rerank").send(agent.address).await.status, 503);
    let lane = agent.lane("a");
    let state = |endpoint: &str| {
        let mut cells = lane["cells"].as_array().unwrap().iter();
        let cell = cells.find(|cell| cell["pool"] == "chat" && cell["endpoint"] == endpoint);
        cell.unwrap_or_else(|| panic!("no cell {endpoint}"))["state"].clone()
    };
    assert_eq!(state("rerank"), "open");
    for endpoint in ["chat", "moderations", "images/generations", "audio/speech"] {
        assert_eq!(state(endpoint), "closed", "{endpoint}");
    }
}

#[tokio::test]
async fn lane_of_another_protocol_never_sees_them() {
    let a = Upstream::start(json(200, "{}")).await;
    let agent = agent(&Document::new().lane("a", &a), "anthropic").await;
    // Tokens are counted in translation.
    let passed = ALL
        .into_iter()
        .filter(|(_, path)| *path != "/v1/responses/input_tokens");
    for (protocol, path) in passed {
        let got = ask(path).send(agent.address).await;
        assert_eq!(got.status, 400, "{path}");
        assert!(got.body.contains(protocol), "{path}: {}", got.body);
    }
    assert_eq!(a.hits(), 0);
}

#[tokio::test]
async fn model_may_stand_before_the_path() {
    let a = Upstream::start(json(200, "{}")).await;
    let agent = agent(&Document::new().lane("a", &a), "cohere").await;
    let got = ask("/p-a/a/v2/rerank").send(agent.address).await;
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(a.seen()[0].path, "/v2/rerank");
}

/// A moderation has a default model.
#[tokio::test]
async fn request_without_a_model_finds_its_pool_or_is_told_how_to() {
    let (a, b) = (
        Upstream::start(json(200, "{\"at\":\"a\"}")).await,
        Upstream::start(json(200, "{\"at\":\"b\"}")).await,
    );
    let nameless = || ask("/v1/moderations").body(r#"{"input":"hi"}"#);
    let one = Document::new().lane("a", &a);
    let agent = agent(&one, "openai").await;
    let got = nameless().send(agent.address).await;
    assert_eq!(got.status, 200, "the only pool: {got:?}");
    assert_eq!(a.seen()[0].body, r#"{"input":"hi"}"#);

    let rest = "  other: {members: [{target: b}]}";
    let two = Document::new()
        .lane("a", &a)
        .lane_at("b", b.address, 0, "")
        .rest(rest);
    agent.apply(&two.yaml());
    let got = nameless().send(agent.address).await;
    assert_eq!(got.status, 400, "{got:?}");
    assert!(got.body.contains("x-lanekeeper-pool"), "{}", got.body);
    let chosen = nameless().with("x-lanekeeper-pool", "other");
    let got = chosen.send(agent.address).await;
    assert_eq!(got.json()["at"], "b", "{got:?}");
    assert_eq!(b.seen()[0].header("x-lanekeeper-pool"), None);
    let unknown = nameless().with("x-lanekeeper-pool", "nowhere");
    assert_eq!(unknown.send(agent.address).await.status, 404);

    let yaml = two
        .yaml()
        .replacen("protocol: openai", "protocol: anthropic", 1);
    agent.apply(&yaml.replace(
        "members:\n      - {target: a, weight: 1}\n      - {target: b, weight: 0}",
        "members:\n      - {target: a, weight: 1}",
    ));
    let got = nameless().send(agent.address).await;
    assert_eq!(
        got.json()["at"],
        "b",
        "the only one that speaks it: {got:?}"
    );
    let got = ask("/v1/chat/completions")
        .body(r#"{"messages":[]}"#)
        .send(agent.address)
        .await;
    assert_eq!(got.status, 400, "a chat names its model: {got:?}");
}

const COLLECTIONS: [(&str, &str); 8] = [
    ("openai", "/v1/files"),
    ("openai", "/v1/files/file-1/content"),
    ("openai", "/v1/batches/batch_1/cancel"),
    ("openai", "/v1/uploads/upload_1/parts"),
    ("openai", "/v1/vector_stores/vs_1/files"),
    ("responses", "/v1/responses/resp_1"),
    ("responses", "/v1/responses/resp_1/input_items"),
    ("responses", "/v1/conversations/conv_1/items"),
];

fn with_method(method: Method, path: &str, body: &'static str) -> Ask {
    let mut ask = chat("chat", false).at(path).body(body);
    if body.is_empty() {
        ask.headers.clear();
    }
    ask.method = method;
    ask
}

#[tokio::test]
async fn collections_pass_with_their_method_path_and_body() {
    for (protocol, path) in COLLECTIONS {
        for (method, body) in [
            (Method::GET, ""),
            (Method::DELETE, ""),
            (Method::POST, "no JSON, and none is wanted"),
        ] {
            let a = Upstream::start(answer("application/octet-stream", b"bytes")).await;
            let agent = agent(&Document::new().lane("a", &a), protocol).await;
            let got = with_method(method.clone(), path, body)
                .send(agent.address)
                .await;
            assert_eq!(
                (got.status.as_u16(), got.body.as_str()),
                (200, "bytes"),
                "{path}"
            );
            let seen = &a.seen()[0];
            assert_eq!((seen.path.as_str(), seen.body.as_str()), (path, body));
            assert_eq!(seen.header("content-type").is_some(), !body.is_empty());
        }
    }
}

#[tokio::test]
async fn only_what_is_safe_to_repeat_goes_to_another_lane() {
    for (method, hits) in [(Method::GET, 1), (Method::DELETE, 1), (Method::POST, 0)] {
        let a = Upstream::start(json(503, "{}")).await;
        let b = Upstream::start(json(200, "{}")).await;
        let document = Document::new()
            .lane_at("a", a.address, 1000, "")
            .lane("b", &b)
            .pool("failover: {same_lane_retries: 2, retry_backoff_ms: 0}");
        let agent = agent(&document, "responses").await;
        let path = "/v1/responses/resp_1/cancel";
        let got = with_method(method.clone(), path, "")
            .send(agent.address)
            .await;
        assert_eq!(got.status == 200, hits == 1, "{method}: {got:?}");
        assert_eq!(b.hits(), hits, "{method}");
        if hits == 0 {
            assert_eq!(a.hits(), 1, "{method}");
        }
    }
}

#[tokio::test]
async fn paths_that_leave_their_collection_are_nobodys() {
    let a = Upstream::start(json(200, "{}")).await;
    let agent = agent(&Document::new().lane("a", &a), "openai").await;
    for path in [
        "/v1/files/../chat/completions",
        "/v1/files/%2e%2e/models",
        "/v1/files/a%2Fb",
        "/v1/files/a;b",
        "/v1/filesystem",
    ] {
        let got = with_method(Method::GET, path, "").send(agent.address).await;
        assert_eq!(got.status, 404, "{path}: {got:?}");
    }
    assert_eq!(a.hits(), 0);
}

#[tokio::test]
async fn collections_refuse_other_methods_and_take_a_prefix() {
    let a = Upstream::start(json(200, "{}")).await;
    let agent = agent(&Document::new().lane("a", &a), "responses").await;
    let got = with_method(Method::PUT, "/v1/responses/resp_1", "").send(agent.address);
    let got = got.await;
    assert_eq!(got.status, 405);
    assert_eq!(got.header("allow"), Some("GET, POST, DELETE"));
    let got = with_method(Method::GET, "/v1/responses", "")
        .send(agent.address)
        .await;
    assert_eq!(
        (got.status.as_u16(), got.header("allow")),
        (405, Some("POST"))
    );
    let path = "/a/v1/responses/resp_1";
    let got = with_method(Method::DELETE, path, "")
        .send(agent.address)
        .await;
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(a.seen()[0].path, "/v1/responses/resp_1");
}
