//! Starts without a control plane.

use std::path::Path;
use std::time::{Duration, Instant};

use lanekeeper_model::{ConfigSource, Override, OverrideAction};
use lanekeeper_proto::message::{ConfigOutcome, FromServer, Overrides};

use crate::agent::{Agent, document, eventually, joined};
use crate::scripted::Scripted;

/// Where nothing listens.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Leaves revisions 1 and 2 in `dir`.
async fn fill(dir: &Path) {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), Some(dir))).await;
    let mut peer = server.peer().await;
    peer.open("a", 2).await;
    for revision in [1, 2] {
        peer.push(revision, &document(revision)).await;
        let result = peer.result().await;
        assert!(matches!(result.outcome, ConfigOutcome::Applied { .. }));
        eventually(async || newest(dir) == Some(revision)).await;
    }
    agent.stop().await;
}

fn newest(dir: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(dir.join("current")).ok()?;
    let (_, body) = text.split_once('\n')?;
    let entry: serde_json::Value = serde_json::from_str(body).ok()?;
    entry["revision"].as_u64()
}

#[tokio::test]
async fn an_agent_serves_from_its_file_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let agent = Agent::start(joined(NOWHERE, Some(dir.path()))).await;
    // It served before it could have dialled: the answer is there as soon as it listens.
    let stats = agent.stats().await;
    assert_eq!(stats["agent"]["revision"], 2);
    assert_eq!(stats["agent"]["config_source"], "disk");
    assert_eq!(stats["agent"]["connected"], false);
    assert_eq!(agent.ask("GET", "/readyz").await.status, 200);
    agent.stop().await;
}

#[tokio::test]
async fn the_server_learns_what_the_file_held_and_confirms_it() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), Some(dir.path()))).await;
    let mut peer = server.peer().await;
    let applied = peer.open("a", 2).await.applied.unwrap();
    assert_eq!((applied.revision, applied.source), (2, ConfigSource::Disk));
    assert_eq!(applied.control_epoch.as_deref(), Some("a"));
    eventually(async || agent.stats().await["agent"]["config_source"] == "live").await;
    agent.stop().await;
}

#[tokio::test]
async fn a_file_cut_anywhere_still_gives_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    let current = dir.path().join("current");
    let whole = std::fs::read(&current).unwrap();
    for length in (0..whole.len()).step_by(97) {
        std::fs::write(&current, &whole[..length]).unwrap();
        let agent = Agent::start(joined(NOWHERE, Some(dir.path()))).await;
        let stats = agent.stats().await;
        assert_eq!(stats["agent"]["revision"], 1, "cut at {length}");
        let problems = stats["agent"]["problems"].to_string();
        assert!(problems.contains("damaged"), "{problems}");
        agent.stop().await;
    }
}

#[tokio::test]
async fn three_crashes_go_back_to_the_previous_revision() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path()).await;
    for _ in 0..3 {
        let agent = Agent::start(joined(NOWHERE, Some(dir.path()))).await;
        assert_eq!(agent.revision().await, 2);
        agent.kill().await;
    }
    let agent = Agent::start(joined(NOWHERE, Some(dir.path()))).await;
    let stats = agent.stats().await;
    assert_eq!(stats["agent"]["revision"], 1);
    let problems = stats["agent"]["problems"].to_string();
    assert!(problems.contains("previous configuration"), "{problems}");
    // An orderly end is no crash, so the next start tries the newest again.
    agent.stop().await;
    let agent = Agent::start(joined(NOWHERE, Some(dir.path()))).await;
    assert_eq!(agent.revision().await, 2);
    agent.stop().await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_reported_and_serving_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    std::fs::write(&blocked, b"").unwrap();
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), Some(&blocked.join("cache")))).await;
    let mut peer = server.peer().await;
    peer.open("a", 1).await;
    peer.push(1, &document(1)).await;
    assert_eq!(peer.result().await.revision, 1);
    eventually(async || {
        let problems = agent.stats().await["agent"]["problems"].to_string();
        problems.contains("last-known-good file")
    })
    .await;
    assert_eq!(agent.ask("GET", "/readyz").await.status, 200);
    agent.stop().await;
}

/// What the agent is ordered to do with its one lane, by its own word.
async fn ordered(agent: &Agent) -> serde_json::Value {
    let stats = agent.stats().await;
    let cells = stats["lanes"][0]["cells"].as_array().unwrap().clone();
    let cell = cells.into_iter().find(|cell| cell["pool"] == "chat");
    cell.unwrap()["override"].clone()
}

/// Leaves a revision and an order of this length in `dir`; the agent is then killed.
async fn ordered_for(dir: &Path, remaining_ms: u64) {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), Some(dir))).await;
    let mut peer = server.peer().await;
    peer.open("a", 1).await;
    peer.push(1, &document(1)).await;
    peer.result().await;
    let order = Override {
        id: "o1".to_owned(),
        pool: None,
        lane: "m".into(),
        provider: None,
        action: OverrideAction::ForceOpen,
        remaining_ms,
    };
    peer.send(FromServer::Overrides(Overrides {
        generation: 1,
        entries: vec![order],
        unreadable: Vec::new(),
    }))
    .await;
    eventually(async || ordered(&agent).await == "force_open").await;
    eventually(async || newest(dir) == Some(1) && dir.join("orders").exists()).await;
    agent.kill().await;
}

#[tokio::test]
async fn an_order_holds_over_a_restart_without_a_server_and_ends_on_time() {
    const REMAINING: Duration = Duration::from_secs(6);
    let dir = tempfile::tempdir().unwrap();
    let given = Instant::now();
    ordered_for(dir.path(), REMAINING.as_millis() as u64).await;
    let agent = Agent::start(joined(NOWHERE, Some(dir.path()))).await;
    // In force before anything could be asked.
    assert_eq!(ordered(&agent).await, "force_open");
    eventually(async || ordered(&agent).await.is_null()).await;
    let took = given.elapsed();
    println!("an order of {REMAINING:?} ended after {took:?}, over a restart");
    assert!(took < REMAINING + Duration::from_secs(3), "{took:?}");
    agent.stop().await;
}

#[tokio::test]
async fn an_order_holds_over_an_orderly_restart_and_the_next_session_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    ordered_for(dir.path(), 600_000).await;
    let agent = Agent::start(joined(NOWHERE, Some(dir.path()))).await;
    agent.stop().await;
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), Some(dir.path()))).await;
    assert_eq!(ordered(&agent).await, "force_open");
    let mut peer = server.peer().await;
    peer.open("a", 1).await;
    peer.send(FromServer::Overrides(Overrides {
        generation: 2,
        entries: Vec::new(),
        unreadable: Vec::new(),
    }))
    .await;
    eventually(async || ordered(&agent).await.is_null()).await;
    eventually(async || !dir.path().join("orders").exists()).await;
    agent.stop().await;
}

#[tokio::test]
async fn damaged_orders_are_passed_over_and_the_configuration_is_served() {
    let dir = tempfile::tempdir().unwrap();
    ordered_for(dir.path(), 600_000).await;
    let path = dir.path().join("orders");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let agent = Agent::start(joined(NOWHERE, Some(dir.path()))).await;
    assert!(ordered(&agent).await.is_null());
    assert_eq!(agent.revision().await, 1);
    agent.stop().await;
}
