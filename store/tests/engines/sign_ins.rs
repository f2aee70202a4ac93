//! Browsers that are signed in.

use lanekeeper_store::{
    ExposeSecret, NewToken, Principal, Role, SIGN_IN_LIFE, SIGN_INS_MAX, is_sign_in,
};

use crate::stores::{TestStore, change};

on_each_engine! {
    a_sign_in_is_its_tokens_owner_until_it_is_signed_out_on_every_replica,
    a_sign_in_ends_with_its_time_and_with_its_token,
    only_the_whole_text_signs_in_and_out,
    a_token_has_so_many_sign_ins_and_the_oldest_give_way,
}

/// A new token and its owner.
async fn owner(test: &TestStore, role: Role, expires_ms: Option<u64>) -> Principal {
    let new = NewToken {
        name: "ann".to_owned(),
        role,
        expires_ms,
    };
    let (_, token) = test
        .store
        .create_token(new, &change("ops", 1))
        .await
        .unwrap();
    let token = token.expose_secret();
    test.store.authenticate(token, 2).await.unwrap().unwrap()
}

async fn sign_in(test: &TestStore, owner: &Principal, now_ms: u64) -> (String, u64) {
    let (text, end_ms) = test.store.sign_in(owner, now_ms).await.unwrap().unwrap();
    (text.expose_secret().to_owned(), end_ms)
}

async fn a_sign_in_is_its_tokens_owner_until_it_is_signed_out_on_every_replica(test: TestStore) {
    let replica = test.another().await;
    let owner = owner(&test, Role::Operator, None).await;
    let (text, end_ms) = sign_in(&test, &owner, 10).await;
    assert!(is_sign_in(&text));
    assert_eq!(u128::from(end_ms), 10 + SIGN_IN_LIFE.as_millis());
    let expected = Principal {
        expires_ms: Some(end_ms),
        ..owner.clone()
    };
    assert_eq!(replica.signed_in(&text, 11).await.unwrap(), Some(expected));
    // It is no token, and a token is no sign-in.
    assert_eq!(replica.authenticate(&text, 11).await.unwrap(), None);
    let (other, _) = sign_in(&test, &owner, 12).await;

    assert!(test.store.sign_out(&text).await.unwrap());
    assert_eq!(replica.signed_in(&text, 13).await.unwrap(), None);
    assert!(!replica.sign_out(&text).await.unwrap());
    assert!(replica.signed_in(&other, 13).await.unwrap().is_some());
}

async fn a_sign_in_ends_with_its_time_and_with_its_token(test: TestStore) {
    let brief = owner(&test, Role::Viewer, Some(1000)).await;
    let (text, end_ms) = sign_in(&test, &brief, 10).await;
    assert_eq!(end_ms, 1000);
    assert!(test.store.signed_in(&text, 999).await.unwrap().is_some());
    assert!(test.store.signed_in(&text, 1000).await.unwrap().is_none());

    let lasting = owner(&test, Role::Viewer, None).await;
    let (text, _) = sign_in(&test, &lasting, 10).await;
    let by = change("ops", 20);
    test.store.revoke_token(&lasting.id, &by).await.unwrap();
    assert!(test.store.signed_in(&text, 21).await.unwrap().is_none());
    assert!(test.store.sign_in(&lasting, 22).await.unwrap().is_none());
}

async fn only_the_whole_text_signs_in_and_out(test: TestStore) {
    let owner = owner(&test, Role::Admin, None).await;
    let (text, _) = sign_in(&test, &owner, 10).await;
    let (id, secret) = text.strip_prefix("s.").unwrap().split_once('.').unwrap();
    assert_eq!(secret.len(), 64);
    let huge = format!("s.{id}.{}", "a".repeat(1 << 20));
    let other = format!("s.{id}.{}", "0".repeat(64));
    let bare = format!("{id}.{secret}");
    for wrong in [
        "",
        "s.",
        "s..",
        &bare,
        &other,
        &huge,
        "s.a\0.b",
        "s.' OR 1=1 --.x",
    ] {
        assert!(
            test.store.signed_in(wrong, 11).await.unwrap().is_none(),
            "{wrong:.80}"
        );
        assert!(!test.store.sign_out(wrong).await.unwrap(), "{wrong:.80}");
    }
    // Whoever can read the table cannot use what is there.
    test.tamper(&format!("UPDATE sign_ins SET secret_hash = '{secret}'"))
        .await;
    assert!(test.store.signed_in(&text, 11).await.unwrap().is_none());
}

async fn a_token_has_so_many_sign_ins_and_the_oldest_give_way(test: TestStore) {
    let (owner, other) = (
        owner(&test, Role::Viewer, None).await,
        owner(&test, Role::Viewer, None).await,
    );
    let (others, _) = sign_in(&test, &other, 1).await;
    let mut texts = Vec::new();
    for number in 0..u64::from(SIGN_INS_MAX) + 2 {
        texts.push(sign_in(&test, &owner, 10 + number).await.0);
    }
    let mut lasting = Vec::new();
    for text in &texts {
        lasting.push(test.store.signed_in(text, 100).await.unwrap().is_some());
    }
    assert_eq!(lasting[..3], [false, false, true]);
    assert!(lasting[2..].iter().all(|lasts| *lasts));
    assert!(test.store.signed_in(&others, 100).await.unwrap().is_some());
}
