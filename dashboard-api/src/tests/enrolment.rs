//! Join tokens, identities and authorities through the API.

use super::*;
use lanekeeper_model::enrolment::JoinToken;
use lanekeeper_store::{Authority, Hint, NewIdentity};

const JOIN_TOKENS: &str = "/admin/v1/join-tokens";

async fn add_authority(server: &Server, fingerprint: &str) {
    let authority = Authority {
        generation: 0,
        fingerprint: fingerprint.to_owned(),
        certificate: "pem".to_owned(),
        added_ms: 0,
        expires_ms: u64::MAX / 4,
        retires_ms: None,
    };
    let change = now();
    let added = server.store.add_authority(&authority, 3_600_000, &change);
    assert!(added.await.unwrap());
}

fn now() -> lanekeeper_store::Change {
    lanekeeper_store::Change {
        now_ms: clock::now_ms(),
        ..by_test()
    }
}

/// Lets an agent in with a token, as the control plane does.
async fn join(server: &Server, token: &str, agent: &str) -> bool {
    let token = JoinToken::parse(token).unwrap();
    let identity = NewIdentity {
        id: agent.to_owned(),
        gateway: "edge".to_owned(),
        name: "node-1".to_owned(),
        expires_ms: clock::now_ms() + 60_000,
    };
    let joined = server
        .store
        .enrol_by_token(token.id, token.secret, &identity, clock::now_ms());
    joined.await.unwrap()
}

#[tokio::test]
async fn a_join_token_names_every_authority_and_shows_its_secret_once() {
    let server = Server::start().await;
    server.create_edge().await;
    let (old, new) = ("a".repeat(64), "b".repeat(64));
    add_authority(&server, &old).await;
    add_authority(&server, &new).await;
    let form = json!({"gateway": "edge", "ttl_secs": 60, "max_uses": 2});
    let created = server.send_json(Method::POST, JOIN_TOKENS, &form).await;
    assert_eq!(created.status(), 201);
    let location = created.headers()["location"].to_str().unwrap().to_owned();
    let created: Value = created.json().await.unwrap();
    let whole = created["token"].as_str().unwrap();
    let token = JoinToken::parse(whole).unwrap();
    assert_eq!(location, format!("{JOIN_TOKENS}/{}", token.id));
    assert_eq!(token.secret.len(), 64, "256 bits");
    assert_eq!(token.pins, [&old, &new]);

    assert!(join(&server, whole, "one").await);
    let listed = server.get_json(JOIN_TOKENS).await;
    assert_eq!(listed["join_tokens"][0]["uses"], 1);
    assert!(!listed.to_string().contains(token.secret));
    let trail = server.get_json("/admin/v1/audit").await;
    assert!(!trail.to_string().contains(token.secret));

    let mut hints = server.live.subscribe();
    let path = format!("{location}?agents=true");
    let revoked = server.request(Method::DELETE, &path).send().await.unwrap();
    assert_eq!(revoked.status(), 204);
    assert_eq!(hints.recv().await.unwrap(), Hint::Revocation);
    assert!(!join(&server, whole, "two").await);
    let identities = server.get_json("/admin/v1/identities?gateway=edge").await;
    assert!(
        identities["identities"][0]["revoked_at"].is_string(),
        "{identities}"
    );
    let again = server.request(Method::DELETE, &path).send().await.unwrap();
    problem(again, 404, "not_found").await;
    server.stop().await;
}

#[tokio::test]
async fn an_identity_is_revoked_once_and_an_authority_retired_once() {
    let server = Server::start().await;
    server.create_edge().await;
    let (old, new) = ("a".repeat(64), "b".repeat(64));
    add_authority(&server, &old).await;
    let made = server
        .send_json(Method::POST, JOIN_TOKENS, &json!({"gateway": "edge"}))
        .await;
    let made: Value = made.json().await.unwrap();
    assert_eq!(made["max_uses"], 1);
    assert!(join(&server, made["token"].as_str().unwrap(), "one").await);

    let delete = async |path: &str| {
        let sent = server.request(Method::DELETE, path).send();
        sent.await.unwrap().status().as_u16()
    };
    assert_eq!(delete("/admin/v1/identities/one").await, 204);
    assert_eq!(delete("/admin/v1/identities/one").await, 404);
    let path = format!("/admin/v1/authorities/{old}");
    assert_eq!(delete(&path).await, 404, "the newest stays");
    add_authority(&server, &new).await;
    assert_eq!(delete(&path).await, 204);
    let trusted = server.get_json("/admin/v1/authorities").await;
    let trusted = trusted["authorities"].as_array().unwrap();
    assert_eq!(trusted.len(), 1);
    assert_eq!(trusted[0]["fingerprint"], *new);
    server.stop().await;
}

#[tokio::test]
async fn a_bad_join_token_form_lists_each_field() {
    let server = Server::start().await;
    let bad = json!({"ttl_secs": 0, "max_uses": 0});
    let refused = server.send_json(Method::POST, JOIN_TOKENS, &bad).await;
    let body = problem(refused, 400, "invalid_body").await;
    assert_eq!(pointers(&body), ["/gateway", "/ttl_secs", "/max_uses"]);
    let nowhere = json!({"gateway": "nowhere"});
    let refused = server.send_json(Method::POST, JOIN_TOKENS, &nowhere).await;
    let body = problem(refused, 400, "invalid_body").await;
    assert_eq!(pointers(&body), ["/gateway"]);
    server.stop().await;
}
