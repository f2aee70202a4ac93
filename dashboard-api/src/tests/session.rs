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
