//! API tokens.

use lanekeeper_store::{Error, ExposeSecret, NewToken, Principal, Role};

use crate::stores::{TestStore, change};

fn token(name: &str, role: Role, expires_ms: Option<u64>) -> NewToken {
    NewToken {
        name: name.to_owned(),
        role,
        expires_ms,
    }
}

on_each_engine! {
    only_the_whole_token_is_its_owner,
    the_secret_is_not_in_the_database,
    a_token_ends_with_its_time,
    a_revoked_token_ends_on_every_replica,
    the_last_admin_stays,
    an_admin_is_removed_only_while_another_lasts_as_long,
    admins_that_revoke_each_other_leave_one,
    one_of_many_first_starts_gets_the_bootstrap_token,
}

async fn only_the_whole_token_is_its_owner(test: TestStore) {
    let store = &test.store;
    let (row, secret) = store
        .create_token(token("ci", Role::Operator, None), &change("ann", 1))
        .await
        .unwrap();
    let whole = secret.expose_secret().to_owned();
    let expected = Principal {
        id: row.id.clone(),
        name: "ci".to_owned(),
        role: Role::Operator,
        expires_ms: None,
    };
    assert_eq!(store.authenticate(&whole, 2).await.unwrap(), Some(expected));

    let (id, proof) = whole.split_once('.').unwrap();
    assert_eq!((id, proof.len()), (row.id.as_str(), 64));
    let (other, _) = store
        .create_token(token("other", Role::Admin, None), &change("ann", 1))
        .await
        .unwrap();
    let longer = format!("{whole}0");
    let shorter = &whole[..whole.len() - 1];
    let swapped = format!("{}.{proof}", other.id);
    let huge = format!("{id}.{}", "a".repeat(1 << 20));
    for wrong in [
        "",
        ".",
        id,
        proof,
        &longer,
        shorter,
        &swapped,
        &huge,
        "a\0b.c",
        "' OR 1=1 --.x",
    ] {
        assert_eq!(
            store.authenticate(wrong, 2).await.unwrap(),
            None,
            "{wrong:.80}"
        );
    }
    assert!(!format!("{secret:?}").contains(proof));
}

async fn the_secret_is_not_in_the_database(test: TestStore) {
    let (_, secret) = test
        .store
        .create_token(token("ci", Role::Viewer, None), &change("ann", 1))
        .await
        .unwrap();
    let proof = secret.expose_secret().split_once('.').unwrap().1.to_owned();
    // Whoever can read the table cannot use what is there.
    test.tamper(&format!("UPDATE tokens SET secret_hash = '{proof}'"))
        .await;
    assert_eq!(
        test.store
            .authenticate(secret.expose_secret(), 2)
            .await
            .unwrap(),
        None
    );
}

async fn a_token_ends_with_its_time(test: TestStore) {
    let new = token("brief", Role::Viewer, Some(1000));
    let (_, secret) = test
        .store
        .create_token(new, &change("ann", 1))
        .await
        .unwrap();
    assert!(
        test.store
            .authenticate(secret.expose_secret(), 999)
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        test.store
            .authenticate(secret.expose_secret(), 1000)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        test.store.list_tokens().await.unwrap()[0].expires_ms,
        Some(1000)
    );
}

async fn a_revoked_token_ends_on_every_replica(test: TestStore) {
    let replica = test.another().await;
    let (row, secret) = test
        .store
        .create_token(token("ci", Role::Viewer, None), &change("ann", 1))
        .await
        .unwrap();
    assert!(
        replica
            .authenticate(secret.expose_secret(), 2)
            .await
            .unwrap()
            .is_some()
    );
    test.store
        .revoke_token(&row.id, &change("ann", 3))
        .await
        .unwrap();
    assert!(
        replica
            .authenticate(secret.expose_secret(), 4)
            .await
            .unwrap()
            .is_none()
    );
    assert!(replica.list_tokens().await.unwrap().is_empty());
    let again = test
        .store
        .revoke_token(&row.id, &change("ann", 5))
        .await
        .unwrap_err();
    assert!(matches!(again, Error::NotFound { .. }), "{again:?}");
}

async fn the_last_admin_stays(test: TestStore) {
    let store = &test.store;
    let (first, _) = store
        .create_token(token("first", Role::Admin, None), &change("ann", 1))
        .await
        .unwrap();
    store
        .create_token(token("operator", Role::Operator, None), &change("ann", 1))
        .await
        .unwrap();
    store
        .create_token(token("expired", Role::Admin, Some(10)), &change("ann", 1))
        .await
        .unwrap();
    let error = store
        .revoke_token(&first.id, &change("ann", 10))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::LastAdmin), "{error:?}");
    let (second, secret) = store
        .create_token(token("second", Role::Admin, None), &change("ann", 11))
        .await
        .unwrap();
    store
        .revoke_token(&first.id, &change("ann", 12))
        .await
        .unwrap();
    let error = store
        .revoke_token(&second.id, &change("ann", 13))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::LastAdmin), "{error:?}");
    assert!(
        store
            .authenticate(secret.expose_secret(), 14)
            .await
            .unwrap()
            .is_some()
    );
}

async fn an_admin_is_removed_only_while_another_lasts_as_long(test: TestStore) {
    let store = &test.store;
    let make = async |name, expires_ms| {
        store
            .create_token(token(name, Role::Admin, expires_ms), &change("ann", 1))
            .await
            .unwrap()
            .0
            .id
    };
    let revoke = async |id: &str, now_ms| store.revoke_token(id, &change("ann", now_ms)).await;
    let lasting = make("lasting", None).await;
    let brief = make("brief", Some(100)).await;
    // Once the brief one ends nobody could get in again.
    let error = revoke(&lasting, 2).await.unwrap_err();
    assert!(matches!(error, Error::LastAdmin), "{error:?}");
    assert!(error.to_string().contains("does not expire"), "{error}");

    let long = make("long", Some(1000)).await;
    // The long one lives on after the brief one, which may go.
    revoke(&brief, 3).await.unwrap();
    assert!(matches!(
        revoke(&lasting, 4).await.unwrap_err(),
        Error::LastAdmin
    ));
    // One that has ended lets nobody in: removing it takes nothing away.
    revoke(&long, 1001).await.unwrap();
    make("another", None).await;
    revoke(&lasting, 1002).await.unwrap();
}

async fn admins_that_revoke_each_other_leave_one(test: TestStore) {
    let store = &test.store;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d"] {
        ids.push(
            store
                .create_token(token(name, Role::Admin, None), &change("ann", 1))
                .await
                .unwrap()
                .0
                .id,
        );
    }
    let replica = test.another().await;
    let revocations: Vec<_> = ids
        .into_iter()
        .enumerate()
        .map(|(number, id)| {
            let store = if number % 2 == 0 {
                store.clone()
            } else {
                replica.clone()
            };
            tokio::spawn(async move { store.revoke_token(&id, &change("ann", 2)).await })
        })
        .collect();
    let mut refused = 0;
    for revocation in revocations {
        if let Err(error) = revocation.await.unwrap() {
            assert!(matches!(error, Error::LastAdmin), "{error:?}");
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
    assert_eq!(store.list_tokens().await.unwrap().len(), 1);
}

async fn one_of_many_first_starts_gets_the_bootstrap_token(test: TestStore) {
    let replica = test.another().await;
    let starts: Vec<_> = (0..16)
        .map(|number| {
            let store = if number % 2 == 0 {
                test.store.clone()
            } else {
                replica.clone()
            };
            tokio::spawn(async move { store.bootstrap_token(5).await.unwrap() })
        })
        .collect();
    let mut secrets = Vec::new();
    for start in starts {
        secrets.extend(start.await.unwrap());
    }
    assert_eq!(secrets.len(), 1);
    let owner = test
        .store
        .authenticate(secrets[0].expose_secret(), 6)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (owner.name.as_str(), owner.role),
        ("bootstrap", Role::Admin)
    );

    // Neither a restart nor a rotation makes another.
    let (_, _) = test
        .store
        .create_token(token("ann", Role::Admin, None), &change("ann", 7))
        .await
        .unwrap();
    test.store
        .revoke_token(&owner.id, &change("ann", 8))
        .await
        .unwrap();
    assert!(replica.bootstrap_token(9).await.unwrap().is_none());
}
