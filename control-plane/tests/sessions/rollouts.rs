//! During a rollout each session is pushed what its agent's stage gives it, on whichever replica.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::rollout::{RolloutOrder, RolloutPlan, RolloutState};
use lanekeeper_proto::message::Hello;
use lanekeeper_store::testing::eventually;
use lanekeeper_store::{ConfigStore, MemoryLive};
use serde_json::json;

use crate::scripted::{Agent, PATIENCE, Plane, applied, by_test, document, hello};

/// Long enough for several looks of the driver and polls of the watch.
const A_WHILE: Duration = Duration::from_secs(3);

fn canary(instance: &str) -> Hello {
    let mut hello = hello("edge", instance);
    hello.labels.insert("tier".to_owned(), "canary".to_owned());
    hello
}

/// A gateway whose canaries go first and are watched for so long.
async fn prepare(store: &ConfigStore, hold_secs: u64) {
    let (document, hash) = document("edge", 0);
    store
        .create_gateway("edge", &document, &hash, &by_test())
        .await
        .unwrap();
    let plan = json!({"strategy": "staged", "canary": {"labels": {"tier": "canary"}},
        "percents": [], "hold_secs": hold_secs, "auto_rollback": true});
    let plan = RolloutPlan::check(&plan).unwrap();
    store
        .put_rollout_plan("edge", &plan, &by_test())
        .await
        .unwrap();
}

async fn plane(hold_secs: u64) -> (Plane, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
    prepare(&store, hold_secs).await;
    let plane = Plane::start_on(store, Arc::new(MemoryLive::new()), |_| {}).await;
    (plane, dir)
}

/// An agent that has applied the first revision.
async fn settled(plane: &Plane, hello: Hello) -> Agent {
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello).await;
    let push = agent.push().await;
    assert_eq!(push.revision, 1);
    agent.apply(&push).await;
    agent
}

async fn until_state(plane: &Plane, state: RolloutState) {
    eventually("the rollout's state", PATIENCE, async || {
        let stored = plane.store.rollout("edge", 2).await.unwrap();
        stored.rollout.state == state
    })
    .await;
}

#[tokio::test]
async fn others_are_pushed_once_the_canary_has_proven_it() {
    let (plane, _dir) = plane(0).await;
    let mut first = settled(&plane, canary("one")).await;
    let mut other = settled(&plane, hello("edge", "two")).await;
    assert_eq!(plane.write("edge", 1).await, 2);
    let push = first.push().await;
    assert_eq!(push.revision, 2);
    other.hears_nothing(A_WHILE).await;
    first.apply(&push).await;
    let push = other.push().await;
    assert_eq!(push.revision, 2);
    other.apply(&push).await;
    until_state(&plane, RolloutState::Done).await;
    first.hears_nothing(A_WHILE).await;
    plane.stop().await;
}

#[tokio::test]
async fn refusal_of_the_canary_brings_the_old_content_back_and_others_never_see_the_new_one() {
    let (plane, _dir) = plane(0).await;
    let mut first = settled(&plane, canary("one")).await;
    let mut other = settled(&plane, hello("edge", "two")).await;
    plane.write("edge", 1).await;
    let push = first.push().await;
    first.reject(&push, 1, "hash-edge-0").await;
    for agent in [&mut first, &mut other] {
        let push = agent.push().await;
        assert_eq!((push.revision, push.hash.as_str()), (3, "hash-edge-0"));
        agent.apply(&push).await;
    }
    until_state(&plane, RolloutState::RolledBack).await;
    plane.stop().await;
}

#[tokio::test]
async fn agent_that_comes_or_comes_back_gets_what_its_stage_gives_it_on_every_replica() {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
    prepare(&store, 600).await;
    let live = Arc::new(MemoryLive::new());
    let one = Plane::start_on(store.clone(), live.clone(), |_| {}).await;
    let two = Plane::start_on(store, live, |_| {}).await;
    let mut first = settled(&one, canary("one")).await;
    one.write("edge", 1).await;
    let push = first.push().await;
    first.apply(&push).await;

    let (mut newcomer, welcome) = Agent::join(two.addresses.grpc, hello("edge", "two")).await;
    assert_eq!(welcome.target_revision, 1);
    assert_eq!(newcomer.push().await.revision, 1);
    let (mut surge, welcome) = Agent::join(two.addresses.grpc, canary("three")).await;
    assert_eq!(welcome.target_revision, 2);
    let surge_push = surge.push().await;
    assert_eq!(surge_push.revision, 2);
    surge.apply(&surge_push).await;

    // What has it already keeps it, also without the label.
    let mut unlabelled = hello("edge", "four");
    unlabelled.applied = Some(applied(&surge_push, &welcome));
    let (mut unlabelled, _) = Agent::join(one.addresses.grpc, unlabelled).await;
    unlabelled.hears_nothing(A_WHILE).await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn paused_rollout_reaches_nobody_new() {
    let (plane, _dir) = plane(0).await;
    let mut first = settled(&plane, canary("one")).await;
    let mut other = settled(&plane, hello("edge", "two")).await;
    plane.write("edge", 1).await;
    let push = first.push().await;
    let order = async |order| {
        let change = by_test();
        let ordered = plane.store.order_rollout("edge", 2, order, &change);
        ordered.await.unwrap();
    };
    order(RolloutOrder::Pause).await;
    first.apply(&push).await;
    other.hears_nothing(A_WHILE).await;
    order(RolloutOrder::Resume).await;
    assert_eq!(other.push().await.revision, 2);
    plane.stop().await;
}
