//! Sessions.

use std::time::{Duration, Instant};

use lanekeeper_model::ConfigSource;
use lanekeeper_proto::message::{ConfigOutcome, FromAgent};
use lanekeeper_proto::wire::{self, server_message};
use serde_json::{Value, json};

use crate::agent::{Agent, document, eventually, joined};
use crate::scripted::{PATIENCE, Scripted};

#[tokio::test]
async fn a_session_runs_from_hello_to_bye() {
    let mut server = Scripted::start().await;
    let mut config = joined(&server.url(), None);
    config.name = "node-1".to_owned();
    config.labels.insert("zone".to_owned(), "a".to_owned());
    let agent = Agent::start(config).await;
    assert_eq!(agent.ask("GET", "/readyz").await.status, 503);

    let mut peer = server.peer().await;
    let hello = peer.open("a", 3).await;
    assert_eq!(
        (hello.gateway.as_str(), hello.name.as_str()),
        ("edge", "node-1")
    );
    assert_eq!(hello.labels["zone"], "a");
    assert_eq!((hello.applied, hello.previous_session_epoch), (None, None));
    assert_eq!(hello.instance, agent.stats().await["agent"]["id"]);

    let first = peer.report().await;
    assert_eq!((first.seq, first.dense, first.revision), (1, true, 0));

    peer.push(3, &document(1)).await;
    let result = peer.result().await;
    assert_eq!((result.nonce, result.revision), (1003, 3));
    assert!(matches!(result.outcome, ConfigOutcome::Applied { .. }));
    let stats = agent.stats().await;
    assert_eq!(stats["agent"]["revision"], 3);
    assert_eq!(stats["agent"]["config_source"], "live");
    assert_eq!(stats["agent"]["connected"], true);
    assert_eq!(agent.ask("GET", "/readyz").await.status, 200);

    agent.shutdown.drain.cancel();
    loop {
        match peer.next().await {
            Some(FromAgent::Report(_)) => {}
            Some(FromAgent::Bye(_)) => break,
            other => panic!("no Bye: {other:?}"),
        }
    }
    drop((peer, server));
    agent.stop().await;
}

#[tokio::test]
async fn draining_is_reported_before_the_pause_ends() {
    let mut server = Scripted::start().await;
    let mut config = joined(&server.url(), None);
    config.drain_pause = PATIENCE;
    let agent = Agent::start(config).await;
    let mut peer = server.peer().await;
    peer.open("a", 0).await;
    peer.report().await;
    agent.shutdown.drain.cancel();
    let begun = Instant::now();
    assert!(peer.report().await.draining);
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(agent.ask("GET", "/readyz").await.status, 503);
    agent.shutdown.immediate.cancel();
    agent.stop().await;
}

#[tokio::test]
async fn a_refused_revision_leaves_the_running_one_and_lists_every_error() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open("a", 1).await;
    peer.push(1, &document(1)).await;
    assert!(matches!(
        peer.result().await.outcome,
        ConfigOutcome::Applied { .. }
    ));

    let mut bad = document(1);
    bad["pools"]["chat"]["members"][0]["target"] = json!("nobody");
    bad["surprise"] = json!(1);
    peer.push(2, &bad).await;
    let result = peer.result().await;
    assert_eq!((result.nonce, result.revision), (1002, 1));
    let ConfigOutcome::Rejected { errors } = result.outcome else {
        panic!("taken: {result:?}")
    };
    assert!(errors.len() >= 2, "{errors:?}");
    assert_eq!(agent.revision().await, 1);
    let problems = agent.stats().await["agent"]["problems"].to_string();
    assert!(problems.contains("revision 2 was refused"), "{problems}");

    peer.push(3, &document(2)).await;
    assert_eq!(peer.result().await.revision, 3);
    assert_eq!(agent.stats().await["agent"]["problems"], json!([]));
    agent.stop().await;
}

/// As many pool members as a document may have: it takes a test build seconds to judge and compile.
fn vast() -> Value {
    let mut vast = document(1);
    let members: Vec<Value> = (0..1_000)
        .map(|number| json!({"target": format!("m{number}")}))
        .collect();
    for member in &members {
        vast["models"][member["target"].as_str().unwrap()] = vast["models"]["m"].clone();
    }
    for number in 0..49 {
        vast["pools"][format!("p{number}")] = json!({"members": members});
    }
    vast
}

#[tokio::test]
async fn reports_go_on_while_a_vast_document_is_tried_and_answers_keep_their_order() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open_with("a", 1, Duration::from_secs(1)).await;
    peer.report().await;
    peer.push(1, &vast()).await;
    peer.push(2, &document(2)).await;
    let during = peer.report().await;
    assert_eq!(during.revision, 0);
    let answers = [peer.result().await, peer.result().await];
    assert_eq!(answers.map(|answer| answer.revision), [1, 2]);
    assert_eq!(agent.revision().await, 2);
    agent.stop().await;
}

#[tokio::test]
async fn what_is_not_what_it_claims_to_be_is_refused() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open("a", 1).await;

    peer.push_as(1, &document(1), &"0".repeat(64)).await;
    let mut other = document(1);
    other["gateway"] = json!("other");
    peer.push(2, &other).await;
    let unreadable = wire::ConfigPush {
        nonce: 77,
        revision: 0,
        ..wire::ConfigPush::default()
    };
    peer.send_wire(wire::ServerMessage {
        message: Some(server_message::Message::ConfigPush(unreadable)),
    })
    .await;
    for (nonce, code) in [
        (1001, "hash_mismatch"),
        (1002, "wrong_gateway"),
        (77, "unreadable"),
    ] {
        let result = peer.result().await;
        assert_eq!((result.nonce, result.revision), (nonce, 0));
        let ConfigOutcome::Rejected { errors } = result.outcome else {
            panic!("taken: {result:?}")
        };
        assert_eq!(errors[0].code, code);
    }
    assert_eq!(agent.revision().await, 0);
    agent.stop().await;
}

#[tokio::test]
async fn no_revision_goes_back_in_one_epoch_not_even_over_sessions() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open("a", 5).await;
    peer.push(5, &document(5)).await;
    peer.result().await;
    drop(peer);

    let mut peer = server.peer().await;
    let hello = peer.open("a", 4).await;
    let applied = hello.applied.unwrap();
    assert_eq!((applied.revision, applied.source), (5, ConfigSource::Live));
    assert_eq!(applied.control_epoch.as_deref(), Some("a"));
    assert_eq!(hello.previous_session_epoch, Some(1));
    peer.push(4, &document(4)).await;
    let result = peer.result().await;
    assert!(matches!(result.outcome, ConfigOutcome::Rejected { .. }));
    assert_eq!(agent.revision().await, 5);
    drop(peer);

    let mut peer = server.peer().await;
    peer.open("b", 4).await;
    peer.push(4, &document(4)).await;
    assert!(matches!(
        peer.result().await.outcome,
        ConfigOutcome::Applied { .. }
    ));
    assert_eq!(agent.revision().await, 4);
    agent.stop().await;
}

#[tokio::test]
async fn messages_of_a_newer_server_are_skipped() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open("a", 1).await;
    peer.send_wire(wire::ServerMessage { message: None }).await;
    peer.push(1, &document(1)).await;
    assert_eq!(peer.result().await.revision, 1);
    agent.stop().await;
}

#[tokio::test]
async fn a_goodbye_is_obeyed() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open("a", 0).await;
    let said = Instant::now();
    peer.goodbye(Duration::from_secs(2)).await;
    let mut again = server.peer().await;
    assert!(said.elapsed() >= Duration::from_secs(2));
    again.open("a", 0).await;
    agent.stop().await;
}

#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_not_stormed() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let dialled = server.count_and_close(Duration::from_secs(4)).await;
    assert!((1..=12).contains(&dialled), "{dialled}");
    agent.stop().await;
}

#[tokio::test]
async fn a_server_that_acknowledges_nothing_is_left() {
    let mut server = Scripted::start().await;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open_with("a", 0, Duration::from_secs(1)).await;
    let mut reports = 0;
    while let Some(FromAgent::Report(report)) = peer.next().await {
        reports += 1;
        assert_eq!(report.seq, reports);
    }
    assert!((2..=5).contains(&reports), "{reports}");
    server.peer().await.open("a", 0).await;
    agent.stop().await;
}

#[tokio::test]
async fn the_agent_comes_back_after_its_server_did() {
    let mut server = Scripted::start().await;
    let address = server.address;
    let agent = Agent::start(joined(&server.url(), None)).await;
    let mut peer = server.peer().await;
    peer.open("a", 1).await;
    peer.push(1, &document(1)).await;
    peer.result().await;
    drop((peer, server));
    eventually(async || agent.stats().await["agent"]["connected"] == false).await;
    assert_eq!(agent.ask("GET", "/readyz").await.status, 200);

    let mut server = Scripted::start_on(address).await;
    let mut peer = server.peer().await;
    peer.open("a", 1).await;
    eventually(async || agent.stats().await["agent"]["connected"] == true).await;
    agent.stop().await;
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_delays_neither_start_nor_stop() {
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", mute.local_addr().unwrap());
    let begun = Instant::now();
    let agent = Agent::start(joined(&url, None)).await;
    let (_held, _) = mute.accept().await.unwrap();
    assert_eq!(agent.ask("GET", "/livez").await.status, 200);
    agent.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(4));
}
