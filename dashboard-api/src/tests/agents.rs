//! Agents through the admin API: out of service, back, forgotten.

use super::*;

async fn order(server: &Server, method: Method, path: &str) -> Response {
    server.request(method, path).send().await.unwrap()
}

#[tokio::test]
async fn the_last_agent_that_takes_requests_is_not_drained() {
    let server = Server::start().await;
    server.create_edge().await;
    server.report(&agent("one")).await;
    server
        .eventually("/api/v1/agents", |body| {
            body["agents"][0]["state"] == "live"
        })
        .await;
    let path = "/admin/v1/agents/instance-of-one/drain";
    problem(order(&server, Method::POST, path).await, 409, "last_agent").await;

    server.report(&agent("two")).await;
    server
        .eventually("/api/v1/agents", |body| {
            body["agents"][1]["state"] == "live"
        })
        .await;
    assert_eq!(order(&server, Method::POST, path).await.status(), 202);
    assert_eq!(
        server.store.drained_agents().await.unwrap(),
        ["instance-of-one"]
    );
    let other = "/admin/v1/agents/instance-of-two/drain";
    problem(order(&server, Method::POST, other).await, 409, "last_agent").await;

    assert_eq!(order(&server, Method::DELETE, path).await.status(), 204);
    problem(order(&server, Method::DELETE, path).await, 404, "not_found").await;
    assert_eq!(order(&server, Method::POST, other).await.status(), 202);

    let mut ended = agent("three");
    ended.left = true;
    server.report(&ended).await;
    server
        .eventually("/api/v1/agents?state=gone", |body| {
            body["agents"].as_array().is_some_and(|it| it.len() == 1)
        })
        .await;
    let ended = order(
        &server,
        Method::POST,
        "/admin/v1/agents/instance-of-three/drain",
    )
    .await;
    problem(ended, 409, "agent_gone").await;

    let nobody = order(&server, Method::POST, "/admin/v1/agents/nobody/drain").await;
    problem(nobody, 404, "not_found").await;
    server.stop().await;
}

#[tokio::test]
async fn a_forgotten_agent_is_in_no_list() {
    let server = Server::start().await;
    server.create_edge().await;
    let record = agent("one");
    server.report(&record).await;
    let facts = facts(&record);
    server.store.record_agent(&facts).await.unwrap();
    let listed = |count: usize| {
        move |body: &Value| {
            body["agents"]
                .as_array()
                .is_some_and(|it| it.len() == count)
        }
    };
    server.eventually("/api/v1/agents", listed(1)).await;
    let path = "/admin/v1/agents/instance-of-one";
    assert_eq!(order(&server, Method::DELETE, path).await.status(), 204);
    server.eventually("/api/v1/agents", listed(0)).await;
    problem(order(&server, Method::DELETE, path).await, 404, "not_found").await;
    server.stop().await;
}
