//! Peers that break the protocol lose their own stream and nothing else.

use std::time::Duration;

use lanekeeper_control_plane::{Config, Error};
use lanekeeper_proto::message::{FromAgent, FromServer, GoodbyeReason};
use lanekeeper_proto::{limits, wire};
use lanekeeper_store::testing::eventually;
use lanekeeper_store::{ConfigStore, MemoryLive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use crate::scripted::{Agent, PATIENCE, Plane, by_test, channel, hello, report};

#[tokio::test]
async fn stream_that_does_not_begin_with_a_hello_ends_as_a_fault() {
    let plane = Plane::start().await;
    let mut agent = Agent::dial(plane.addresses.grpc).await;
    agent.send(FromAgent::Report(report(1, &[]))).await;
    let status = agent.end_or_next().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "the first message must be a Hello");

    let mut agent = Agent::dial(plane.addresses.grpc).await;
    let mut nameless = wire::Hello::from(hello("edge", "one"));
    nameless.gateway.clear();
    let message = Some(wire::agent_message::Message::Hello(nameless));
    let envelope = wire::AgentMessage { message };
    agent.outbound.send(envelope).await.unwrap();
    let status = agent.end_or_next().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "hello.gateway: is missing");

    let mut agent = Agent::dial(plane.addresses.grpc).await;
    agent.send(FromAgent::Hello(hello("a:b", "one"))).await;
    let status = agent.end_or_next().await.unwrap_err();
    assert!(status.message().starts_with("hello.gateway: a name "));
    plane.stop().await;
}

#[tokio::test]
async fn stream_without_a_hello_ends_in_time() {
    let plane = Plane::start_with(|config| {
        config.timing.hello_timeout = Duration::from_millis(200);
    })
    .await;
    let mut agent = Agent::dial(plane.addresses.grpc).await;
    let status = agent.end_or_next().await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    plane.stop().await;
}

#[tokio::test]
async fn connection_that_never_speaks_http2_ends_in_time() {
    let plane = Plane::start_with(|config| {
        config.timing.hello_timeout = Duration::from_millis(200);
    })
    .await;
    let mut stream = TcpStream::connect(plane.addresses.grpc).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0").await.unwrap();
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    assert!(ended.is_ok(), "the connection stays");
    plane.stop().await;
}

#[tokio::test]
async fn second_hello_ends_the_stream() {
    let plane = Plane::start().await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    agent.send(FromAgent::Hello(hello("edge", "one"))).await;
    let status = agent.end_or_next().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    plane.stop().await;
}

#[tokio::test]
async fn agent_of_another_protocol_is_told_so_in_band() {
    let plane = Plane::start().await;
    let mut agent = Agent::dial(plane.addresses.grpc).await;
    let mut future = hello("edge", "one");
    (future.protocol_min, future.protocol_max) = (90, 99);
    agent.send(FromAgent::Hello(future)).await;
    let goodbye = agent.goodbye().await;
    assert_eq!(goodbye.reason, GoodbyeReason::Protocol);
    assert!(goodbye.reconnect_after >= Duration::from_secs(30));
    plane.stop().await;
}

#[tokio::test]
async fn oversized_message_ends_its_stream_and_no_other() {
    let plane = Plane::start().await;
    let shared = channel(plane.addresses.grpc).await;
    let mut other = Agent::dial_on(shared.clone()).await;
    other.send(FromAgent::Hello(hello("edge", "other"))).await;
    assert!(matches!(other.next().await, FromServer::Welcome(_)));

    let mut agent = Agent::dial_on(shared).await;
    agent.send(FromAgent::Hello(hello("edge", "one"))).await;
    assert!(matches!(agent.next().await, FromServer::Welcome(_)));
    let mut huge = report(1, &[]);
    huge.problems = vec!["x".repeat(limits::MESSAGE_BYTES_MAX + 1)];
    agent.send(FromAgent::Report(huge)).await;
    let status = agent.end_or_next().await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);

    other.send(FromAgent::Report(report(1, &[]))).await;
    assert_eq!(other.ack().await.seq, 1, "even on the same connection");
    plane.stop().await;
}

#[tokio::test]
async fn newer_session_of_an_instance_replaces_the_earlier_one() {
    let plane = Plane::start().await;
    let (mut earlier, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    let (mut later, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    assert_eq!(earlier.goodbye().await.reason, GoodbyeReason::Replaced);
    later.send(FromAgent::Report(report(1, &["sonnet"]))).await;
    assert_eq!(later.ack().await.seq, 1);
    plane
        .until_record("one", "the later session reports", |record| record.seq == 1)
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn copy_of_a_living_agent_is_refused_and_the_original_stays() {
    let plane = Plane::start().await;
    let (mut original, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    original.send(FromAgent::Report(report(1, &[]))).await;
    assert_eq!(original.ack().await.seq, 1);

    let mut copy = Agent::dial(plane.addresses.grpc).await;
    copy.send(FromAgent::Hello(hello("edge", "one"))).await;
    let goodbye = copy.goodbye().await;
    assert_eq!(goodbye.reason, GoodbyeReason::Duplicate);
    assert!(goodbye.reconnect_after >= Duration::from_secs(30));

    original
        .send(FromAgent::Report(report(2, &["sonnet"])))
        .await;
    assert_eq!(original.ack().await.seq, 2, "the original is left alone");
    plane.stop().await;
}

#[tokio::test]
async fn agent_beyond_the_bound_is_sent_away_in_band() {
    let plane = Plane::start_with(|config| config.sessions_max = 1).await;
    let (agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    let mut second = Agent::dial(plane.addresses.grpc).await;
    assert_eq!(second.goodbye().await.reason, GoodbyeReason::Overloaded);
    drop(agent);
    eventually("there is room again", PATIENCE, async || {
        let mut third = Agent::dial(plane.addresses.grpc).await;
        third.send(FromAgent::Hello(hello("edge", "three"))).await;
        matches!(third.next().await, FromServer::Welcome(_))
    })
    .await;
    plane.stop().await;
}

#[tokio::test]
async fn agent_that_does_not_read_is_cut() {
    let plane = Plane::start_with(|config| {
        config.timing.stall_timeout = Duration::from_millis(500);
    })
    .await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    // Larger than any receive window, so that it cannot be passed on without being read.
    let document = serde_json::json!({ "padding": "x".repeat(12 << 20) });
    plane
        .store
        .create_gateway("edge", &document, "hash", &by_test())
        .await
        .unwrap();
    let mut seq = 0;
    eventually("the session is over", PATIENCE, async || {
        seq += 1;
        let report = FromAgent::Report(report(seq, &[]));
        let _ = agent.outbound.try_send(report.into());
        plane.metric("lanekeeper_sessions").await == 0.0
    })
    .await;
    let ended = loop {
        match agent.end_or_next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("an orderly end"),
            Err(status) => break status,
        }
    };
    assert_ne!(ended.code(), Code::Ok);
    plane.stop().await;
}

#[tokio::test]
async fn plaintext_listener_beyond_loopback_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
    let config = Config {
        grpc_listen: "0.0.0.0:0".parse().unwrap(),
        ops_listen: "127.0.0.1:0".parse().unwrap(),
        ..Config::default()
    };
    let ran = lanekeeper_control_plane::run(
        config,
        store,
        std::sync::Arc::new(MemoryLive::new()),
        tokio_util::sync::CancellationToken::new(),
        |addresses| panic!("ready on {addresses:?}"),
    );
    assert!(matches!(
        ran.await,
        Err(Error::Config {
            field: "grpc_listen",
            ..
        })
    ));
}

#[tokio::test]
async fn ops_listener_answers_probes_and_scrapers() {
    let plane = Plane::start().await;
    assert_eq!(plane.ops("GET", "/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(plane.ops("GET", "/readyz").await, (200, "ok\n".to_owned()));
    assert_eq!(plane.ops("GET", "/nothing").await.0, 404);
    assert_eq!(plane.ops("POST", "/metrics").await.0, 405);
    let (status, exposition) = plane.ops("GET", "/metrics").await;
    assert_eq!(status, 200);
    assert!(
        exposition.contains("\nlanekeeper_sessions 0\n"),
        "{exposition}"
    );
    assert!(exposition.ends_with("# EOF\n"));
    plane.stop().await;
}
