//! Gateways and revisions.

use lanekeeper_store::Error;
use serde_json::json;

use crate::stores::{TestStore, change};

on_each_engine! {
    concurrent_writers_lose_nothing_and_leave_no_gap,
    of_writers_that_saw_the_same_revision_one_wins,
    a_gateway_created_again_continues_its_numbers,
    a_name_is_taken_once,
    lists_are_paged_in_order,
    writers_that_go_away_leave_no_lock_and_no_half_write,
    what_one_engine_cannot_hold_is_refused_by_both,
    the_epoch_stays_until_it_is_renewed,
}

async fn concurrent_writers_lose_nothing_and_leave_no_gap(test: TestStore) {
    const WRITERS: u64 = 200;
    let document = json!({ "gateway": "edge" });
    test.store
        .create_gateway("edge", &document, "h1", &change("ann", 1))
        .await
        .unwrap();
    let replicas = [test.store.clone(), test.another().await];
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = replicas[usize::try_from(writer).unwrap() % 2].clone();
            tokio::spawn(async move {
                let document = json!({ "gateway": "edge", "writer": writer });
                let revision = store
                    .write_revision("edge", None, &document, "h", &change("bob", 2))
                    .await
                    .unwrap();
                (revision.number, writer)
            })
        })
        .collect();
    let mut written = Vec::new();
    for writer in writers {
        written.push(writer.await.unwrap());
    }
    written.sort_unstable();
    let numbers: Vec<u64> = written.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (2..=WRITERS + 1).collect::<Vec<_>>());
    for (number, writer) in written {
        let revision = test.store.revision("edge", number).await.unwrap().unwrap();
        assert_eq!(revision.document["writer"], writer);
        assert_eq!(revision.parent, Some(number - 1));
    }
    assert_eq!(
        test.store.current("edge").await.unwrap().unwrap().number,
        WRITERS + 1
    );
    let verdict = test.store.verify_audit().await.unwrap();
    assert_eq!((verdict.entries, verdict.fault), (WRITERS + 1, None));
}

async fn of_writers_that_saw_the_same_revision_one_wins(test: TestStore) {
    let document = json!({});
    test.store
        .create_gateway("edge", &document, "h1", &change("ann", 1))
        .await
        .unwrap();
    let writers: Vec<_> = (0..20)
        .map(|_| {
            let store = test.store.clone();
            tokio::spawn(async move {
                store
                    .write_revision("edge", Some(1), &json!({}), "h2", &change("bob", 2))
                    .await
            })
        })
        .collect();
    let mut won = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(revision) => {
                assert_eq!(revision.number, 2);
                won += 1;
            }
            Err(error) => assert!(matches!(error, Error::Conflict { current: 2 }), "{error:?}"),
        }
    }
    assert_eq!(won, 1);
    // Refused writes draw no number: the next one follows directly.
    let next = test
        .store
        .write_revision("edge", Some(2), &document, "h3", &change("bob", 3))
        .await
        .unwrap();
    assert_eq!(next.number, 3);
}

async fn a_gateway_created_again_continues_its_numbers(test: TestStore) {
    let store = &test.store;
    store
        .create_gateway("edge", &json!({ "first": true }), "h1", &change("ann", 1))
        .await
        .unwrap();
    store
        .write_revision("edge", None, &json!({}), "h2", &change("ann", 2))
        .await
        .unwrap();
    let stale = store
        .delete_gateway("edge", Some(1), &change("ann", 3))
        .await
        .unwrap_err();
    assert!(matches!(stale, Error::Conflict { current: 2 }), "{stale:?}");
    store
        .delete_gateway("edge", Some(2), &change("ann", 3))
        .await
        .unwrap();

    assert_eq!(store.current("edge").await.unwrap(), None);
    assert_eq!(store.revision("edge", 1).await.unwrap(), None);
    assert!(store.heads().await.unwrap().is_empty());
    let write = store
        .write_revision("edge", None, &json!({}), "h", &change("ann", 4))
        .await
        .unwrap_err();
    assert!(matches!(write, Error::NotFound { .. }), "{write:?}");
    let delete = store
        .delete_gateway("edge", None, &change("ann", 4))
        .await
        .unwrap_err();
    assert!(matches!(delete, Error::NotFound { .. }), "{delete:?}");

    let again = store
        .create_gateway("edge", &json!({}), "h3", &change("ann", 5))
        .await
        .unwrap();
    assert_eq!((again.number, again.parent), (3, None));
    // An accident can be undone: the old documents are there again.
    let first = store.revision("edge", 1).await.unwrap().unwrap();
    assert_eq!(first.document, json!({ "first": true }));
}

async fn a_name_is_taken_once(test: TestStore) {
    test.store
        .create_gateway("edge", &json!({}), "h1", &change("ann", 1))
        .await
        .unwrap();
    let error = test
        .store
        .create_gateway("edge", &json!({}), "h", &change("bob", 2))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Exists { id, .. } if id == "edge"),
        "{error:?}"
    );
    let next = test
        .store
        .write_revision("edge", Some(1), &json!({}), "h2", &change("ann", 3))
        .await
        .unwrap();
    assert_eq!(next.number, 2);
}

async fn lists_are_paged_in_order(test: TestStore) {
    let store = &test.store;
    for (number, name) in ["c", "a", "b"].iter().enumerate() {
        let document = json!({ "gateway": name, "labels": { "team": name, "odd": 1 } });
        store
            .create_gateway(name, &document, "h1", &change("ann", 10 + number as u64))
            .await
            .unwrap();
    }
    store
        .write_revision("b", None, &json!({}), "h2", &change("ann", 20))
        .await
        .unwrap();
    let names = |rows: Vec<lanekeeper_store::GatewayRow>| {
        rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(
        names(store.list_gateways(None, 2).await.unwrap()),
        ["a", "b"]
    );
    assert_eq!(
        names(store.list_gateways(Some("b"), 2).await.unwrap()),
        ["c"]
    );
    let first = store.list_gateways(None, 1).await.unwrap().remove(0);
    assert_eq!(store.gateway("a").await.unwrap().as_ref(), Some(&first));
    assert_eq!(store.gateway("none").await.unwrap(), None);
    assert_eq!(
        (first.revision, first.created_ms, first.updated_ms),
        (1, 11, 11)
    );
    assert_eq!(
        first.labels.into_iter().collect::<Vec<_>>(),
        [("team".to_owned(), "a".to_owned())]
    );
    let heads = store.heads().await.unwrap();
    assert_eq!(heads[1], ("b".to_owned(), 2, "h2".to_owned()));
    let numbers = |revisions: Vec<lanekeeper_store::Revision>| {
        revisions
            .into_iter()
            .map(|revision| revision.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        numbers(store.revisions("b", None, 10).await.unwrap()),
        [2, 1]
    );
    assert_eq!(
        numbers(store.revisions("b", Some(2), 10).await.unwrap()),
        [1]
    );
    assert!(store.revisions("none", None, 10).await.unwrap().is_empty());
}

async fn writers_that_go_away_leave_no_lock_and_no_half_write(test: TestStore) {
    test.store
        .create_gateway("edge", &json!({}), "h1", &change("ann", 1))
        .await
        .unwrap();
    for patience in 0..60 {
        let store = test.store.clone();
        let writer = tokio::spawn(async move {
            store
                .write_revision("edge", None, &json!({}), "h", &change("bob", 2))
                .await
        });
        for _ in 0..patience {
            tokio::task::yield_now().await;
        }
        writer.abort();
    }
    let last = test
        .store
        .write_revision("edge", None, &json!({}), "h", &change("ann", 3))
        .await
        .unwrap();
    let numbers: Vec<u64> = test
        .store
        .revisions("edge", None, 500)
        .await
        .unwrap()
        .iter()
        .map(|r| r.number)
        .collect();
    assert_eq!(numbers, (1..=last.number).rev().collect::<Vec<_>>());
    let verdict = test.store.verify_audit().await.unwrap();
    assert_eq!((verdict.entries, verdict.fault), (last.number, None));
}

async fn what_one_engine_cannot_hold_is_refused_by_both(test: TestStore) {
    let error = test
        .store
        .create_gateway("edge", &json!({}), "h", &change("a\0b", 1))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Invalid { field: "actor", .. }),
        "{error:?}"
    );
    // Inside a document it is escaped, and survives.
    let document = json!({ "odd": "a\0b \u{1F6E3} \"'; DROP TABLE gateways; --" });
    test.store
        .create_gateway("edge", &document, "h", &change("ann", 1))
        .await
        .unwrap();
    assert_eq!(
        test.store.current("edge").await.unwrap().unwrap().document,
        document
    );
}

async fn the_epoch_stays_until_it_is_renewed(test: TestStore) {
    let epoch = test.store.control_epoch().await.unwrap();
    assert_eq!(test.another().await.control_epoch().await.unwrap(), epoch);
    let renewed = test
        .store
        .renew_control_epoch(&change("ann", 1))
        .await
        .unwrap();
    assert_ne!(renewed, epoch);
    assert_eq!(test.store.control_epoch().await.unwrap(), renewed);
    test.store.ping().await.unwrap();
}
