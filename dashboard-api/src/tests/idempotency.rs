//! Writes whose answer was lost and that are sent again.

use super::*;
use lanekeeper_store::IdempotencyKey;

async fn put(server: &Server, key: &str, etag: &str, document: &Value) -> Response {
    server
        .request(Method::PUT, "/admin/v1/gateways/edge/config")
        .header("if-match", etag)
        .header("idempotency-key", key)
        .json(document)
        .send()
        .await
        .unwrap()
}

fn relabelled(team: &str) -> Value {
    let mut document = edge();
    document["labels"] = json!({ "team": team });
    document
}

#[tokio::test]
async fn a_repeated_write_is_made_once_and_answered_as_the_first_time() {
    let server = Server::start().await;
    server.create_edge().await;
    let document = relabelled("a");
    let first = put(&server, "k-1", "\"1\"", &document).await;
    assert_eq!(first.status(), 200);
    assert_eq!(first.headers().get("idempotency-replayed"), None);
    let first: Value = first.json().await.unwrap();
    assert_eq!(first["revision"], 2);

    let again = put(&server, "k-1", "\"1\"", &document).await;
    assert_eq!(again.status(), 200);
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(again.headers()["etag"], "\"2\"");
    assert_eq!(again.headers()["content-type"], "application/json");
    assert_eq!(again.json::<Value>().await.unwrap(), first);

    let other = put(&server, "k-1", "\"2\"", &relabelled("b")).await;
    problem(other, 422, "idempotency_key_reused").await;
    let without = put(&server, "k-2", "\"1\"", &document).await;
    problem(without, 412, "revision_mismatch").await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_died_before_it_kept_its_answer_still_answers() {
    let server = Server::start().await;
    server.create_edge().await;
    let document = relabelled("a");
    let first: Value = put(&server, "k", "\"1\"", &document)
        .await
        .json()
        .await
        .unwrap();
    // What a death between the commit and the keeping of the answer leaves: another attempt's key
    // stands for the write, without an answer.
    let id = server.admin.split_once('.').unwrap().0;
    let remembered = server.store.remembered(id, "k", clock::now_ms()).await;
    let remembered = remembered.unwrap().unwrap();
    let change = Change {
        actor: "test".to_owned(),
        actor_id: id.to_owned(),
        message: String::new(),
        now_ms: clock::now_ms(),
        idempotency: Some(IdempotencyKey::new("lost", &remembered.fingerprint)),
    };
    let hash = lanekeeper_model::content_hash(&document);
    let written = server
        .store
        .write_revision("edge", Some(2), &document, &hash, &change)
        .await
        .unwrap();
    let again = put(&server, "lost", "\"1\"", &document).await;
    assert_eq!(again.status(), 200);
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    let again: Value = again.json().await.unwrap();
    assert_eq!(again["revision"], written.number);
    assert_eq!(again["hash"], first["hash"]);
    server.stop().await;
}

#[tokio::test]
async fn a_secret_is_in_one_answer_only_and_the_token_is_made_once() {
    let server = Server::start().await;
    let create = async || {
        server
            .request(Method::POST, "/admin/v1/tokens")
            .header("idempotency-key", "once")
            .json(&json!({"name": "ci", "role": "viewer"}))
            .send()
            .await
            .unwrap()
    };
    assert_eq!(create().await.status(), 201);
    let refused = problem(create().await, 409, "already_done").await;
    assert!(refused["detail"].as_str().unwrap().contains("tokens/"));
    let listed = server.get_json("/admin/v1/tokens").await;
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_refused_write_may_be_mended_under_its_key() {
    let server = Server::start().await;
    server.create_edge().await;
    let refused = put(&server, "k", "\"9\"", &relabelled("a")).await;
    problem(refused, 412, "revision_mismatch").await;
    let mended = put(&server, "k", "\"1\"", &relabelled("a")).await;
    assert_eq!(mended.status(), 200);
    server.stop().await;
}

#[tokio::test]
async fn a_deletion_is_repeated_without_a_404() {
    let server = Server::start().await;
    server.create_edge().await;
    for replayed in [false, true] {
        let deleted = server
            .request(Method::DELETE, "/admin/v1/gateways/edge")
            .header("idempotency-key", "gone")
            .send()
            .await
            .unwrap();
        assert_eq!(deleted.status(), 204);
        assert_eq!(
            deleted.headers().contains_key("idempotency-replayed"),
            replayed
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let server = Server::start().await;
    server.create_edge().await;
    for key in ["", " ", &"x".repeat(256)] {
        let refused = put(&server, key, "\"1\"", &relabelled("a")).await;
        problem(refused, 400, "invalid_header").await;
    }
    server.stop().await;
}
