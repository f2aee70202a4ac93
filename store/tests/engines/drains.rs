//! Agents that are taken out of service.

use lanekeeper_store::{AgentFacts, Error, NewIdentity, Revision};
use serde_json::json;

use crate::stores::{TestStore, change};

on_each_engine! {
    of_the_last_two_agents_one_stays,
    an_agent_that_was_sent_away_stands_in_for_nobody,
    a_drain_stands_until_it_is_taken_back_or_its_agent_is_forgotten,
}

async fn gateway(test: &TestStore) -> Revision {
    test.store
        .create_gateway(
            "edge",
            &json!({ "gateway": "edge" }),
            "h",
            &change("ann", 1),
        )
        .await
        .unwrap()
}

async fn of_the_last_two_agents_one_stays(test: TestStore) {
    gateway(&test).await;
    let replicas = [test.store.clone(), test.another().await];
    let orders: Vec<_> = ["one", "two"]
        .into_iter()
        .zip(replicas)
        .map(|(agent, store)| {
            tokio::spawn(async move {
                let live = ["one", "two"];
                store
                    .drain_agent("edge", agent, &live, &change("ann", 2))
                    .await
            })
        })
        .collect();
    let mut refused = 0;
    for order in orders {
        match order.await.unwrap() {
            Ok(()) => {}
            Err(Error::LastAgent) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 1);
    assert_eq!(test.store.drained_agents().await.unwrap().len(), 1);
    test.store
        .drain_agent("edge", "silent", &["one", "two"], &change("ann", 3))
        .await
        .expect("one that serves nobody may always go");
}

async fn a_drain_stands_until_it_is_taken_back_or_its_agent_is_forgotten(test: TestStore) {
    gateway(&test).await;
    let live = ["one", "two"];
    for _ in 0..2 {
        test.store
            .drain_agent("edge", "one", &live, &change("ann", 2))
            .await
            .unwrap();
    }
    assert_eq!(test.store.drained_agents().await.unwrap(), ["one"]);
    assert_eq!(
        test.store.verify_audit().await.unwrap().entries,
        2,
        "the second order changed nothing"
    );
    test.store
        .undrain_agent("one", &change("ann", 3))
        .await
        .unwrap();
    assert!(test.store.drained_agents().await.unwrap().is_empty());
    let again = test.store.undrain_agent("one", &change("ann", 4)).await;
    assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
}

async fn an_agent_that_was_sent_away_stands_in_for_nobody(test: TestStore) {
    gateway(&test).await;
    for id in ["one", "two"] {
        let identity = NewIdentity {
            id: id.to_owned(),
            gateway: "edge".to_owned(),
            name: id.to_owned(),
            expires_ms: 1_000,
        };
        let order = change("ann", 1);
        let enrolled = test
            .store
            .enrol_vouched(&identity, "kubernetes/default/agent", &order);
        enrolled.await.unwrap();
        test.store.record_agent(&joined(id)).await.unwrap();
    }
    let order = change("ann", 2);
    test.store.revoke_identity("two", &order).await.unwrap();
    let drain = |agent| {
        test.store
            .drain_agent("edge", agent, &["one", "two"], &order)
    };
    let refused = drain("one").await;
    assert!(matches!(refused, Err(Error::LastAgent)), "{refused:?}");
    drain("two").await.expect("it serves nobody any more");
}

fn joined(id: &str) -> AgentFacts {
    AgentFacts {
        gateway: "edge".into(),
        instance: id.to_owned(),
        name: id.to_owned(),
        labels: [].into(),
        version: "0.1.0".to_owned(),
        session_epoch: 1,
        applied_revision: 0,
        applied_hash: String::new(),
        config_source: lanekeeper_model::ConfigSource::Live,
        problems: Vec::new(),
        rejected: None,
        first_seen_ms: 1,
        last_seen_ms: 1,
        left_ms: None,
        identity: Some(id.to_owned()),
    }
}
