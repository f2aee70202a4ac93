//! Agents through the admin API: out of service, back, forgotten.

use super::*;
use lanekeeper_store::NewIdentity;

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

/// Two processes that report and came with one identity, the second of them lately.
async fn one_identity_for_two(server: &Server) {
    let identity = NewIdentity {
        id: "a".to_owned(),
        gateway: "edge".to_owned(),
        name: "one".to_owned(),
        expires_ms: clock::now_ms() + 60_000,
    };
    let order = by_test();
    let enrolled = server
        .store
        .enrol_vouched(&identity, "kubernetes/default/agent", &order);
    enrolled.await.unwrap();
    for (session_epoch, name) in [(1, "one"), (2, "two")] {
        let mut record = agent(name);
        record.session_epoch = session_epoch;
        let known = AgentFacts {
            session_epoch,
            first_seen_ms: clock::now_ms() - 60_000 / session_epoch,
            identity: Some("a".to_owned()),
            ..facts(&record)
        };
        server.store.record_agent(&known).await.unwrap();
        server.report(&record).await;
    }
}

#[tokio::test]
async fn deleting_a_living_agent_sends_the_holder_of_its_copied_certificate_away_too() {
    let server = Server::start().await;
    server.create_edge().await;
    one_identity_for_two(&server).await;
    server
        .eventually("/api/v1/agents?state=live", |body| {
            body["agents"].as_array().is_some_and(|it| it.len() == 2)
        })
        .await;
    let path = "/admin/v1/agents/instance-of-one";
    assert_eq!(order(&server, Method::DELETE, path).await.status(), 204);
    let revoked = server.store.revoked_identities(clock::now_ms()).await;
    assert_eq!(revoked.unwrap(), ["a"]);
    // Its record in the live view is as fresh as before.
    let body = server
        .eventually("/api/v1/agents", |body| {
            body["agents"].as_array().is_some_and(|it| it.len() == 1)
                && body["agents"][0]["state"] == "gone"
        })
        .await;
    assert_eq!(body["agents"][0]["name"], "two");
    server.stop().await;
}

#[tokio::test]
async fn deleting_an_agent_that_is_over_leaves_its_successor_the_certificate() {
    let server = Server::start().await;
    server.create_edge().await;
    one_identity_for_two(&server).await;
    let mut ended = agent("one");
    (ended.seq, ended.left) = (2, true);
    server.report(&ended).await;
    server
        .eventually("/api/v1/agents?state=gone", |body| {
            body["agents"].as_array().is_some_and(|it| it.len() == 1)
        })
        .await;
    let path = "/admin/v1/agents/instance-of-one";
    assert_eq!(order(&server, Method::DELETE, path).await.status(), 204);
    let revoked = server.store.revoked_identities(clock::now_ms()).await;
    assert_eq!(revoked.unwrap(), [] as [&str; 0]);
    server.stop().await;
}

#[tokio::test]
async fn two_that_live_under_one_certificate_show_each_other_among_their_problems() {
    let server = Server::start().await;
    server.create_edge().await;
    one_identity_for_two(&server).await;
    let path = "/api/v1/agents";
    let body = server
        .eventually(path, |body| {
            body["agents"].as_array().is_some_and(|it| it.len() == 2)
        })
        .await;
    let nothing = json!([]);
    assert_eq!(body["agents"][0]["problems"], nothing, "a restart overlaps");
    let mut second = facts(&agent("two"));
    (second.instance, second.session_epoch) = ("instance-of-third".to_owned(), 3);
    second.first_seen_ms = clock::now_ms() - 60_000;
    second.identity = Some("a".to_owned());
    server.store.record_agent(&second).await.unwrap();
    let body = server
        .eventually(path, |body| {
            let agents = body["agents"].as_array();
            agents.is_some_and(|it| {
                it.len() == 3 && it.iter().all(|agent| agent["problems"] != nothing)
            })
        })
        .await;
    let of_one = body["agents"][0]["problems"][0].as_str().unwrap();
    assert!(of_one.contains("two (instance-of-two)"), "{of_one}");
    server.stop().await;
}
