//! Writes that are sent twice.

use lanekeeper_store::{Change, Error, IDEMPOTENCY_TTL_MS, IdempotencyKey};
use serde_json::json;

use crate::stores::{TestStore, change};

on_each_engine! {
    of_repetitions_at_the_same_time_one_is_made,
    a_key_is_remembered_for_a_day_and_by_its_owner_only,
    an_answer_is_kept_for_the_attempt_that_made_the_change,
    a_refused_change_leaves_its_key_free,
}

fn keyed(key: &IdempotencyKey, now_ms: u64) -> Change {
    Change {
        actor_id: "token-1".to_owned(),
        idempotency: Some(key.clone()),
        ..change("ann", now_ms)
    }
}

async fn of_repetitions_at_the_same_time_one_is_made(test: TestStore) {
    let document = json!({ "gateway": "edge" });
    test.store
        .create_gateway("edge", &document, "h", &change("ann", 1))
        .await
        .unwrap();
    let replicas = [test.store.clone(), test.another().await];
    let attempts: Vec<_> = (0..20)
        .map(|attempt| {
            let store = replicas[attempt % 2].clone();
            let document = document.clone();
            tokio::spawn(async move {
                let change = keyed(&IdempotencyKey::new("k", "f"), 2);
                store
                    .write_revision("edge", None, &document, "h", &change)
                    .await
            })
        })
        .collect();
    let mut made = 0;
    for attempt in attempts {
        match attempt.await.unwrap() {
            Ok(revision) => {
                assert_eq!(revision.number, 2);
                made += 1;
            }
            Err(Error::AlreadyDone) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(made, 1);
    let current = test.store.current("edge").await.unwrap().unwrap();
    assert_eq!(current.number, 2, "a repetition spent a number");
    assert_eq!(test.store.verify_audit().await.unwrap().entries, 2);
}

async fn a_key_is_remembered_for_a_day_and_by_its_owner_only(test: TestStore) {
    let key = IdempotencyKey::new("k", "f");
    let document = json!({ "gateway": "edge" });
    test.store
        .create_gateway("edge", &document, "h", &keyed(&key, 1000))
        .await
        .unwrap();
    let at =
        async |actor: &str, now_ms: u64| test.store.remembered(actor, "k", now_ms).await.unwrap();
    let remembered = at("token-1", 1000 + IDEMPOTENCY_TTL_MS).await.unwrap();
    assert_eq!(remembered.fingerprint, "f");
    assert_eq!(remembered.answer, None);
    assert_eq!(remembered.entry.action, "gateway.create");
    assert_eq!(at("token-1", 1001 + IDEMPOTENCY_TTL_MS).await, None);
    assert_eq!(at("token-2", 1000).await, None);

    let late = keyed(&IdempotencyKey::new("k", "f"), 1001 + IDEMPOTENCY_TTL_MS);
    test.store
        .write_revision("edge", None, &document, "h", &late)
        .await
        .unwrap();
}

async fn an_answer_is_kept_for_the_attempt_that_made_the_change(test: TestStore) {
    let first = IdempotencyKey::new("k", "f");
    let document = json!({ "gateway": "edge" });
    test.store
        .create_gateway("edge", &document, "h", &keyed(&first, 1))
        .await
        .unwrap();
    let answer = async || {
        let remembered = test.store.remembered("token-1", "k", 1).await.unwrap();
        remembered.unwrap().answer
    };
    let other = IdempotencyKey::new("k", "f");
    test.store
        .keep_answer("token-1", &other, "wrong")
        .await
        .unwrap();
    assert_eq!(answer().await, None);
    test.store
        .keep_answer("token-1", &first, "right")
        .await
        .unwrap();
    assert_eq!(answer().await.as_deref(), Some("right"));
}

async fn a_refused_change_leaves_its_key_free(test: TestStore) {
    let document = json!({ "gateway": "edge" });
    let key = IdempotencyKey::new("k", "f");
    let absent = test
        .store
        .write_revision("edge", None, &document, "h", &keyed(&key, 1))
        .await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    assert_eq!(
        test.store.remembered("token-1", "k", 1).await.unwrap(),
        None
    );
    test.store
        .create_gateway(
            "edge",
            &document,
            "h",
            &keyed(&IdempotencyKey::new("k", "g"), 1),
        )
        .await
        .unwrap();
}
