//! The same API over PostgreSQL and Redis, and what is left of it when they are gone.

use super::*;
use lanekeeper_store::RedisLive;
use lanekeeper_store::testing::{PostgresServer, RedisServer};

#[tokio::test]
async fn the_whole_way_works_on_postgres_and_redis() {
    let postgres = PostgresServer::shared().await;
    let store = ConfigStore::connect(&postgres.create_database().await)
        .await
        .unwrap();
    let redis = RedisServer::start().await;
    let live = RedisLive::connect(&redis.url()).await.unwrap();
    let server = Server::over(store, Arc::new(live), None).await;
    server.create_edge().await;
    server.report(&with_fast_open(agent("node-1"))).await;
    let view = server
        .eventually("/api/v1/breaker-state", |view| {
            view["cells"][0]["state"] == "open"
        })
        .await;
    assert_eq!(view["agents"]["live"], 1);

    let write = server
        .request(Method::PUT, "/admin/v1/gateways/edge/config")
        .header("if-match", "\"1\"")
        .json(&{
            let mut document = edge();
            document["models"]["fast"]["max_concurrent"] = json!(3);
            document
        });
    assert_eq!(write.send().await.unwrap().status(), 200);
    assert_eq!(
        server.get_json("/api/v1/agents").await["agents"][0]["name"],
        "node-1"
    );
    problem(
        server.get("/admin/v1/gateways/%00/config").await,
        404,
        "unknown_route",
    )
    .await;
    server.stop().await;
}

#[tokio::test]
async fn without_its_database_a_server_asks_to_come_back_and_then_recovers() {
    let mut postgres = PostgresServer::start().await;
    let store = ConfigStore::connect(&postgres.create_database().await)
        .await
        .unwrap();
    let server = Server::over(store, Arc::new(MemoryLive::new()), None).await;
    server.create_edge().await;
    postgres.stop();

    let write = server
        .send_json(Method::POST, "/admin/v1/gateways", &named("other"))
        .await;
    assert!(write.headers().contains_key("retry-after"));
    let body = problem(write, 503, "store_unavailable").await;
    assert!(!body.to_string().contains("sqlx"), "{body:#}");

    postgres.start_again().await;
    let recovered = tokio::time::timeout(PATIENCE, async {
        loop {
            let response = server.get("/admin/v1/gateways/edge").await;
            if response.status() == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(recovered.await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn without_its_live_view_a_server_shows_what_it_knew_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
    let mut redis = RedisServer::start().await;
    let live = RedisLive::connect(&redis.url()).await.unwrap();
    let server = Server::over(store, Arc::new(live), Some(dir)).await;
    server.create_edge().await;
    server.report(&with_fast_open(agent("node-1"))).await;
    let path = "/api/v1/breaker-state";
    server
        .eventually(path, |view| view["cells"][0]["state"] == "open")
        .await;
    redis.stop();
    let view = server
        .eventually(path, |view| view["partial"] == true)
        .await;
    assert_eq!(view["cells"][0]["state"], "open");
    server.stop().await;
}

#[tokio::test]
async fn without_its_database_a_server_goes_on_showing_the_fleet_and_refuses_fast() {
    let mut postgres = PostgresServer::start().await;
    let store = ConfigStore::connect(&postgres.create_database().await)
        .await
        .unwrap();
    let server = Server::over(store, Arc::new(MemoryLive::new()), None).await;
    server.create_edge().await;
    server.report(&with_fast_open(agent("node-1"))).await;
    let path = "/api/v1/breaker-state";
    server
        .eventually(path, |view| view["cells"][0]["state"] == "open")
        .await;
    postgres.stop();
    // Long after every fresh verdict about the token.
    let down = clock::instant();
    while down.elapsed() < Duration::from_secs(4) {
        let view = server.get_json(path).await;
        assert_eq!(view["cells"][0]["state"], "open");
    }
    let view = server
        .eventually(path, |view| view["partial"] == true)
        .await;
    assert_eq!(view["cells"][0]["state"], "open");
    server.get_json("/api/v1/summary").await;
    server.get_json("/api/v1/agents").await;

    // One looks whether the database is back; the others do not wait with it.
    let asked = clock::instant();
    let body = json!({});
    let writes = (0..8).map(|_| server.send_json(Method::POST, "/admin/v1/gateways", &body));
    let mut quick = 0;
    for write in futures_util::future::join_all(writes.map(async |write| {
        let response = write.await;
        (response.status().as_u16(), asked.elapsed())
    }))
    .await
    {
        assert_eq!(write.0, 503);
        quick += usize::from(write.1 < Duration::from_secs(2));
    }
    assert!(quick >= 7, "only {quick} of 8 were refused fast");
    // A token that nobody verified before lets nobody in.
    let stranger = server.bare(Method::GET, path).bearer_auth("id.unknown");
    assert_eq!(stranger.send().await.unwrap().status(), 503);
    server.stop().await;
}
