//! Revisions reach agents, their answers are kept, and nothing is pushed twice without need.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::ConfigSource;
use lanekeeper_proto::message::{FromAgent, GoodbyeReason};
use lanekeeper_store::testing::eventually;
use lanekeeper_store::{ConfigStore, MemoryLive};

use crate::scripted::{Agent, PATIENCE, Plane, applied, by_test, document, hello, report};

#[tokio::test]
async fn newcomer_is_welcomed_and_pushed_the_current_revision() {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
    let (expected, hash) = document("edge", 0);
    store
        .create_gateway("edge", &expected, &hash, &by_test())
        .await
        .unwrap();
    let plane = Plane::start_on(store, Arc::new(MemoryLive::new()), |_| {}).await;
    let (mut agent, welcome) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    assert!(welcome.gateway_exists);
    assert_eq!(welcome.target_revision, 1);
    assert_eq!(
        welcome.control_epoch,
        plane.store.control_epoch().await.unwrap()
    );
    assert_eq!(welcome.report_interval, Duration::from_secs(10));
    assert_eq!(welcome.stale_after, Duration::from_secs(30));

    let push = agent.push().await;
    assert_eq!((push.revision, push.hash.as_str()), (1, hash.as_str()));
    let received: serde_json::Value = serde_json::from_slice(&push.document).unwrap();
    assert_eq!(received, expected);

    agent.apply(&push).await;
    let record = plane
        .until_record("one", "the revision is applied", |record| {
            record.applied_revision == 1
        })
        .await;
    assert_eq!(record.applied_hash, hash);
    assert_eq!(record.config_source, ConfigSource::Live);
    assert_eq!(record.name, "agent-one");
    assert_eq!(record.labels["zone"], "b");
    assert!(record.clock_skew_ms < 0, "the agent said 1970");
    eventually("the facts are stored", PATIENCE, async || {
        let facts = plane.store.agent_facts(Some("edge")).await.unwrap();
        facts.iter().any(|facts| facts.applied_revision == 1)
    })
    .await;
    plane.stop().await;
}

#[tokio::test]
async fn revision_reaches_every_session_well_within_two_seconds() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let mut agents = Vec::new();
    for instance in ["one", "two", "three"] {
        let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", instance)).await;
        let push = agent.push().await;
        agent.apply(&push).await;
        agents.push(agent);
    }
    let committed = Instant::now();
    assert_eq!(plane.write("edge", 1).await, 2);
    for agent in &mut agents {
        assert_eq!(agent.push().await.revision, 2);
    }
    assert!(
        committed.elapsed() < Duration::from_secs(2),
        "{:?}",
        committed.elapsed()
    );
    plane.stop().await;
}

#[tokio::test]
async fn lost_hint_is_made_good_by_the_poll() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    let push = agent.push().await;
    agent.apply(&push).await;
    plane.write_quietly("edge", 1).await;
    assert_eq!(agent.push().await.revision, 2);
    plane.stop().await;
}

#[tokio::test]
async fn refused_revision_is_shown_not_resent_and_tried_again_after_a_reconnect() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let (mut agent, welcome) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    let first = agent.push().await;
    agent.apply(&first).await;

    plane.write("edge", 1).await;
    let bad = agent.push().await;
    agent.reject(&bad, 1, &first.hash).await;
    let record = plane
        .until_record("one", "the refusal is shown", |record| {
            record.last_error.is_some()
        })
        .await;
    let rejected = record.last_error.unwrap();
    assert_eq!(rejected.revision, 2);
    assert_eq!(rejected.errors[0].pointer, "/pools/chat");
    assert_eq!(record.applied_revision, 1);
    assert_eq!(plane.metric("lanekeeper_config_rejects_total").await, 1.0);
    // Longer than two polls.
    agent.hears_nothing(Duration::from_millis(2500)).await;

    drop(agent);
    let mut again = hello("edge", "one");
    again.applied = Some(applied(&first, &welcome));
    again.previous_session_epoch = Some(welcome.session_epoch);
    let (mut agent, next_welcome) = Agent::join(plane.addresses.grpc, again).await;
    assert!(next_welcome.session_epoch > welcome.session_epoch);
    let bad = agent.push().await;
    assert_eq!(bad.revision, 2, "a reconnect forgets the refusal");
    agent.reject(&bad, 1, &first.hash).await;

    plane.write("edge", 2).await;
    let good = agent.push().await;
    assert_eq!(good.revision, 3, "the next one is always tried");
    agent.apply(&good).await;
    plane
        .until_record("one", "the error is gone", |record| {
            record.applied_revision == 3 && record.last_error.is_none()
        })
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn newest_revision_replaces_those_waiting_behind_a_push() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    let push = agent.push().await;
    for salt in 1..=4 {
        plane.write("edge", salt).await;
    }
    agent.hears_nothing(Duration::from_millis(1500)).await;
    agent.apply(&push).await;
    assert_eq!(agent.push().await.revision, 5);
    plane.stop().await;
}

#[tokio::test]
async fn agent_of_an_unknown_gateway_waits_and_is_pushed_when_it_is_created() {
    let plane = Plane::start().await;
    let (mut agent, welcome) = Agent::join(plane.addresses.grpc, hello("later", "one")).await;
    assert!(!welcome.gateway_exists);
    assert_eq!(welcome.target_revision, 0);
    agent.send(FromAgent::Report(report(1, &[]))).await;
    assert_eq!(agent.ack().await.seq, 1);
    plane.create("later").await;
    assert_eq!(agent.push().await.revision, 1);
    plane.stop().await;
}

#[tokio::test]
async fn deleted_gateway_leaves_its_agents_connected_and_a_new_one_goes_on_counting() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    let push = agent.push().await;
    agent.apply(&push).await;
    plane
        .store
        .delete_gateway("edge", None, &by_test())
        .await
        .unwrap();
    agent.hears_nothing(Duration::from_millis(1500)).await;
    let revision = plane.create("edge").await;
    assert!(revision > 1);
    assert_eq!(agent.push().await.revision, revision);
    plane.stop().await;
}

#[tokio::test]
async fn restored_database_ends_sessions_and_agents_follow_it_back() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let (mut agent, welcome) = Agent::join(plane.addresses.grpc, hello("edge", "one")).await;
    let push = agent.push().await;
    agent.apply(&push).await;
    plane.store.renew_control_epoch(&by_test()).await.unwrap();
    assert_eq!(agent.goodbye().await.reason, GoodbyeReason::Restored);

    let mut ahead = hello("edge", "one");
    ahead.applied = Some(applied(&push, &welcome));
    if let Some(applied) = &mut ahead.applied {
        applied.revision = 9;
    }
    let (mut agent, next_welcome) = Agent::join(plane.addresses.grpc, ahead).await;
    assert_ne!(next_welcome.control_epoch, welcome.control_epoch);
    assert_eq!(agent.push().await.revision, 1);
    plane.stop().await;
}

#[tokio::test]
async fn agent_ahead_within_the_epoch_is_not_sent_back() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let mut ahead = hello("edge", "one");
    ahead.applied = Some(lanekeeper_proto::message::AppliedRevision {
        revision: 9,
        hash: "hash".into(),
        source: ConfigSource::Disk,
        control_epoch: Some(plane.store.control_epoch().await.unwrap()),
    });
    let (mut agent, _) = Agent::join(plane.addresses.grpc, ahead).await;
    agent.hears_nothing(Duration::from_millis(1500)).await;
    plane.stop().await;
}
