//! Agents that are taken out of service.

use lanekeeper_store::{Error, Revision};
use serde_json::json;

use crate::stores::{TestStore, change};

on_each_engine! {
    of_the_last_two_agents_one_stays,
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
