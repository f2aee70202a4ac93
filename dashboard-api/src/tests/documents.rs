//! Gateways whose documents come from a folder.

use super::{Server, by_test, edge, named};
use lanekeeper_model::content_hash;
use lanekeeper_store::{ConfigStore, MemoryLive};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const CONFIG: &str = "/admin/v1/gateways/edge/config";

async fn server(folder: &Path) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
    let live = Arc::new(MemoryLive::new());
    Server::with_documents(store, live, Some(dir), Some(folder.to_owned())).await
}

fn write(folder: &Path, name: &str, document: &Value) {
    // As the kubelet does it: a reader never meets half a file.
    let hidden = folder.join(format!(".{name}"));
    std::fs::write(&hidden, document.to_string()).unwrap();
    std::fs::rename(hidden, folder.join(name)).unwrap();
}

fn weighted(weight: u64) -> Value {
    let mut document = edge();
    document["pools"]["chat"]["members"][0]["weight"] = json!(weight);
    document
}

#[tokio::test]
async fn what_a_folder_holds_is_in_force_and_changes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "edge.yaml", &weighted(3));
    let server = server(folder.path()).await;
    let list = server
        .eventually("/admin/v1/gateways", |list| {
            list["gateways"].as_array().is_some_and(|it| it.len() == 1)
        })
        .await;
    assert_eq!(list["gateways"][0]["documents_file"], "edge.yaml");

    write(folder.path(), "edge.yaml", &weighted(7));
    let document = server.eventually(CONFIG, |it| *it == weighted(7)).await;
    assert_eq!(document, weighted(7));
    let history = server.get_json("/admin/v1/gateways/edge/revisions").await;
    let newest = &history["revisions"][0];
    assert_eq!(newest["author"], "documents folder");
    assert_eq!(newest["message"], "edge.yaml");
    server.stop().await;
}

#[tokio::test]
async fn the_api_refuses_to_change_them_and_says_where_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "edge.yaml", &edge());
    let server = server(folder.path()).await;
    server
        .eventually("/admin/v1/gateways", |list| {
            list["gateways"][0]["name"] == "edge"
        })
        .await;
    for (method, path, body) in [
        (Method::PUT, CONFIG, weighted(9)),
        // As a path may be written too.
        (Method::PUT, "/admin/v1/gateways/%65dge/config", weighted(9)),
        (Method::PATCH, CONFIG, json!({"labels": {"a": "b"}})),
        (
            Method::PUT,
            "/admin/v1/gateways/edge/models/fast",
            json!({"provider": "west"}),
        ),
        (
            Method::DELETE,
            "/admin/v1/gateways/edge/models/slow",
            Value::Null,
        ),
        (
            Method::POST,
            "/admin/v1/gateways/edge/revisions/1/rollback",
            Value::Null,
        ),
        (
            Method::POST,
            "/admin/v1/gateways/edge/rollouts",
            json!({"document": weighted(9)}),
        ),
        (Method::DELETE, "/admin/v1/gateways/edge", Value::Null),
        (Method::POST, "/admin/v1/gateways", weighted(9)),
    ] {
        let mut request = server.request(method.clone(), path).header("if-match", "*");
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 409, "{method} {path}");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["code"], "managed_by_documents", "{method} {path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("edge.yaml"), "{detail}");
    }
    assert_eq!(server.get_json(CONFIG).await, edge());
    // What changes no document is as it was, and so are other gateways.
    let lane = json!({"action": "drain", "lane": "slow", "reason": "a test", "ttl_secs": 60});
    let path = "/admin/v1/gateways/edge/overrides";
    assert_eq!(
        server.send_json(Method::POST, path, &lane).await.status(),
        201
    );
    let path = "/admin/v1/gateways";
    let other = server.send_json(Method::POST, path, &named("other")).await;
    assert_eq!(other.status(), 201);

    // Once its file is gone the gateway is the API's again.
    std::fs::remove_file(folder.path().join("edge.yaml")).unwrap();
    server
        .eventually("/admin/v1/gateways/edge", |it| {
            it["documents_file"].is_null()
        })
        .await;
    let change = server.request(Method::PUT, CONFIG).header("if-match", "*");
    let change = change.json(&weighted(9)).send().await.unwrap();
    assert_eq!(change.status(), 200);
    server.stop().await;
}

#[tokio::test]
async fn a_document_that_was_taken_back_is_not_pushed_again_until_its_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "edge.yaml", &weighted(3));
    let server = server(folder.path()).await;
    server
        .eventually("/admin/v1/gateways", |list| {
            list["gateways"][0]["name"] == "edge"
        })
        .await;
    write(folder.path(), "edge.yaml", &weighted(4));
    server.eventually(CONFIG, |it| *it == weighted(4)).await;
    // As a rollout does that went badly.
    let old = weighted(3);
    let store = &server.store;
    store
        .write_revision("edge", None, &old, &content_hash(&old), &by_test())
        .await
        .unwrap();
    // Another file of the same folder is taken later, so the first was looked at in between.
    for later in ["one", "two"] {
        write(folder.path(), &format!("{later}.yaml"), &named(later));
        let path = format!("/admin/v1/gateways/{later}");
        let path = path.as_str();
        server
            .eventually("/admin/v1/gateways", |list| {
                let mut gateways = list["gateways"].as_array().unwrap().iter();
                gateways.any(|it| it["name"] == later)
            })
            .await;
        assert_eq!(server.get_json(path).await["revision"], 1);
    }
    assert_eq!(server.get_json(CONFIG).await, weighted(3));
    write(folder.path(), "edge.yaml", &weighted(5));
    server.eventually(CONFIG, |it| *it == weighted(5)).await;
    server.stop().await;
}

#[tokio::test]
async fn a_file_with_a_mistake_leaves_the_last_good_one_in_force_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "edge.yaml", &edge());
    let server = server(folder.path()).await;
    server
        .eventually("/admin/v1/gateways", |list| {
            list["gateways"][0]["name"] == "edge"
        })
        .await;
    write(
        folder.path(),
        "edge.yaml",
        &json!({"gateway": "edge", "pool": {}}),
    );
    write(folder.path(), "other.yaml", &named("other"));
    server
        .eventually("/admin/v1/gateways", |list| {
            list["gateways"].as_array().is_some_and(|it| it.len() == 2)
        })
        .await;
    assert_eq!(server.get_json(CONFIG).await, edge());
    let change = server.request(Method::PUT, CONFIG).header("if-match", "*");
    let change = change.json(&weighted(9)).send().await.unwrap();
    assert_eq!(change.status(), 409);
    server.stop().await;
}
