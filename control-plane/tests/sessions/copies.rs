//! Two processes under one instance at two replicas: the living one stays, and a reconnect after a
//! lost connection is no copy.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_proto::message::{FromAgent, FromServer, Goodbye, GoodbyeReason, Hello, Welcome};
use lanekeeper_store::testing::eventually;
use lanekeeper_store::{ConfigStore, LiveView, MemoryLive};

use crate::scripted::{Agent, PATIENCE, Plane, hello, report};

/// Two replicas over one store and one live view, and the store's files.
struct Replicas {
    planes: [Plane; 2],
    _dir: tempfile::TempDir,
}

impl Replicas {
    async fn start(live: Arc<dyn LiveView>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
        let one = Plane::start_on(store.clone(), Arc::clone(&live), |_| {}).await;
        let other = Plane::start_on(store, live, |_| {}).await;
        Self {
            planes: [one, other],
            _dir: dir,
        }
    }

    async fn stop(self) {
        for plane in self.planes {
            plane.stop().await;
        }
    }
}

/// An agent that knows of its session before.
fn returning(welcome: &Welcome) -> Hello {
    Hello {
        previous_session_epoch: Some(welcome.session_epoch),
        ..hello("edge", "one")
    }
}

/// Opens a session and reports in it.
async fn reporting(plane: &Plane, hello: Hello) -> (Agent, Welcome) {
    let (mut agent, welcome) = Agent::join(plane.addresses.grpc, hello).await;
    agent.send(FromAgent::Report(report(1, &[]))).await;
    assert_eq!(agent.ack().await.seq, 1);
    plane
        .until_record("one", "the report is in the view", |record| {
            record.session_epoch == welcome.session_epoch && record.seq == 1
        })
        .await;
    (agent, welcome)
}

async fn turned_away(plane: &Plane, hello: Hello) -> Goodbye {
    let mut copy = Agent::dial(plane.addresses.grpc).await;
    copy.send(FromAgent::Hello(hello)).await;
    let goodbye = copy.goodbye().await;
    assert_eq!(goodbye.reason, GoodbyeReason::Duplicate);
    assert!(goodbye.reconnect_after >= Duration::from_secs(30));
    goodbye
}

#[tokio::test]
async fn a_copy_at_another_replica_is_turned_away_and_told_of() {
    let replicas = Replicas::start(Arc::new(MemoryLive::new())).await;
    let (mut original, _) = reporting(&replicas.planes[0], hello("edge", "one")).await;
    turned_away(&replicas.planes[1], hello("edge", "one")).await;
    replicas.planes[0]
        .until_record("one", "the view tells of the copy", |record| {
            let text = record.problems.join("\n");
            text.contains("another living process")
        })
        .await;
    original.send(FromAgent::Report(report(2, &[]))).await;
    assert_eq!(original.ack().await.seq, 2, "the original is left alone");
    replicas.stop().await;
}

#[tokio::test]
async fn a_reconnect_at_another_replica_wins_over_its_own_dead_session() {
    let replicas = Replicas::start(Arc::new(MemoryLive::new())).await;
    let (_dead, welcome) = reporting(&replicas.planes[0], hello("edge", "one")).await;
    let (mut again, second) = reporting(&replicas.planes[1], returning(&welcome)).await;
    assert!(second.session_epoch > welcome.session_epoch);
    again.send(FromAgent::Report(report(2, &["sonnet"]))).await;
    assert_eq!(again.ack().await.seq, 2);
    let record = replicas.planes[1]
        .until_record("one", "the later session is shown", |record| {
            record.seq == 2
        })
        .await;
    assert!(record.problems.is_empty(), "{:?}", record.problems);
    replicas.stop().await;
}

#[tokio::test]
async fn of_two_copies_that_know_the_same_past_one_is_left() {
    let replicas = Replicas::start(Arc::new(MemoryLive::new())).await;
    let (mut first, welcome) = reporting(&replicas.planes[0], hello("edge", "one")).await;
    // A copy made of the living process knows what the process knows.
    let (mut second, _) = reporting(&replicas.planes[1], returning(&welcome)).await;
    // The first one lives and goes on reporting.
    first.send(FromAgent::Report(report(2, &[]))).await;
    let replaced = loop {
        match first.next().await {
            FromServer::Goodbye(goodbye) => break goodbye,
            FromServer::ReportAck(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(replaced.reason, GoodbyeReason::Replaced);
    turned_away(&replicas.planes[0], returning(&welcome)).await;
    second.send(FromAgent::Report(report(2, &[]))).await;
    assert_eq!(second.ack().await.seq, 2);
    replicas.planes[1]
        .until_record("one", "the view tells of the copy", |record| {
            !record.problems.is_empty()
        })
        .await;
    replicas.stop().await;
}

#[tokio::test]
async fn a_session_that_its_agent_never_learnt_of_hides_nothing() {
    let live: Arc<dyn LiveView> = Arc::new(MemoryLive::new());
    let replicas = Replicas::start(Arc::clone(&live)).await;
    let (lost, unlearnt) =
        Agent::join(replicas.planes[0].addresses.grpc, hello("edge", "one")).await;
    drop(lost);
    let mut ahead = replicas.planes[0]
        .until_record("one", "the session is in the view", |_| true)
        .await;
    // That replica's clock runs an hour ahead.
    ahead.session_epoch = unlearnt.session_epoch + 3_600_000;
    live.put(Arc::new(ahead.clone()), ahead.connected_ms)
        .await
        .unwrap();
    let (_agent, welcome) = reporting(&replicas.planes[1], hello("edge", "one")).await;
    assert!(welcome.session_epoch > ahead.session_epoch);
    replicas.stop().await;
}

#[tokio::test]
async fn a_copy_may_come_in_once_the_original_is_dead() {
    let replicas = Replicas::start(Arc::new(MemoryLive::new())).await;
    let (mut original, _) = reporting(&replicas.planes[0], hello("edge", "one")).await;
    original.bye().await;
    assert_eq!(original.end_or_next().await.unwrap(), None);
    eventually("the original has left", PATIENCE, async || {
        let record = replicas.planes[1].record("one").await;
        record.is_some_and(|record| record.left)
    })
    .await;
    reporting(&replicas.planes[1], hello("edge", "one")).await;
    replicas.stop().await;
}
