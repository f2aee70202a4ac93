//! Join tokens, identities and authorities.

use lanekeeper_store::{
    Authority, Error, ExposeSecret, Identity, NewIdentity, NewJoinToken, Renewal,
};

use crate::stores::{TestStore, change};

on_each_engine! {
    a_token_is_used_as_often_as_it_may_be_whoever_asks_at_once,
    the_secret_of_a_join_token_is_not_in_the_database,
    a_token_ends_with_its_time_its_revocation_and_its_last_use,
    revoked_identities_are_told_while_their_certificates_last,
    an_identity_stays_with_its_gateway_and_its_origin,
    authorities_retire_one_after_the_other,
    what_is_over_is_forgotten_and_revocations_last_longer,
}

fn token(gateway: &str, max_uses: u64, expires_ms: u64) -> NewJoinToken {
    NewJoinToken {
        gateway: gateway.to_owned(),
        expires_ms,
        max_uses,
    }
}

fn identity(id: &str, gateway: &str, expires_ms: u64) -> NewIdentity {
    NewIdentity {
        id: id.to_owned(),
        gateway: gateway.to_owned(),
        name: format!("node-{id}"),
        expires_ms,
    }
}

/// A token's id and secret.
async fn made(test: &TestStore, token: NewJoinToken) -> (String, String) {
    let made = test.store.create_join_token(token, &change("ann", 1)).await;
    let (row, whole) = made.unwrap();
    let (id, secret) = whole.expose_secret().split_once('.').unwrap();
    assert_eq!((id, secret.len()), (row.id.as_str(), 64));
    (id.to_owned(), secret.to_owned())
}

async fn a_token_is_used_as_often_as_it_may_be_whoever_asks_at_once(test: TestStore) {
    let (id, secret) = made(&test, token("edge", 3, 1000)).await;
    let mut attempts = tokio::task::JoinSet::new();
    for number in 0..12 {
        let (store, id, secret) = (test.another().await, id.clone(), secret.clone());
        attempts.spawn(async move {
            let identity = identity(&number.to_string(), "edge", 500);
            store.enrol_by_token(&id, &secret, &identity, 10).await
        });
    }
    let answers = attempts.join_all().await;
    let granted = answers.into_iter().filter(|it| *it.as_ref().unwrap());
    assert_eq!(granted.count(), 3);
    let listed = test.store.list_join_tokens(10).await.unwrap();
    assert_eq!((listed[0].uses, listed[0].max_uses), (3, 3));
    let known = test.store.identities(Some("edge"), 10).await.unwrap();
    assert_eq!(known.len(), 3);
    // One that was let in may ask again, for its answer may have been lost.
    let again = identity(&known[0].id, "edge", 700);
    let store = &test.store;
    assert!(
        store
            .enrol_by_token(&id, &secret, &again, 20)
            .await
            .unwrap()
    );
    let trail = store.audit_latest(None, 50).await.unwrap();
    let joins = trail.iter().filter(|it| it.action == "agent.enrol");
    assert_eq!(joins.count(), 4);
}

async fn the_secret_of_a_join_token_is_not_in_the_database(test: TestStore) {
    let (id, secret) = made(&test, token("edge", 1, 1000)).await;
    let shown = format!("{:?}", test.store.audit_latest(None, 50).await.unwrap());
    assert!(shown.contains(&id) && !shown.contains(&secret));
    let shown = format!("{:?}", test.store.list_join_tokens(1).await.unwrap());
    assert!(!shown.contains(&secret));
}

async fn a_token_ends_with_its_time_its_revocation_and_its_last_use(test: TestStore) {
    let store = &test.store;
    let enrol = async |id: &str, secret: &str, agent: &str, now_ms| {
        let identity = identity(agent, "edge", 5000);
        store
            .enrol_by_token(id, secret, &identity, now_ms)
            .await
            .unwrap()
    };
    let (id, secret) = made(&test, token("edge", 9, 1000)).await;
    assert!(enrol(&id, &secret, "a", 999).await);
    assert!(!enrol(&id, &secret, "b", 1000).await, "expired");
    assert!(
        !enrol(&id, &secret, "a", 1000).await,
        "expired for a known one too"
    );
    assert!(
        !enrol(&id, &secret[1..], "c", 10).await,
        "part of the secret"
    );
    assert!(!enrol("none", &secret, "c", 10).await, "unknown");
    assert!(!enrol("no\0ne", &secret, "c", 10).await, "unspeakable");

    let changes = store.enrolment_changes().await.unwrap();
    let revoked = store
        .revoke_join_token(&id, false, &change("ann", 20))
        .await;
    assert_eq!(revoked.unwrap(), 0);
    assert!(store.enrolment_changes().await.unwrap() > changes);
    assert!(!enrol(&id, &secret, "d", 30).await, "revoked");
    let again = store.revoke_join_token(&id, true, &change("ann", 40)).await;
    assert!(matches!(again, Err(Error::NotFound { .. })));
    assert!(store.list_join_tokens(40).await.unwrap().is_empty());

    let (id, secret) = made(&test, token("edge", 2, 1000)).await;
    assert!(enrol(&id, &secret, "e", 10).await && enrol(&id, &secret, "f", 10).await);
    assert!(!enrol(&id, &secret, "g", 10).await, "used up");
    let revoked = store.revoke_join_token(&id, true, &change("ann", 50)).await;
    assert_eq!(revoked.unwrap(), 2);
    let mut gone = store.revoked_identities(60).await.unwrap();
    gone.sort();
    assert_eq!(gone, ["e", "f"]);
    let by_ann = change("ann", 1);
    let none = store.create_join_token(token("edge", 0, 1000), &by_ann);
    assert!(matches!(none.await, Err(Error::Invalid { .. })));
}

async fn revoked_identities_are_told_while_their_certificates_last(test: TestStore) {
    let store = &test.store;
    let (id, secret) = made(&test, token("edge", 2, 1000)).await;
    for agent in ["a", "b"] {
        let identity = identity(agent, "edge", 500);
        assert!(
            store
                .enrol_by_token(&id, &secret, &identity, 10)
                .await
                .unwrap()
        );
    }
    let renew = async |agent: &str, gateway: &str, now_ms: u64| {
        let renewed = store.renew_identity(agent, gateway, now_ms + 500, now_ms);
        renewed.await.unwrap()
    };
    assert_eq!(renew("a", "edge", 300).await, Renewal::Granted);
    assert_eq!(renew("a", "other", 300).await, Renewal::Refused);
    assert_eq!(renew("none", "edge", 300).await, Renewal::Refused);
    let changes = store.enrolment_changes().await.unwrap();
    store
        .revoke_identity("a", &change("ann", 400))
        .await
        .unwrap();
    assert!(store.enrolment_changes().await.unwrap() > changes);
    assert_eq!(
        test.another().await.revoked_identities(799).await.unwrap(),
        ["a"]
    );
    assert!(store.revoked_identities(800).await.unwrap().is_empty());
    assert_eq!(renew("a", "edge", 450).await, Renewal::Refused);
    let again = store.revoke_identity("a", &change("ann", 500)).await;
    assert!(matches!(again, Err(Error::NotFound { .. })));
    let known: Vec<Identity> = store.identities(None, 450).await.unwrap();
    assert_eq!(known[0].revoked_ms, Some(400));
    assert_eq!(known[0].origin, format!("join-tokens/{id}"));
    assert!(
        store
            .identities(Some("other"), 450)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn an_identity_stays_with_its_gateway_and_its_origin(test: TestStore) {
    let store = &test.store;
    let vouch = async |gateway: &str, origin: &str| {
        let identity = identity("pod", gateway, 500);
        let by_pod = change(origin, 10);
        let vouched = store.enrol_vouched(&identity, origin, &by_pod);
        vouched.await.unwrap()
    };
    assert_eq!(vouch("edge", "kubernetes/a/b").await, Renewal::Granted);
    assert_eq!(vouch("edge", "kubernetes/a/b").await, Renewal::Granted);
    assert_eq!(vouch("other", "kubernetes/a/b").await, Renewal::Refused);
    assert_eq!(vouch("edge", "kubernetes/a/c").await, Renewal::Refused);
    store
        .revoke_identity("pod", &change("ann", 20))
        .await
        .unwrap();
    assert_eq!(vouch("edge", "kubernetes/a/b").await, Renewal::Refused);
}

async fn authorities_retire_one_after_the_other(test: TestStore) {
    let store = &test.store;
    let add = async |name: &str, now_ms| {
        let authority = Authority {
            generation: 0,
            fingerprint: name.to_owned(),
            certificate: format!("pem of {name}"),
            added_ms: 0,
            expires_ms: 10_000,
            retires_ms: None,
        };
        let by_server = change("server", now_ms);
        let added = store.add_authority(&authority, 100, &by_server);
        added.await.unwrap()
    };
    let trusted = async |now_ms| -> Vec<(u64, String, Option<u64>)> {
        let trusted = store.authorities(now_ms).await.unwrap();
        let facts = |it: Authority| (it.generation, it.fingerprint, it.retires_ms);
        trusted.into_iter().map(facts).collect()
    };
    assert!(add("one", 10).await);
    assert!(!add("one", 20).await, "known");
    assert!(add("two", 50).await);
    let (one, two) = (
        (1, "one".to_owned(), Some(150)),
        (2, "two".to_owned(), None),
    );
    assert_eq!(trusted(149).await, [one, two.clone()]);
    assert_eq!(trusted(150).await, [two]);
    assert!(!add("one", 200).await, "does not come back");
    assert!(trusted(10_000).await.is_empty());

    assert!(add("three", 300).await);
    let retire =
        async |name: &str, now_ms| store.retire_authority(name, &change("ann", now_ms)).await;
    assert!(
        matches!(retire("three", 310).await, Err(Error::NotFound { .. })),
        "the newest"
    );
    assert!(matches!(
        retire("none", 310).await,
        Err(Error::NotFound { .. })
    ));
    retire("two", 310).await.unwrap();
    assert_eq!(trusted(310).await, [(3, "three".to_owned(), None)]);
}

async fn what_is_over_is_forgotten_and_revocations_last_longer(test: TestStore) {
    const MONTH_MS: u64 = 30 * 24 * 60 * 60 * 1000;
    let store = &test.store;
    let (id, secret) = made(&test, token("edge", 2, 1000)).await;
    for agent in ["kept", "gone"] {
        let identity = identity(agent, "edge", 500);
        assert!(
            store
                .enrol_by_token(&id, &secret, &identity, 10)
                .await
                .unwrap()
        );
    }
    store
        .revoke_identity("kept", &change("ann", 20))
        .await
        .unwrap();
    assert_eq!(store.prune_identities(499).await.unwrap(), 0);
    assert_eq!(store.prune_identities(500).await.unwrap(), 1);
    assert_eq!(store.prune_identities(499 + MONTH_MS).await.unwrap(), 0);
    assert_eq!(store.prune_identities(500 + MONTH_MS).await.unwrap(), 1);
    assert_eq!(store.prune_join_tokens(1000).await.unwrap(), 0);
    assert_eq!(store.prune_join_tokens(1001).await.unwrap(), 1);
}
