//! The control plane and its stores go and come; agents and the view get over it.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_proto::message::{FromAgent, GoodbyeReason};
use lanekeeper_store::testing::{PostgresServer, RedisServer, eventually};
use lanekeeper_store::{ConfigStore, RedisLive};

use crate::scripted::{Agent, PATIENCE, Plane, applied, hello, report};

#[tokio::test]
async fn restarted_server_takes_its_agents_back() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let address = plane.addresses.grpc;
    let (mut agent, welcome) = Agent::join(address, hello("edge", "one")).await;
    let push = agent.push().await;
    agent.apply(&push).await;
    plane
        .until_record("one", "the revision is applied", |record| {
            record.applied_revision == 1
        })
        .await;

    let (store, live) = (plane.store.clone(), Arc::clone(&plane.live));
    plane.begin_stop();
    let goodbye = agent.goodbye().await;
    assert_eq!(goodbye.reason, GoodbyeReason::Shutdown);
    assert_eq!(goodbye.jitter, Duration::from_millis(100));
    let dir = plane.stop().await;

    let plane = Plane::start_on(store, live, |config| config.grpc_listen = address).await;
    let mut again = hello("edge", "one");
    again.applied = Some(applied(&push, &welcome));
    again.previous_session_epoch = Some(welcome.session_epoch);
    let (mut agent, next_welcome) = Agent::join(address, again).await;
    assert!(next_welcome.session_epoch > welcome.session_epoch);
    assert_eq!(next_welcome.control_epoch, welcome.control_epoch);
    agent.send(FromAgent::Report(report(1, &["sonnet"]))).await;
    assert_eq!(agent.ack().await.seq, 1, "and no push of what it has");
    plane
        .until_record("one", "the new session is recorded", |record| {
            record.session_epoch == next_welcome.session_epoch && record.seq == 1
        })
        .await;
    plane.stop().await;
    drop(dir);
}

#[tokio::test]
async fn known_revision_is_served_while_postgres_is_away() {
    let mut postgres = PostgresServer::start().await;
    let url = postgres.create_database().await;
    let store = ConfigStore::connect(&url).await.unwrap();
    let live = Arc::new(lanekeeper_store::MemoryLive::new());
    let plane = Plane::start_on(store, live, |_| {}).await;
    plane.create("edge").await;
    let (mut before, _) = Agent::join(plane.addresses.grpc, hello("edge", "before")).await;
    let push = before.push().await;
    before.apply(&push).await;

    postgres.stop();
    before.send(FromAgent::Report(report(1, &["sonnet"]))).await;
    assert_eq!(before.ack().await.seq, 1);
    let (mut during, welcome) = Agent::join(plane.addresses.grpc, hello("edge", "during")).await;
    assert_eq!(welcome.target_revision, 1);
    assert_eq!(during.push().await.revision, 1);
    assert_eq!(plane.ops("GET", "/livez").await.0, 200);
    assert_eq!(plane.ops("GET", "/readyz").await.0, 200);

    postgres.start_again().await;
    during.apply(&push).await;
    plane.write_quietly("edge", 1).await;
    assert_eq!(before.push().await.revision, 2);
    assert_eq!(during.push().await.revision, 2);
    plane.stop().await;
}

#[tokio::test]
async fn records_return_to_an_emptied_redis_without_asking_agents() {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
    let mut redis = RedisServer::start().await;
    let live = Arc::new(RedisLive::connect(&redis.url()).await.unwrap());
    let plane = Plane::start_on(store, live, |_| {}).await;
    let (mut quiet, _) = Agent::join(plane.addresses.grpc, hello("edge", "quiet")).await;
    quiet.send(FromAgent::Report(report(1, &["sonnet"]))).await;
    assert_eq!(quiet.ack().await.seq, 1);
    plane
        .until_record("quiet", "the report is stored", |record| record.seq == 1)
        .await;

    redis.stop();
    let (mut busy, _) = Agent::join(plane.addresses.grpc, hello("edge", "busy")).await;
    for seq in 1..=3 {
        busy.send(FromAgent::Report(report(seq, &["opus"]))).await;
        assert_eq!(busy.ack().await.seq, seq);
    }
    eventually("a write has failed", PATIENCE, async || {
        let failed = "lanekeeper_record_writes_total{to=\"live\",result=\"failed\"}";
        plane.metric(failed).await > 0.0
    })
    .await;
    redis.start_again().await;

    for (instance, seq) in [("busy", 3), ("quiet", 1)] {
        plane
            .until_stored(instance, |record| record.seq == seq)
            .await;
    }
    plane.stop().await;
}
