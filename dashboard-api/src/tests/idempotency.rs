//! Writes whose answer was lost and that are sent again.

use super::*;
use lanekeeper_store::{AuditEntry, AuditOutcome, IdempotencyKey};
use std::collections::BTreeSet;

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

/// Writes of every kind, each sent twice under a key of its own.
struct Repeats {
    server: Server,
    /// Method and route of those that were sent.
    sent: BTreeSet<String>,
}

impl Repeats {
    /// Changes that were made so far.
    async fn made(&self) -> usize {
        let entries = self.server.store.audit_latest(None, 250).await.unwrap();
        let is_made = |entry: &&AuditEntry| entry.outcome == AuditOutcome::Done;
        entries.iter().filter(is_made).count()
    }

    /// Sends a write twice; the body of its answer. `names` stand for the route's parameters.
    async fn twice(
        &mut self,
        method: Method,
        route: &str,
        names: &[(&str, &str)],
        body: Value,
    ) -> Value {
        let case = format!("{method} {route}");
        let path = names.iter().fold(route.to_owned(), |path, (name, value)| {
            path.replace(&format!("{{{name}}}"), value)
        });
        let send = async || {
            let mut request = self.server.request(method.clone(), &path);
            request = request.header("idempotency-key", &case);
            if !body.is_null() {
                request = request.header("if-match", "*").json(&body);
            } else if route.contains("{section}") {
                request = request.header("if-match", "*");
            }
            request.send().await.unwrap()
        };
        let before = self.made().await;
        let first = send().await;
        let status = first.status();
        let text = first.text().await.unwrap();
        assert!(status.is_success(), "{case}: {text}");
        let again = send().await;
        if text.contains("\"token\":") {
            problem(again, 409, "already_done").await;
        } else {
            assert_eq!(again.status(), status, "{case}");
            assert_eq!(again.headers()["idempotency-replayed"], "true", "{case}");
            assert_eq!(again.text().await.unwrap(), text, "{case}");
        }
        assert_eq!(
            self.made().await,
            before + 1,
            "{case}: made and audited once"
        );
        self.sent.insert(case);
        serde_json::from_str(&text).unwrap_or_default()
    }
}

#[tokio::test]
async fn every_write_of_the_api_is_made_once_however_often_it_is_sent() {
    const GATEWAY: &str = "/admin/v1/gateways/{gateway}";
    let server = Server::start().await;
    server.create_edge().await;
    for name in ["node-1", "node-2"] {
        let record = agent(name);
        server.report(&record).await;
        server.store.record_agent(&facts(&record)).await.unwrap();
    }
    let both = |view: &Value| view["agents"].as_array().unwrap().len() == 2;
    server.eventually("/api/v1/agents", both).await;
    let mut all = Repeats {
        server,
        sent: BTreeSet::new(),
    };
    let (none, edge_only) = (Value::Null, [("gateway", "edge")]);
    let of = |more: &str| format!("{GATEWAY}{more}");

    all.twice(Method::POST, "/admin/v1/gateways", &[], named("other"))
        .await;
    let plan = json!({"strategy": "staged", "hold_secs": 600});
    all.twice(Method::PUT, &of("/rollout-plan"), &edge_only, plan)
        .await;
    all.twice(Method::PUT, &of("/config"), &edge_only, relabelled("a"))
        .await;
    let second = [("gateway", "edge"), ("revision", "2")];
    for order in ["pause", "resume", "abort"] {
        let route = of(&format!("/rollouts/{{revision}}/{order}"));
        all.twice(Method::POST, &route, &second, none.clone()).await;
    }
    let patch = json!({"labels": {"team": "b"}});
    all.twice(Method::PATCH, &of("/config"), &edge_only, patch)
        .await;
    let resource = [
        ("gateway", "edge"),
        ("section", "models"),
        ("name", "spare"),
    ];
    let (route, lane) = (of("/{section}/{name}"), json!({"provider": "east"}));
    all.twice(Method::PUT, &route, &resource, lane).await;
    all.twice(Method::DELETE, &route, &resource, none.clone())
        .await;
    let rollback = of("/revisions/{revision}/rollback");
    all.twice(Method::POST, &rollback, &second, none.clone())
        .await;
    let body = json!({"revision": 1});
    all.twice(Method::POST, &of("/rollouts"), &edge_only, body)
        .await;

    let order = json!({"action": "drain", "pool": "chat", "lane": "fast", "ttl_secs": 60,
        "reason": "a drill"});
    let order = all
        .twice(Method::POST, &of("/overrides"), &edge_only, order)
        .await;
    let names = [("gateway", "edge"), ("id", order["id"].as_str().unwrap())];
    all.twice(Method::DELETE, &of("/overrides/{id}"), &names, none.clone())
        .await;

    let first = [("id", "instance-of-node-1")];
    let drain = "/admin/v1/agents/{id}/drain";
    all.twice(Method::POST, drain, &first, none.clone()).await;
    all.twice(Method::DELETE, drain, &first, none.clone()).await;
    all.twice(
        Method::DELETE,
        "/admin/v1/agents/{id}",
        &first,
        none.clone(),
    )
    .await;

    for (list, body) in [
        ("/admin/v1/tokens", json!({"name": "ci", "role": "viewer"})),
        (
            "/admin/v1/join-tokens",
            json!({"gateway": "edge", "ttl_secs": 60}),
        ),
    ] {
        let made = all.twice(Method::POST, list, &[], body).await;
        let id = [("id", made["id"].as_str().unwrap())];
        all.twice(Method::DELETE, &format!("{list}/{{id}}"), &id, none.clone())
            .await;
    }
    let renew = "/admin/v1/control-epoch/renew";
    all.twice(Method::POST, renew, &[], none.clone()).await;
    all.twice(Method::DELETE, GATEWAY, &[("gateway", "other")], none)
        .await;

    let unsent: Vec<String> = crate::routes::table()
        .iter()
        .filter(|route| route.action.is_some())
        .map(|route| format!("{} {}", route.method, route.path))
        .filter(|case| !all.sent.contains(case))
        .collect();
    // These need a certificate and an authority, which only a control plane makes.
    assert_eq!(
        unsent,
        [
            "DELETE /admin/v1/identities/{id}",
            "DELETE /admin/v1/authorities/{id}"
        ]
    );
    all.server.stop().await;
}
