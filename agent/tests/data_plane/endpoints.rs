//! Cells of their own for each endpoint, and how far a hard-down reaches.

use crate::caller::chat;
use crate::dialects::ANTHROPIC;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Upstream, completion, json};

const PER_ENDPOINT: &str = "{per_endpoint: true, trip: {mode: consecutive, consecutive_n: 1}, \
                            base_cooldown_secs: 60, max_cooldown_secs: 60}";

fn embedding() -> crate::caller::Ask {
    chat("chat", false)
        .at("/v1/embeddings")
        .body(r#"{"model":"chat","input":"hi"}"#)
}

fn cell(agent: &Agent, pool: &str, endpoint: &str) -> serde_json::Value {
    let lane = agent.lane("a");
    let found = lane["cells"]
        .as_array()
        .unwrap()
        .iter()
        .find(|cell| cell["pool"] == pool && cell["endpoint"] == endpoint)
        .cloned();
    found.unwrap_or_else(|| panic!("no cell {pool}/{endpoint}: {lane:#}"))
}

#[tokio::test]
async fn endpoint_that_fails_does_not_bench_the_others() {
    let a = Upstream::start(json(503, "")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).breaker(PER_ENDPOINT).yaml()).await;
    assert_eq!(embedding().send(agent.address).await.status, 503);
    assert_eq!(cell(&agent, "chat", "embeddings")["state"], "open");
    assert_eq!(cell(&agent, "chat", "chat")["state"], "closed");
    a.always(completion("hello"));
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    let hits = a.hits();
    assert_eq!(embedding().send(agent.address).await.status, 503);
    assert_eq!(a.hits(), hits, "the endpoint's own cell refuses");
    assert_eq!(agent.lane("a")["usable"], true);

    let reported: Vec<_> = agent
        .plane
        .cells()
        .into_iter()
        .filter(|cell| cell.is_notable())
        .map(|cell| (cell.pool.to_string(), cell.endpoint))
        .collect();
    assert_eq!(
        reported,
        [("chat".to_owned(), Some("embeddings".to_owned()))]
    );
    let metrics = agent.metrics();
    for line in [
        r#"lanekeeper_breaker_state{pool="chat",lane="a",endpoint="embeddings"} 1.0"#,
        r#"lanekeeper_breaker_state{pool="chat",lane="a",endpoint="chat"} 0.0"#,
        r#"lanekeeper_breaker_state{pool="",lane="a"} 0.0"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn cells_of_endpoints_come_and_go_with_the_policy_and_keep_state_meanwhile() {
    let a = Upstream::start(json(503, "")).await;
    let split = Document::new().lane("a", &a).breaker(PER_ENDPOINT).yaml();
    let agent = Agent::start(&split).await;
    embedding().send(agent.address).await;
    agent.apply(&split.replace("consecutive_n: 1", "consecutive_n: 7"));
    assert_eq!(cell(&agent, "chat", "embeddings")["state"], "open");
    let problems = agent.apply(&Document::new().lane("a", &a).yaml());
    assert!(problems.is_empty(), "{problems:?}");
    assert!(!agent.metrics().contains("endpoint="), "no series is left");
    assert!(agent.cell("chat", "a")["endpoint"].is_null());
}

#[tokio::test]
async fn provider_cell_is_split_by_endpoint_where_its_policy_says_so() {
    let a = Upstream::start(json(503, "")).await;
    let yaml = Document::new().lane("a", &a).yaml().replace(
        "api_key: null",
        &format!("api_key: null, breaker: {PER_ENDPOINT}"),
    );
    let agent = Agent::start(&yaml).await;
    embedding().send(agent.address).await;
    let hits = a.hits();
    assert_eq!(embedding().send(agent.address).await.status, 503);
    assert_eq!(a.hits(), hits);
    a.always(completion("hello"));
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
}

#[tokio::test]
async fn good_probe_closes_the_cells_of_every_endpoint() {
    let a = Upstream::start(json(503, "")).await;
    let yaml = Document::new()
        .lane("a", &a)
        .breaker(PER_ENDPOINT)
        .yaml()
        .replace(
            "api_key: null",
            "api_key: null, health: {mode: dead, interval_secs: 0.1}",
        );
    let agent = Agent::start(&yaml).await;
    embedding().send(agent.address).await;
    // A failed probe of the chat endpoint says nothing about embeddings.
    eventually("probes failed", || a.hits() >= 3).await;
    assert_eq!(cell(&agent, "chat", "embeddings")["streak"], 1);
    a.always(completion("hello"));
    eventually("it is closed", || {
        cell(&agent, "chat", "embeddings")["state"] == "closed"
    })
    .await;
}

#[tokio::test]
async fn hard_down_reaches_as_far_as_the_policy_says() {
    for (scope, elsewhere) in [("cell", "closed"), ("lane", "open")] {
        let a = Upstream::start(json(401, "{}")).await;
        let breaker = format!("{{hard_down_scope: {scope}}}");
        let rest = format!("  other: {{members: [{{target: a}}], breaker: {breaker}}}");
        let document = Document::new().lane("a", &a).breaker(&breaker).rest(&rest);
        let agent = Agent::start(&document.yaml()).await;
        chat("chat", false).send(agent.address).await;
        assert_eq!(agent.cell("chat", "a")["state"], "open");
        for pool in ["other", ""] {
            assert_eq!(
                agent.cell(pool, "a")["state"],
                elsewhere,
                "{scope} {pool:?}"
            );
        }
    }
}

#[tokio::test]
async fn hard_down_of_a_lane_reaches_its_other_endpoints() {
    let a = Upstream::start(json(401, "{}")).await;
    let breaker = "{per_endpoint: true, hard_down_scope: lane}";
    let agent = Agent::start(&Document::new().lane("a", &a).breaker(breaker).yaml()).await;
    chat("chat", false).send(agent.address).await;
    for endpoint in ["chat", "completions", "embeddings"] {
        assert_eq!(
            cell(&agent, "chat", endpoint)["state"],
            "open",
            "{endpoint}"
        );
    }
    assert_eq!(agent.lane("a")["usable"], false);
}

/// Field report B108: a lane that cannot count says nothing about the lane, and nobody else counts.
#[tokio::test]
async fn operation_that_a_lane_lacks_is_the_callers_affair() {
    for status in [404, 405] {
        let a = Upstream::start(json(status, "{\"type\":\"error\"}")).await;
        let b = Upstream::start(json(200, "{\"input_tokens\":3}")).await;
        let document = Document::new()
            .lane_at("a", a.address, 1000, "")
            .lane("b", &b);
        let agent = ANTHROPIC.agent(&document).await;
        for _ in 0..20 {
            let got = chat("chat", false)
                .at("/v1/messages/count_tokens")
                .send(agent.address)
                .await;
            assert_eq!(
                (got.status.as_u16(), got.body.as_str()),
                (status, "{\"type\":\"error\"}")
            );
        }
        assert_eq!(
            (a.hits(), b.hits()),
            (20, 0),
            "no other vendor sees the prompt"
        );
        let cell = agent.cell("chat", "a");
        assert_eq!(
            (
                &cell["state"],
                &cell["window"]["failed"],
                &cell["parked_remaining_s"]
            ),
            (&"closed".into(), &0.into(), &0.0.into())
        );
        a.always(json(200, ANTHROPIC.whole));
        let got = ANTHROPIC.ask(false).send(agent.address).await;
        assert_eq!(got.header("x-lanekeeper-lane"), Some("a"), "chat goes on");
    }
}
