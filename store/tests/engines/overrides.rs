//! Operators' orders.

use lanekeeper_model::OverrideAction;
use lanekeeper_store::{Error, NewOverride, OVERRIDES_STANDING_MAX, OverrideRow};
use serde_json::json;

use crate::stores::{TestStore, change};

on_each_engine! {
    an_order_stands_until_its_end_and_is_told_to_every_replica,
    an_order_is_released_once_and_each_change_is_audited,
    of_writers_that_saw_the_same_orders_one_wins,
    orders_are_paged_latest_first_and_forgotten_after_their_end,
    a_gateway_that_goes_takes_its_orders_along,
    there_are_only_so_many_orders_at_a_time,
    override_of_a_provider_is_read_as_it_was_given,
}

fn order(lane: &str, expires_ms: u64) -> NewOverride {
    NewOverride {
        action: OverrideAction::ForceOpen,
        pool: Some("chat".into()),
        lane: lane.into(),
        provider: None,
        agents: [("zone".to_owned(), "b".to_owned())].into(),
        reason: "billing is broken".to_owned(),
        expires_ms,
    }
}

async fn with_gateway(test: &TestStore) {
    let document = json!({ "gateway": "edge" });
    test.store
        .create_gateway("edge", &document, "h1", &change("ann", 1))
        .await
        .unwrap();
}

async fn give(test: &TestStore, lane: &str, expires_ms: u64, now_ms: u64) -> OverrideRow {
    let seen = test.store.standing_overrides("edge", now_ms).await.unwrap();
    test.store
        .create_override(
            "edge",
            &order(lane, expires_ms),
            seen.generation,
            &change("ann", now_ms),
        )
        .await
        .unwrap()
        .unwrap()
}

async fn override_of_a_provider_is_read_as_it_was_given(test: TestStore) {
    with_gateway(&test).await;
    let new = NewOverride {
        pool: None,
        lane: "".into(),
        provider: Some("east".into()),
        ..order("", 100)
    };
    let created = test
        .store
        .create_override("edge", &new, 0, &change("ann", 10))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(created.order.provider, Some("east".into()));
    let read = test.store.standing_overrides("edge", 20).await.unwrap();
    assert_eq!(read.rows, std::slice::from_ref(&created));
    let given = test.store.override_of("edge", &created.order.id).await;
    assert_eq!(given.unwrap(), Some(created));
}

fn lanes(rows: &[OverrideRow]) -> Vec<&str> {
    rows.iter().map(|row| row.order.lane.as_str()).collect()
}

async fn an_order_stands_until_its_end_and_is_told_to_every_replica(test: TestStore) {
    with_gateway(&test).await;
    let other = test.another().await;
    assert!(other.override_generations().await.unwrap().is_empty());
    let row = give(&test, "fast", 100, 10).await;
    assert_eq!((row.order.number, row.created_ms), (1, 10));
    assert_eq!((row.actor.as_str(), row.released_ms), ("ann", None));
    assert_eq!(
        other.override_generations().await.unwrap(),
        [("edge".to_owned(), 1)].into()
    );
    let standing = other.standing_overrides("edge", 99).await.unwrap();
    assert_eq!(standing.generation, 1);
    assert_eq!(standing.rows, std::slice::from_ref(&row));
    let all = other.all_standing_overrides(99).await.unwrap();
    assert_eq!(all, std::slice::from_ref(&row));
    assert!(other.all_standing_overrides(100).await.unwrap().is_empty());
    assert!(
        other
            .standing_overrides("edge", 100)
            .await
            .unwrap()
            .rows
            .is_empty()
    );
    let read = other.override_of("edge", &row.order.id).await.unwrap();
    assert_eq!(read, Some(row.clone()));
    assert_eq!(
        other.override_of("core", &row.order.id).await.unwrap(),
        None,
        "an order is found under its own gateway only"
    );
    let missing = test
        .store
        .create_override("none", &order("fast", 100), 0, &change("ann", 1))
        .await
        .unwrap_err();
    assert!(
        matches!(
            &missing,
            Error::NotFound {
                kind: "gateway",
                ..
            }
        ),
        "{missing:?}"
    );
}

async fn an_order_is_released_once_and_each_change_is_audited(test: TestStore) {
    with_gateway(&test).await;
    let row = give(&test, "fast", 100, 10).await;
    let id = &row.order.id;
    let release = |now_ms| {
        let change = change("bob", now_ms);
        let store = test.store.clone();
        async move { store.release_override("edge", id, &change).await }
    };
    assert_eq!(release(20).await.unwrap().released_ms, Some(20));
    assert_eq!(release(30).await.unwrap().released_ms, Some(20));
    assert_eq!(
        test.store
            .standing_overrides("edge", 20)
            .await
            .unwrap()
            .generation,
        2
    );
    let unknown = test
        .store
        .release_override("edge", "none", &change("bob", 40))
        .await
        .unwrap_err();
    assert!(matches!(unknown, Error::NotFound { .. }), "{unknown:?}");
    let entries = test.store.audit(None, 10).await.unwrap();
    let told: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| (entry.action.as_str(), entry.resource.as_str()))
        .collect();
    let resource = format!("gateways/edge/overrides/{id}");
    assert_eq!(
        told,
        [
            ("gateway.create", "gateways/edge"),
            ("override.create", resource.as_str()),
            ("override.release", resource.as_str()),
        ]
    );
    assert_eq!(
        entries[1].after.as_ref().unwrap()["reason"],
        "billing is broken"
    );
    assert_eq!(test.store.verify_audit().await.unwrap().fault, None);
}

async fn of_writers_that_saw_the_same_orders_one_wins(test: TestStore) {
    with_gateway(&test).await;
    for seen in [0, 1] {
        let seen = if seen == 0 {
            0
        } else {
            test.store
                .standing_overrides("edge", 1)
                .await
                .unwrap()
                .generation
        };
        let replicas = [test.store.clone(), test.another().await];
        let writers: Vec<_> = (0..10)
            .map(|writer| {
                let store = replicas[writer % 2].clone();
                tokio::spawn(async move {
                    store
                        .create_override("edge", &order("fast", 100), seen, &change("bob", 2))
                        .await
                        .unwrap()
                })
            })
            .collect();
        let mut won = 0;
        for writer in writers {
            won += u32::from(writer.await.unwrap().is_some());
        }
        assert_eq!(won, 1);
    }
    assert_eq!(
        test.store
            .standing_overrides("edge", 2)
            .await
            .unwrap()
            .rows
            .len(),
        2
    );
}

async fn orders_are_paged_latest_first_and_forgotten_after_their_end(test: TestStore) {
    with_gateway(&test).await;
    for (lane, expires_ms) in [("a", 20), ("b", 300), ("c", 300)] {
        give(&test, lane, expires_ms, 10).await;
    }
    let store = &test.store;
    let page = store.overrides("edge", None, None, 2).await.unwrap();
    assert_eq!(lanes(&page), ["c", "b"]);
    let before = Some(page[1].order.number);
    let next = store.overrides("edge", before, None, 2).await.unwrap();
    assert_eq!(lanes(&next), ["a"]);
    let standing = store.overrides("edge", None, Some(30), 9).await.unwrap();
    assert_eq!(lanes(&standing), ["c", "b"]);
    assert_eq!(store.prune_overrides(21).await.unwrap(), 1);
    let left = store.overrides("edge", None, None, 9).await.unwrap();
    assert_eq!(lanes(&left), ["c", "b"]);
}

async fn a_gateway_that_goes_takes_its_orders_along(test: TestStore) {
    with_gateway(&test).await;
    let row = give(&test, "fast", 1_000, 10).await;
    test.store
        .delete_gateway("edge", None, &change("ann", 20))
        .await
        .unwrap();
    let standing = test.store.standing_overrides("edge", 20).await.unwrap();
    assert_eq!((standing.generation, standing.rows), (2, Vec::new()));
    with_gateway(&test).await;
    let read = test
        .store
        .override_of("edge", &row.order.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.released_ms, Some(20), "a namesake does not inherit it");
}

async fn there_are_only_so_many_orders_at_a_time(test: TestStore) {
    with_gateway(&test).await;
    for seen in 0..u64::from(OVERRIDES_STANDING_MAX) {
        let given = test
            .store
            .create_override("edge", &order("fast", 100), seen, &change("ann", 10))
            .await
            .unwrap();
        assert!(given.is_some());
    }
    let seen = u64::from(OVERRIDES_STANDING_MAX);
    let one_more = |now_ms| {
        let change = change("ann", now_ms);
        let store = test.store.clone();
        async move {
            store
                .create_override("edge", &order("fast", 900), seen, &change)
                .await
        }
    };
    let full = one_more(10).await.unwrap_err();
    assert!(matches!(full, Error::Full { max: 1000, .. }), "{full:?}");
    assert!(
        one_more(100).await.unwrap().is_some(),
        "the others are over"
    );
}
