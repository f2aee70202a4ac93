//! Gateways and their configuration through the API.

use super::*;
use lanekeeper_store::Hint;

const CONFIG: &str = "/admin/v1/gateways/edge/config";

fn reweighted(weight: u32) -> Value {
    let mut document = edge();
    document["pools"]["chat"]["members"][0]["weight"] = json!(weight);
    document
}

async fn put(server: &Server, if_match: Option<&str>, document: &Value) -> Response {
    let mut request = server.request(Method::PUT, CONFIG).json(document);
    if let Some(tag) = if_match {
        request = request.header("if-match", tag);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn a_gateway_is_created_listed_shown_and_deleted() {
    let server = Server::start().await;
    let created = server
        .send_json(Method::POST, "/admin/v1/gateways", &edge())
        .await;
    assert_eq!(created.status(), 201);
    assert_eq!(created.headers()["etag"], "\"1\"");
    assert_eq!(created.headers()["location"], "/admin/v1/gateways/edge");

    let again = server
        .send_json(Method::POST, "/admin/v1/gateways", &edge())
        .await;
    problem(again, 409, "already_exists").await;

    for path in ["/admin/v1/gateways/edge", CONFIG] {
        let held = server
            .request(Method::GET, path)
            .header("if-none-match", "\"1\"");
        assert_eq!(held.send().await.unwrap().status(), 304, "{path}");
    }
    let listed = server.get_json("/admin/v1/gateways").await;
    assert_eq!(listed["gateways"][0]["name"], "edge");
    assert_eq!(listed["next_cursor"], Value::Null);
    assert_eq!(
        server.get_json("/admin/v1/gateways/edge").await["revision"],
        1
    );

    let stale = server
        .request(Method::DELETE, "/admin/v1/gateways/edge")
        .header("if-match", "\"7\"");
    problem(stale.send().await.unwrap(), 412, "revision_mismatch").await;
    let deleted = server
        .request(Method::DELETE, "/admin/v1/gateways/edge")
        .send()
        .await
        .unwrap();
    assert_eq!(deleted.status(), 204);
    problem(
        server.get("/admin/v1/gateways/edge").await,
        404,
        "not_found",
    )
    .await;
    problem(server.get(CONFIG).await, 404, "not_found").await;
    problem(
        server.get("/admin/v1/gateways/edge/revisions").await,
        404,
        "not_found",
    )
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_list_is_walked_by_its_cursors() {
    let server = Server::start().await;
    for name in ["a", "b", "c", "d", "e"] {
        let created = server
            .send_json(Method::POST, "/admin/v1/gateways", &named(name))
            .await;
        assert_eq!(created.status(), 201);
    }
    let (mut seen, mut path) = (Vec::new(), "/admin/v1/gateways?limit=2".to_owned());
    loop {
        let page = server.get_json(&path).await;
        let names = page["gateways"].as_array().unwrap();
        assert!(!names.is_empty() && names.len() <= 2);
        seen.extend(
            names
                .iter()
                .map(|row| row["name"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/admin/v1/gateways?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    let refused = server.get("/admin/v1/gateways?cursor=b").await;
    problem(refused, 400, "invalid_parameter").await;
    server.stop().await;
}

#[tokio::test]
async fn a_document_is_taken_as_yaml_too() {
    let server = Server::start().await;
    let yaml = "# the edge\ngateway: edge\nproviders:\n  east: {protocol: openai, base_url: 'http://127.0.0.1:9001/v1', api_key: null}\nmodels:\n  fast: {provider: east}\npools:\n  chat: {members: [{target: fast}]}\n";
    let created = server
        .request(Method::POST, "/admin/v1/gateways")
        .header("content-type", "application/yaml")
        .body(yaml)
        .send()
        .await
        .unwrap();
    assert_eq!(created.status(), 201, "{}", created.text().await.unwrap());
    let document = server.get_json(CONFIG).await;
    assert_eq!(document["pools"]["chat"]["members"][0]["target"], "fast");
    server.stop().await;
}

#[tokio::test]
async fn a_write_must_be_based_on_the_current_revision() {
    let server = Server::start().await;
    server.create_edge().await;
    problem(
        put(&server, None, &reweighted(5)).await,
        428,
        "if_match_required",
    )
    .await;

    let written = put(&server, Some("\"1\""), &reweighted(5)).await;
    assert_eq!(written.status(), 200);
    assert_eq!(written.headers()["etag"], "\"2\"");
    let written: Value = written.json().await.unwrap();
    assert_eq!(
        (&written["revision"], &written["parent"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(written["author"], "bootstrap");

    let late = put(&server, Some("\"1\""), &reweighted(6)).await;
    assert_eq!(late.headers()["etag"], "\"2\"");
    problem(late, 412, "revision_mismatch").await;
    problem(
        put(&server, Some("2"), &reweighted(6)).await,
        400,
        "invalid_header",
    )
    .await;

    let read = server.get(CONFIG).await;
    assert_eq!(read.headers()["etag"], "\"2\"");
    assert_eq!(read.json::<Value>().await.unwrap(), reweighted(5));
    let held = server
        .request(Method::GET, CONFIG)
        .header("if-none-match", "\"2\"");
    assert_eq!(held.send().await.unwrap().status(), 304);
    server.stop().await;
}

#[tokio::test]
async fn of_two_writers_with_one_base_one_wins() {
    let server = Server::start().await;
    server.create_edge().await;
    let (a, b) = (reweighted(5), reweighted(6));
    let (first, second) = tokio::join!(
        put(&server, Some("\"1\""), &a),
        put(&server, Some("\"1\""), &b)
    );
    let mut statuses = [first.status().as_u16(), second.status().as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
    assert_eq!(
        server.get_json("/admin/v1/gateways/edge").await["revision"],
        2
    );
    server.stop().await;
}

#[tokio::test]
async fn a_bad_document_lists_every_error_and_changes_nothing() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut document = edge();
    document["pools"]["chat"]["members"][1]["target"] = json!("missing");
    document["providers"]["east"]["api_key"] = json!("sk-literal");
    document["modles"] = json!({});
    let body = problem(
        put(&server, Some("\"1\""), &document).await,
        400,
        "invalid_document",
    )
    .await;
    let pointers = pointers(&body);
    for expected in [
        "/modles",
        "/providers/east/api_key",
        "/pools/chat/members/1/target",
    ] {
        assert!(
            pointers.contains(&expected),
            "{expected} is missing in {body:#}"
        );
    }
    assert!(
        !body.to_string().contains("sk-literal"),
        "a secret is echoed"
    );
    assert_eq!(server.get_json(CONFIG).await, edge());
    assert_eq!(
        server.get_json("/admin/v1/gateways/edge").await["revision"],
        1
    );
    server.stop().await;
}

#[tokio::test]
async fn a_document_for_another_gateway_is_refused() {
    let server = Server::start().await;
    server.create_edge().await;
    let refused = put(&server, Some("\"1\""), &named("other")).await;
    let body = problem(refused, 400, "invalid_document").await;
    assert_eq!(body["errors"][0]["pointer"], "/gateway");
    assert_eq!(body["errors"][0]["code"], "name_mismatch");
    server.stop().await;
}

#[tokio::test]
async fn the_same_document_again_makes_no_revision() {
    let server = Server::start().await;
    server.create_edge().await;
    let same = put(&server, Some("\"1\""), &edge()).await;
    assert_eq!(same.status(), 200);
    assert_eq!(same.headers()["etag"], "\"1\"");
    server.stop().await;
}

#[tokio::test]
async fn a_merge_patch_changes_only_what_it_names() {
    let server = Server::start().await;
    server.create_edge().await;
    let patch = json!({"labels": {"team": "search"}, "models": {"slow": {"max_concurrent": 7}}});
    let patched = server
        .request(Method::PATCH, CONFIG)
        .header("if-match", "\"1\"")
        .header("content-type", "application/merge-patch+json")
        .body(patch.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(patched.status(), 200, "{}", patched.text().await.unwrap());
    let mut expected = edge();
    expected["labels"] = json!({"team": "search"});
    expected["models"]["slow"]["max_concurrent"] = json!(7);
    assert_eq!(server.get_json(CONFIG).await, expected);

    let breaking = json!({"models": {"slow": null}});
    let request = server
        .request(Method::PATCH, CONFIG)
        .header("if-match", "\"2\"")
        .json(&breaking);
    let body = problem(request.send().await.unwrap(), 400, "invalid_document").await;
    assert_eq!(pointers(&body), ["/pools/chat/members/1/target"]);
    let unbased = server.request(Method::PATCH, CONFIG).json(&json!({}));
    problem(unbased.send().await.unwrap(), 428, "if_match_required").await;
    server.stop().await;
}

#[tokio::test]
async fn a_trial_answers_without_writing() {
    let server = Server::start().await;
    let validate = "/admin/v1/gateways/edge/config/validate";
    let good = server.send_json(Method::POST, validate, &edge()).await;
    assert_eq!(good.status(), 200);
    assert_eq!(
        good.json::<Value>().await.unwrap(),
        json!({"valid": true, "errors": []})
    );

    let mut document = edge();
    document["pools"]["chat"]["members"][0]["target"] = json!("missing");
    let bad = server.send_json(Method::POST, validate, &document).await;
    assert_eq!(bad.status(), 200);
    let bad: Value = bad.json().await.unwrap();
    assert_eq!(bad["valid"], false);
    assert!(
        pointers(&bad).contains(&"/pools/chat/members/0/target"),
        "{bad:#}"
    );
    problem(
        server.get("/admin/v1/gateways/edge").await,
        404,
        "not_found",
    )
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_diff_lists_what_would_change() {
    let server = Server::start().await;
    server.create_edge().await;
    let diff = "/admin/v1/gateways/edge/config/diff";
    let answer = server.send_json(Method::POST, diff, &reweighted(9)).await;
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(
        answer,
        json!({"revision": 1, "truncated": false, "changes": [
            {"op": "replace", "pointer": "/pools/chat/members/0/weight", "before": 3, "after": 9}
        ]})
    );
    server.stop().await;
}

#[tokio::test]
async fn history_is_kept_and_leads_back() {
    let server = Server::start().await;
    server.create_edge().await;
    let path = format!("{CONFIG}?message=more%20for%20fast");
    let request = server
        .request(Method::PUT, &path)
        .header("if-match", "\"1\"");
    assert_eq!(
        request.json(&reweighted(9)).send().await.unwrap().status(),
        200
    );

    let revisions = server.get_json("/admin/v1/gateways/edge/revisions").await;
    let numbers: Vec<_> = revisions["revisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["revision"])
        .collect();
    assert_eq!(numbers, [&json!(2), &json!(1)]);
    assert_eq!(revisions["revisions"][0]["message"], "more for fast");
    let first = server.get_json("/admin/v1/gateways/edge/revisions/1").await;
    assert_eq!(first["document"], edge());

    let back = "/admin/v1/gateways/edge/revisions/1/rollback";
    let back = server.request(Method::POST, back).send().await.unwrap();
    assert_eq!(back.status(), 200);
    assert_eq!(back.headers()["etag"], "\"3\"");
    assert_eq!(server.get_json(CONFIG).await, edge());
    let missing = server.get("/admin/v1/gateways/edge/revisions/99").await;
    problem(missing, 404, "not_found").await;
    let text = server.get("/admin/v1/gateways/edge/revisions/first").await;
    problem(text, 400, "invalid_parameter").await;
    server.stop().await;
}

#[tokio::test]
async fn a_write_tells_the_control_planes() {
    let server = Server::start().await;
    let mut hints = server.live.subscribe();
    server.create_edge().await;
    let hint = tokio::time::timeout(PATIENCE, hints.recv())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        hint,
        Hint::Revision {
            gateway: "edge".into()
        }
    );
    server.stop().await;
}

#[tokio::test]
async fn every_write_is_in_the_audit_trail() {
    let server = Server::start().await;
    server.create_edge().await;
    assert_eq!(
        put(&server, Some("\"1\""), &reweighted(9)).await.status(),
        200
    );
    let trail = server.get_json("/admin/v1/audit").await;
    let verified = server.get_json("/admin/v1/audit/verify").await;
    let entries = trail["entries"].as_array().unwrap().len();
    assert_eq!(
        verified,
        json!({"intact": true, "entries": entries, "broken_at": null, "reason": null})
    );
    let actions: Vec<_> = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions[..2], ["config.write", "gateway.create"]);
    assert_eq!(
        trail["entries"][0]["prev_hash"],
        trail["entries"][1]["hash"]
    );
    server.stop().await;
}

#[tokio::test]
async fn one_resource_is_put_and_removed_as_a_revision_each() {
    let server = Server::start().await;
    server.create_edge().await;
    let path = "/admin/v1/gateways/edge/models/spare";
    let lane = json!({"provider": "west", "max_concurrent": 2});
    let unbased = server.send_json(Method::PUT, path, &lane).await;
    problem(unbased, 428, "if_match_required").await;

    let put = server
        .request(Method::PUT, path)
        .header("if-match", "\"1\"")
        .json(&lane);
    let put = put.send().await.unwrap();
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    assert_eq!(put.headers()["etag"], "\"2\"");
    assert_eq!(server.get_json(CONFIG).await["models"]["spare"], lane);

    let wrong = json!({"provider": "nowhere"});
    let wrong = server
        .request(Method::PUT, path)
        .header("if-match", "\"2\"")
        .json(&wrong);
    let body = problem(wrong.send().await.unwrap(), 400, "invalid_document").await;
    assert_eq!(pointers(&body), ["/models/spare/provider"]);

    let remove = |path: &str, tag: &str| {
        server
            .request(Method::DELETE, path)
            .header("if-match", tag.to_owned())
            .send()
    };
    let used = remove("/admin/v1/gateways/edge/models/fast", "\"2\"")
        .await
        .unwrap();
    let body = problem(used, 400, "invalid_document").await;
    assert_eq!(pointers(&body), ["/pools/chat/members/0/target"]);
    let removed = remove(path, "\"2\"").await.unwrap();
    assert_eq!(
        (removed.status().as_u16(), &removed.headers()["etag"]),
        (200, &"\"3\"".parse().unwrap())
    );
    assert_eq!(server.get_json(CONFIG).await, edge());
    problem(remove(path, "\"3\"").await.unwrap(), 404, "not_found").await;
    let section = remove("/admin/v1/gateways/edge/clients/ann", "\"3\"")
        .await
        .unwrap();
    problem(section, 404, "unknown_route").await;
    server.stop().await;
}

#[tokio::test]
async fn a_gateway_whose_agents_are_live_is_deleted_only_knowingly() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&agent("node-1")).await;
    server
        .eventually("/api/v1/agents", |page| {
            page["agents"][0]["state"] == "live"
        })
        .await;
    let delete = |tag: Option<&'static str>| {
        let request = server.request(Method::DELETE, "/admin/v1/gateways/edge");
        match tag {
            Some(tag) => request.header("if-match", tag),
            None => request,
        }
        .send()
    };
    let refused = problem(delete(None).await.unwrap(), 428, "gateway_in_use").await;
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("1 agent") && detail.contains("If-Match"),
        "{detail}"
    );
    problem(
        delete(Some("\"7\"")).await.unwrap(),
        412,
        "revision_mismatch",
    )
    .await;
    assert_eq!(delete(Some("\"1\"")).await.unwrap().status(), 204);
    server.stop().await;
}

#[tokio::test]
async fn a_rollback_honours_if_match_when_it_is_given() {
    let server = Server::start().await;
    server.create_edge().await;
    assert_eq!(
        put(&server, Some("\"1\""), &reweighted(5)).await.status(),
        200
    );
    let roll_back = |tag: &'static str| {
        server
            .request(Method::POST, "/admin/v1/gateways/edge/revisions/1/rollback")
            .header("if-match", tag)
            .send()
    };
    problem(roll_back("\"1\"").await.unwrap(), 412, "revision_mismatch").await;
    assert_eq!(roll_back("\"2\"").await.unwrap().status(), 200);
    server.stop().await;
}

#[tokio::test]
async fn a_message_with_control_characters_is_refused() {
    let server = Server::start().await;
    for message in ["%1b%5b31mred", "two%0Alines", "%07"] {
        let path = format!("/admin/v1/gateways?message={message}");
        let refused = server.send_json(Method::POST, &path, &edge()).await;
        let body = problem(refused, 400, "invalid_parameter").await;
        assert_eq!(body["errors"][0]["parameter"], "message");
    }
    server.stop().await;
}
