//! Providers that speak several protocols: one lane, permit, budget and cell for all of them.

use crate::caller::chat;
use crate::dialects::{ANTHROPIC, COHERE, OPENAI, RESPONSES};
use crate::gateway::{Agent, eventually};
use crate::upstream::{Upstream, json};

const TRIP_AT_ONCE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 60}";

/// One provider of these protocols, its lane `a` and the pool `chat`.
fn document(upstream: &Upstream, protocols: &str, lane: &str, breaker: &str) -> String {
    let address = upstream.address;
    format!(
        "gateway: edge\nproviders:\n  p: {{protocol: [{protocols}], base_url: \"http://{address}\", api_key: null}}\n\
         models:\n  a: {{provider: p, upstream_model: up-a, {lane}}}\n\
         pools:\n  chat: {{members: [{{target: a}}], breaker: {breaker}}}\n"
    )
}

/// A provider that answers each dialect in its own, whole or streaming.
async fn polyglot() -> Upstream {
    Upstream::deciding(|seen| {
        let streams = seen.body.contains("\"stream\":true");
        match seen.path.as_str() {
            "/v1/chat/completions" => OPENAI.answer(streams),
            "/v1/responses" => RESPONSES.answer(streams),
            "/v1/messages" => ANTHROPIC.answer(streams),
            _ => json(404, ""),
        }
    })
    .await
}

#[tokio::test]
async fn each_dialect_is_served_byte_for_byte_by_the_one_lane() {
    let upstream = polyglot().await;
    let yaml = document(
        &upstream,
        "openai, responses, anthropic",
        "max_requests: 6",
        "{}",
    );
    let agent = Agent::start(&yaml).await;
    assert!(agent.plane.problems().is_empty());
    for dialect in [&OPENAI, &RESPONSES, &ANTHROPIC] {
        for stream in [false, true] {
            let got = dialect.ask(stream).send(agent.address).await;
            assert!(got.status == 200 && got.whole, "{got:?}");
            let expected = if stream {
                [dialect.lifecycle, dialect.content, dialect.end].concat()
            } else {
                dialect.whole.to_owned()
            };
            assert_eq!(got.body, expected);
        }
    }
    agent.settles().await;
    let lane = agent.lane("a");
    assert_eq!(
        (&lane["ok"], &lane["requests_spent"]),
        (&6.into(), &6.into())
    );
    let got = OPENAI.ask(false).send(agent.address).await;
    assert_eq!(got.status, 503, "the budget is one: {got:?}");
    for seen in upstream.seen() {
        let wants_version = seen.path == "/v1/messages";
        assert_eq!(
            seen.header("anthropic-version").is_some(),
            wants_version,
            "{}",
            seen.path
        );
    }
    let apart = yaml.replace("breaker: {}}", "breaker: {}, translate: off}");
    let agent = Agent::start(&apart).await;
    let got = COHERE.ask(false).send(agent.address).await;
    assert_eq!(got.status, 400, "{got:?}");
    for protocol in ["openai", "responses", "anthropic"] {
        assert!(got.body.contains(protocol), "{}", got.body);
    }
}

#[tokio::test]
async fn failure_in_one_dialect_opens_the_cell_for_the_other() {
    let upstream = Upstream::start(json(503, "")).await;
    let yaml = document(&upstream, "openai, responses", "", TRIP_AT_ONCE);
    let agent = Agent::start(&yaml).await;
    assert_eq!(RESPONSES.ask(false).send(agent.address).await.status, 503);
    let hits = upstream.hits();
    assert_eq!(OPENAI.ask(false).send(agent.address).await.status, 503);
    assert_eq!(upstream.hits(), hits);
    assert_eq!(agent.lane("a")["cells"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn cells_by_endpoint_cover_every_dialect_once() {
    let upstream = Upstream::start(json(503, "")).await;
    let breaker = "{per_endpoint: true, trip: {mode: consecutive, consecutive_n: 1}}";
    let yaml = document(&upstream, "openai, responses", "", breaker);
    let agent = Agent::start(&yaml).await;
    RESPONSES.ask(false).send(agent.address).await;
    let lane = agent.lane("a");
    let cells = lane["cells"].as_array().unwrap();
    let state = |endpoint: &str| {
        let mut found =
            { cells.iter() }.filter(|cell| cell["pool"] == "chat" && cell["endpoint"] == endpoint);
        let state = found.next().unwrap()["state"].clone();
        assert!(found.next().is_none(), "{endpoint} has one cell");
        state
    };
    assert_eq!(
        (state("responses"), state("chat")),
        ("open".into(), "closed".into())
    );
}

/// Each dialect's errors are read by its own rules.
#[tokio::test]
async fn answers_are_judged_by_the_rules_of_the_dialect_that_was_asked() {
    for dialect in [&OPENAI, &RESPONSES] {
        let upstream = Upstream::start(json(200, dialect.whole_error)).await;
        let yaml = document(&upstream, "openai, responses", "", TRIP_AT_ONCE);
        let agent = Agent::start(&yaml).await;
        let got = dialect.ask(false).send(agent.address).await;
        assert!(!got.status.is_success(), "{got:?}");
        let cell = agent.cell("chat", "a");
        assert!(!cell["cause"].is_null(), "{}: {cell}", dialect.protocol);
    }
    // An answer of the other dialect is none.
    let upstream = Upstream::start(json(200, OPENAI.whole)).await;
    let yaml = document(&upstream, "openai, responses", "", TRIP_AT_ONCE);
    let agent = Agent::start(&yaml).await;
    assert_eq!(RESPONSES.ask(false).send(agent.address).await.status, 503);
    assert_eq!(agent.cell("chat", "a")["cause"]["kind"], "bad_body");
}

#[tokio::test]
async fn probes_speak_the_first_protocol_and_close_the_cells_of_all() {
    let upstream = Upstream::start(json(503, "")).await;
    let yaml = document(&upstream, "responses, openai", "", TRIP_AT_ONCE).replace(
        "api_key: null",
        "api_key: null, health: {mode: dead, interval_secs: 0.1}",
    );
    let agent = Agent::start(&yaml).await;
    OPENAI.ask(false).send(agent.address).await;
    eventually("a probe was sent", || upstream.hits() >= 2).await;
    assert_eq!(upstream.seen()[1].path, "/v1/responses");
    upstream.always(RESPONSES.answer(false));
    eventually("it is closed", || {
        agent.cell("chat", "a")["state"] == "closed"
    })
    .await;
}

#[tokio::test]
async fn models_are_listed_once_and_a_pool_of_one_kind_mixes_nothing() {
    let upstream = polyglot().await;
    let agent = Agent::start(&document(&upstream, "openai, responses", "", "{}")).await;
    let mut ask = chat("chat", false).at("/v1/models").body("");
    ask.method = http::Method::GET;
    let got = ask.send(agent.address).await;
    let list = got.json();
    let names: Vec<_> = { list["data"].as_array().unwrap().iter() }
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["chat", "a"]);
}
