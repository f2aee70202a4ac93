//! The audit trail.

use lanekeeper_store::{AuditOutcome, NewToken, Role};
use serde_json::json;

use crate::stores::{TestStore, change};

/// Three entries: create, write, refuse.
async fn three_entries(test: &TestStore) {
    test.store
        .create_gateway("edge", &json!({}), "h1", &change("ann", 1))
        .await
        .unwrap();
    test.store
        .write_revision("edge", Some(1), &json!({}), "h2", &change("bob", 2))
        .await
        .unwrap();
    test.store
        .record_refused(
            "config.write",
            "gateways/edge",
            "forbidden",
            &change("eve", 3),
        )
        .await
        .unwrap();
}

on_each_engine! {
    every_write_has_one_entry_and_a_refused_one_has_none,
    pages_go_both_ways,
    an_untouched_chain_holds,
    an_edited_entry_is_found,
    an_edited_content_is_found,
    an_entry_with_a_hash_of_its_own_does_not_fit_in,
    a_removed_entry_is_found,
    a_removed_end_is_found,
}

async fn every_write_has_one_entry_and_a_refused_one_has_none(test: TestStore) {
    let store = &test.store;
    three_entries(&test).await;
    store
        .write_revision("edge", Some(1), &json!({}), "h", &change("bob", 4))
        .await
        .unwrap_err();
    store
        .create_gateway("edge", &json!({}), "h", &change("bob", 4))
        .await
        .unwrap_err();
    store
        .delete_gateway("none", None, &change("bob", 4))
        .await
        .unwrap_err();
    let token = NewToken {
        name: "ci".to_owned(),
        role: Role::Admin,
        expires_ms: None,
    };
    let (row, _secret) = store.create_token(token, &change("ann", 5)).await.unwrap();
    store
        .revoke_token(&row.id, &change("ann", 6))
        .await
        .unwrap_err();
    store
        .delete_gateway("edge", None, &change("ann", 7))
        .await
        .unwrap();

    let entries = store.audit(None, 100).await.unwrap();
    let told: Vec<_> = entries
        .iter()
        .map(|e| (e.seq, e.actor.as_str(), e.action.as_str(), e.at_ms))
        .collect();
    assert_eq!(
        told,
        [
            (1, "ann", "gateway.create", 1),
            (2, "bob", "config.write", 2),
            (3, "eve", "config.write", 3),
            (4, "ann", "token.create", 5),
            (5, "ann", "gateway.delete", 7),
        ]
    );
    assert_eq!(
        entries[1].before,
        Some(json!({ "revision": 1, "hash": "h1" }))
    );
    assert_eq!(
        entries[1].after,
        Some(json!({ "revision": 2, "hash": "h2" }))
    );
    assert_eq!(
        (entries[1].resource.as_str(), entries[1].message.as_str()),
        ("gateways/edge", "because")
    );
    assert_eq!(entries[2].outcome, AuditOutcome::Refused);
    assert_eq!(entries[3].resource, format!("tokens/{}", row.id));
}

async fn pages_go_both_ways(test: TestStore) {
    three_entries(&test).await;
    let positions = |entries: Vec<lanekeeper_store::AuditEntry>| {
        entries.iter().map(|e| e.seq).collect::<Vec<_>>()
    };
    assert_eq!(positions(test.store.audit(Some(1), 1).await.unwrap()), [2]);
    assert_eq!(
        positions(test.store.audit_latest(None, 2).await.unwrap()),
        [3, 2]
    );
    assert_eq!(
        positions(test.store.audit_latest(Some(2), 2).await.unwrap()),
        [1]
    );
}

async fn an_untouched_chain_holds(test: TestStore) {
    let empty = test.store.verify_audit().await.unwrap();
    assert_eq!((empty.entries, empty.fault), (0, None));
    three_entries(&test).await;
    let verdict = test.store.verify_audit().await.unwrap();
    assert_eq!((verdict.entries, verdict.fault), (3, None));
}

async fn an_edited_entry_is_found(test: TestStore) {
    three_entries(&test).await;
    test.tamper("UPDATE audit SET actor = 'mallory' WHERE seq = 2")
        .await;
    assert_eq!(
        test.store.verify_audit().await.unwrap().fault,
        Some((2, "was changed"))
    );
}

async fn an_edited_content_is_found(test: TestStore) {
    three_entries(&test).await;
    test.tamper("UPDATE audit SET after_json = NULL WHERE seq = 1")
        .await;
    assert_eq!(
        test.store.verify_audit().await.unwrap().fault,
        Some((1, "was changed"))
    );
}

async fn an_entry_with_a_hash_of_its_own_does_not_fit_in(test: TestStore) {
    three_entries(&test).await;
    test.tamper("UPDATE audit SET prev_hash = hash WHERE seq = 2")
        .await;
    assert_eq!(
        test.store.verify_audit().await.unwrap().fault,
        Some((2, "does not follow the entry before"))
    );
}

async fn a_removed_entry_is_found(test: TestStore) {
    three_entries(&test).await;
    test.tamper("DELETE FROM audit WHERE seq = 2").await;
    assert_eq!(
        test.store.verify_audit().await.unwrap().fault,
        Some((2, "entry is missing"))
    );
}

async fn a_removed_end_is_found(test: TestStore) {
    three_entries(&test).await;
    test.tamper("DELETE FROM audit WHERE seq = 3").await;
    assert_eq!(
        test.store.verify_audit().await.unwrap().fault,
        Some((3, "entry is missing"))
    );
    test.tamper("UPDATE audit_head SET seq = 2").await;
    assert_eq!(
        test.store.verify_audit().await.unwrap().fault,
        Some((2, "the head has another hash"))
    );
}
