//! Operators' orders reach the agents they are for, also without a hint, and their answers are
//! kept.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lanekeeper_model::OverrideAction;
use lanekeeper_proto::message::{
    ABILITY_OVERRIDES, FromAgent, FromServer, Overrides, OverridesResult, RefusedOverride,
};
use lanekeeper_store::{Hint, NewOverride, OverrideRow};

use crate::scripted::{Agent, Plane, by_test, hello, report};

/// An order that lasts beyond any test, by the wall clock.
const FAR_MS: u64 = 4_000_000_000_000;

impl Plane {
    /// Gives an order for agents with these labels, without a hint.
    pub(crate) async fn order(&self, lane: &str, labels: &[(&str, &str)]) -> OverrideRow {
        let new = NewOverride {
            action: OverrideAction::ForceOpen,
            pool: None,
            lane: lane.into(),
            provider: None,
            agents: labels
                .iter()
                .map(|(label, value)| ((*label).to_owned(), (*value).to_owned()))
                .collect(),
            reason: "a test".to_owned(),
            expires_ms: FAR_MS,
        };
        let seen = self.store.standing_overrides("edge", 0).await.unwrap();
        self.store
            .create_override("edge", &new, seen.generation, &by_test())
            .await
            .unwrap()
            .unwrap()
    }
}

pub(crate) fn understanding(instance: &str) -> lanekeeper_proto::message::Hello {
    let mut hello = hello("edge", instance);
    hello.capabilities = vec![ABILITY_OVERRIDES.to_owned(), "more".to_owned()];
    hello
}

impl Agent {
    pub(crate) async fn overrides(&mut self) -> Overrides {
        loop {
            match self.next().await {
                FromServer::Overrides(overrides) => return overrides,
                FromServer::ConfigPush(push) => self.apply(&push).await,
                other => panic!("no overrides: {other:?}"),
            }
        }
    }

    async fn obey(&self, overrides: &Overrides) {
        let applied = overrides.entries.iter().map(|order| order.id.clone());
        self.send(FromAgent::OverridesResult(OverridesResult {
            generation: overrides.generation,
            applied: applied.collect(),
            refused: Vec::new(),
        }))
        .await;
    }
}

fn lanes(overrides: &Overrides) -> Vec<&str> {
    let lanes = overrides.entries.iter().map(|order| order.lane.as_str());
    lanes.collect()
}

#[tokio::test]
async fn newcomer_gets_the_whole_set_for_its_labels_and_its_word_is_kept() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let row = plane.order("fast", &[("zone", "b")]).await;
    plane.order("slow", &[("zone", "a")]).await;
    let (mut agent, welcome) = Agent::join(plane.addresses.grpc, understanding("one")).await;
    assert!(welcome.capabilities.contains(&ABILITY_OVERRIDES.to_owned()));
    let overrides = agent.overrides().await;
    assert_eq!((overrides.generation, lanes(&overrides)), (2, vec!["fast"]));
    let remaining_ms = overrides.entries[0].remaining_ms;
    assert!(remaining_ms > 0 && remaining_ms < FAR_MS, "{remaining_ms}");
    agent.obey(&overrides).await;
    let record = plane
        .until_record("one", "the order is acknowledged", |record| {
            record.overrides.applied.contains_key(&row.order.id)
        })
        .await;
    assert!(record.overrides.understood);
    assert_eq!(record.overrides.generation, 2);

    // A later revision may turn the answer.
    let refused = RefusedOverride {
        id: row.order.id.clone(),
        reason: "no such cell".to_owned(),
    };
    agent
        .send(FromAgent::OverridesResult(OverridesResult {
            generation: 2,
            applied: Vec::new(),
            refused: vec![refused],
        }))
        .await;
    let record = plane
        .until_record("one", "the order is refused", |record| {
            record.overrides.applied.is_empty()
        })
        .await;
    assert_eq!(
        record.overrides.refused,
        BTreeMap::from([(row.order.id, "no such cell".to_owned())])
    );
    plane.stop().await;
}

#[tokio::test]
async fn change_is_told_within_the_poll_even_when_its_hint_is_lost() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, understanding("one")).await;
    let first = agent.overrides().await;
    assert_eq!((first.generation, lanes(&first)), (0, vec![]));
    agent.obey(&first).await;

    let given = Instant::now();
    let row = plane.order("fast", &[]).await;
    let told = agent.overrides().await;
    println!("without a hint after {:?}", given.elapsed());
    assert!(given.elapsed() < Duration::from_millis(1500));
    assert_eq!(lanes(&told), ["fast"]);

    // While this set is unanswered the next ones wait, and the newest comes.
    for _ in 0..3 {
        plane.order("slow", &[]).await;
    }
    let releasing = by_test();
    let release = plane
        .store
        .release_override("edge", &row.order.id, &releasing);
    release.await.unwrap();
    agent.hears_no_orders(Duration::from_millis(1500)).await;
    agent.obey(&told).await;
    let told = agent.overrides().await;
    assert_eq!((told.generation, lanes(&told)), (5, vec!["slow"; 3]));
    agent.obey(&told).await;

    let hint = Hint::Overrides {
        gateway: "edge".into(),
    };
    let given = Instant::now();
    plane.order("fast", &[]).await;
    plane.live.publish(hint).await.unwrap();
    let told = agent.overrides().await;
    println!("with a hint after {:?}", given.elapsed());
    assert_eq!(lanes(&told), ["slow", "slow", "slow", "fast"]);
    plane.stop().await;
}

#[tokio::test]
async fn agent_of_an_older_release_is_not_told_and_is_known_not_to_understand() {
    let plane = Plane::start().await;
    plane.create("edge").await;
    plane.order("fast", &[]).await;
    let (mut agent, _) = Agent::join(plane.addresses.grpc, hello("edge", "old")).await;
    let push = agent.push().await;
    agent.apply(&push).await;
    plane.order("slow", &[]).await;
    agent.hears_nothing(Duration::from_millis(1500)).await;
    agent.send(FromAgent::Report(report(1, &[]))).await;
    assert_eq!(agent.ack().await.seq, 1, "the session is well");
    let record = plane.record("old").await.unwrap();
    assert!(!record.overrides.understood);
    plane.stop().await;
}
