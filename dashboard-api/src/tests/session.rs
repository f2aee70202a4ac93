//! Browser sessions.

use super::*;

async fn sign_in(server: &Server) -> String {
    let response = server
        .bare(Method::POST, "/session")
        .json(&json!({"token": server.admin}))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let cookie = response.headers()["set-cookie"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let session: Value = response.json().await.unwrap();
    assert_eq!(session, json!({"name": "bootstrap", "role": "admin"}));
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_session_reads_and_ends() {
    let server = Server::start().await;
    let cookie = sign_in(&server).await;
    let read = server
        .bare(Method::GET, "/api/v1/summary")
        .header("cookie", &cookie);
    assert_eq!(read.send().await.unwrap().status(), 200);
    let show = server
        .bare(Method::GET, "/session")
        .header("cookie", &cookie)
        .send()
        .await
        .unwrap();
    assert_eq!(show.json::<Value>().await.unwrap()["role"], "admin");
    let ended = server
        .bare(Method::DELETE, "/session")
        .header("cookie", &cookie)
        .send()
        .await
        .unwrap();
    assert_eq!(ended.status(), 204);
    assert!(
        ended.headers()["set-cookie"]
            .to_str()
            .unwrap()
            .contains("Max-Age=0")
    );
    server.stop().await;
}

#[tokio::test]
async fn a_session_that_was_signed_out_is_over_and_the_others_and_the_token_are_not() {
    let server = Server::start().await;
    let (left, stays) = (sign_in(&server).await, sign_in(&server).await);
    let read = |cookie: &str| {
        let request = server.bare(Method::GET, "/api/v1/summary");
        request.header("cookie", cookie).send()
    };
    assert!(
        !left.contains(&server.admin),
        "the token is not in the browser"
    );
    assert_eq!(read(&left).await.unwrap().status(), 200);
    for _ in 0..2 {
        let leave = server.bare(Method::DELETE, "/session");
        let ended = leave.header("cookie", &left).send().await.unwrap();
        assert_eq!(ended.status(), 204);
        problem(read(&left).await.unwrap(), 401, "unauthenticated").await;
    }
    assert_eq!(read(&stays).await.unwrap().status(), 200);
    server.stop().await;
}

#[tokio::test]
async fn tokens_and_sessions_count_only_in_their_own_places() {
    let server = Server::start().await;
    let cookie = sign_in(&server).await;
    let session = cookie.split_once('=').unwrap().1;
    let bearer = server
        .bare(Method::GET, "/api/v1/summary")
        .bearer_auth(session);
    problem(bearer.send().await.unwrap(), 401, "unauthenticated").await;
    let token = format!("lanekeeper_session={}", server.admin);
    let kept = server
        .bare(Method::GET, "/api/v1/summary")
        .header("cookie", token);
    problem(kept.send().await.unwrap(), 401, "unauthenticated").await;
    let again = server
        .bare(Method::POST, "/session")
        .json(&json!({"token": session}));
    problem(again.send().await.unwrap(), 401, "unauthenticated").await;
    server.stop().await;
}

#[tokio::test]
async fn a_session_writes_only_from_our_own_pages() {
    let server = Server::start().await;
    let cookie = sign_in(&server).await;
    let write = |origin: Option<&str>| {
        let mut request = server
            .bare(Method::POST, "/admin/v1/gateways")
            .header("cookie", &cookie)
            .json(&edge());
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        request.send()
    };
    problem(write(None).await.unwrap(), 403, "cross_origin").await;
    problem(
        write(Some("http://elsewhere.example")).await.unwrap(),
        403,
        "cross_origin",
    )
    .await;
    assert_eq!(write(Some(&server.url)).await.unwrap().status(), 201);
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_token_starts_no_session() {
    let server = Server::start().await;
    for token in ["", "nonsense", "id.secret"] {
        let request = server
            .bare(Method::POST, "/session")
            .json(&json!({"token": token}));
        let response = request.send().await.unwrap();
        assert!(!response.headers().contains_key("set-cookie"));
        problem(response, 401, "unauthenticated").await;
    }
    server.stop().await;
}
