//! The ops listener.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::{Agent, ask, document, joined};
use crate::scripted::{PATIENCE, Scripted};

#[tokio::test]
async fn the_endpoints_answer_in_their_shapes() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open("a", 4).await;
    peer.push(4, &document(1)).await;
    peer.result().await;

    for path in ["/livez", "/readyz"] {
        assert_eq!(agent.ask("GET", path).await.status, 200, "{path}");
    }
    let head = agent.ask("HEAD", "/livez").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));

    let stats = agent.stats().await;
    let facts = &stats["agent"];
    assert_eq!(facts["gateway"], "edge");
    assert_eq!(facts["version"], env!("CARGO_PKG_VERSION"));
    assert!(facts["uptime_secs"].as_f64().unwrap() > 0.0);
    assert!(stats["lanes"].is_array() && stats["pools"].is_array());

    let metrics = agent.ask("GET", "/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.head.contains("application/openmetrics-text"));
    assert!(
        metrics
            .body
            .contains("lanekeeper_session_connected{gateway=\"edge\"} 1\n")
    );
    assert!(
        metrics
            .body
            .contains("lanekeeper_sessions_opened_total{gateway=\"edge\"} 1\n")
    );
    agent.stop().await;
}

#[tokio::test]
async fn wrong_paths_and_methods_get_plain_json_errors() {
    let agent = Agent::start(joined("http://127.0.0.1:1", None)).await;
    for (method, path, status, code) in [
        ("GET", "/nothing", 404, "not_found"),
        ("POST", "/nothing", 404, "not_found"),
        ("POST", "/stats", 405, "method_not_allowed"),
    ] {
        let answer = agent.ask(method, path).await;
        assert_eq!(answer.status, status, "{method} {path}");
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body["error"]["code"], json!(code));
        assert_eq!(answer.head.contains("allow: get, head"), status == 405);
    }
    agent.stop().await;
}

#[tokio::test]
async fn a_draining_agent_is_not_ready_but_lives_and_then_ends() {
    let mut config = joined("http://127.0.0.1:1", None);
    config.drain_pause = PATIENCE;
    let agent = Agent::start(config).await;
    let ops = agent.addresses.ops;
    agent.shutdown.drain.cancel();
    crate::agent::eventually(async || ask(ops, "GET", "/readyz").await.body == "draining\n").await;
    assert_eq!(ask(ops, "GET", "/livez").await.status, 200);
    let told = Instant::now();
    agent.shutdown.immediate.cancel();
    agent.stop().await;
    assert!(told.elapsed() < Duration::from_secs(5));
}
