//! Tokens through the API: made, used, revoked.

use super::*;

#[tokio::test]
async fn a_token_lives_from_its_creation_to_its_revocation() {
    let server = Server::start().await;
    let form = json!({"name": "ci", "role": "viewer", "expires_in_secs": 3600});
    let created = server
        .send_json(Method::POST, "/admin/v1/tokens", &form)
        .await;
    assert_eq!(created.status(), 201);
    let location = created.headers()["location"].to_str().unwrap().to_owned();
    let created: Value = created.json().await.unwrap();
    let token = created["token"].as_str().unwrap();
    assert_eq!(
        location,
        format!("/admin/v1/tokens/{}", created["id"].as_str().unwrap())
    );
    assert!(created["expires_at"].is_string());

    let read = || {
        server
            .bare(Method::GET, "/api/v1/summary")
            .bearer_auth(token)
            .send()
    };
    assert_eq!(read().await.unwrap().status(), 200);
    let listed = server.get_json("/admin/v1/tokens").await;
    assert_eq!(listed["tokens"][1]["name"], "ci");
    assert!(
        !listed.to_string().contains(token),
        "the list shows a secret"
    );

    let revoked = server
        .request(Method::DELETE, &location)
        .send()
        .await
        .unwrap();
    assert_eq!(revoked.status(), 204);
    problem(read().await.unwrap(), 401, "unauthenticated").await;
    let again = server
        .request(Method::DELETE, &location)
        .send()
        .await
        .unwrap();
    problem(again, 404, "not_found").await;
    server.stop().await;
}

#[tokio::test]
async fn a_token_revoked_behind_our_back_ends_within_five_seconds() {
    let server = Server::start().await;
    let (row, token) = server.token(Role::Viewer, None).await;
    let read = async || {
        let request = server
            .bare(Method::GET, "/api/v1/summary")
            .bearer_auth(&token);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(read().await, 200);
    // No hint is published: as if another replica's were lost.
    server
        .store
        .revoke_token(&row.id, &by_test())
        .await
        .unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), async {
        while read().await != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(
        ended.await.is_ok(),
        "a revoked token still works after five seconds"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_hint_of_another_replica_ends_a_token_at_once() {
    let server = Server::start().await;
    let (row, token) = server.token(Role::Viewer, None).await;
    let read = async || {
        let request = server
            .bare(Method::GET, "/api/v1/summary")
            .bearer_auth(&token);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(read().await, 200);
    server
        .store
        .revoke_token(&row.id, &by_test())
        .await
        .unwrap();
    server
        .live
        .publish(lanekeeper_store::Hint::TokenRevoked)
        .await
        .unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(1), async {
        while read().await != 401 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(ended.await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn the_last_admin_stays() {
    let server = Server::start().await;
    let tokens = server.get_json("/admin/v1/tokens").await;
    let path = format!(
        "/admin/v1/tokens/{}",
        tokens["tokens"][0]["id"].as_str().unwrap()
    );
    let refused = server.request(Method::DELETE, &path).send().await.unwrap();
    problem(refused, 409, "last_admin").await;
    // One that is about to end is no other way in.
    server
        .token(Role::Admin, Some(clock::now_ms() + 60_000))
        .await;
    let refused = server.request(Method::DELETE, &path).send().await.unwrap();
    let body = problem(refused, 409, "last_admin").await;
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("another admin token"), "{detail}");
    assert_eq!(server.get("/admin/v1/tokens").await.status(), 200);
    server.stop().await;
}

#[tokio::test]
async fn a_bad_form_lists_each_field() {
    let server = Server::start().await;
    let bad = json!({"name": " ", "role": "viewer", "expires_in_secs": 0});
    let refused = server
        .send_json(Method::POST, "/admin/v1/tokens", &bad)
        .await;
    let body = problem(refused, 400, "invalid_body").await;
    assert_eq!(pointers(&body), ["/name", "/expires_in_secs"]);

    let unknown = json!({"name": "ci", "role": "viewer", "expires": 1});
    let refused = server
        .send_json(Method::POST, "/admin/v1/tokens", &unknown)
        .await;
    assert_eq!(
        pointers(&problem(refused, 400, "invalid_body").await),
        ["/expires"]
    );

    let role = json!({"name": "ci", "role": "root"});
    let refused = server
        .send_json(Method::POST, "/admin/v1/tokens", &role)
        .await;
    let body = problem(refused, 400, "invalid_body").await;
    assert_eq!(pointers(&body), ["/role"]);
    assert_eq!(
        body["errors"][0]["message"],
        "must be viewer, operator or admin"
    );

    let shapes = json!({"name": 7, "expires_in_secs": -1});
    let refused = server
        .send_json(Method::POST, "/admin/v1/tokens", &shapes)
        .await;
    assert_eq!(
        pointers(&problem(refused, 400, "invalid_body").await),
        ["/name", "/role", "/expires_in_secs"]
    );
    server.stop().await;
}
