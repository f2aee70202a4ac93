//! Stores that go away and come back. Each test has a server of its own.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_store::testing::{PostgresServer, RedisServer, eventually};
use lanekeeper_store::{ConfigStore, Hint, LiveView, Put, RedisLive};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::live::record;
use crate::stores::change;

/// Nothing may hang longer than this, whatever state the server is in.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// A view has to be usable this soon after its server is back.
const REDIS_BACK_WITHIN: Duration = Duration::from_secs(3);

async fn answered<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(ANSWER_WITHIN, call)
        .await
        .expect("an answer, good or bad, in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_view_is_back_soon_after_redis_and_hears_hints_again() {
    let mut server = RedisServer::start().await;
    let view = RedisLive::connect(&server.url()).await.unwrap();
    let listener = RedisLive::connect(&server.url()).await.unwrap();
    let mut hints = listener.subscribe();
    view.put(Arc::new(record("edge", "i-1", 7, 7)), 1)
        .await
        .unwrap();

    server.stop();
    eventually("the outage is noticed", ANSWER_WITHIN, async || {
        answered(view.ping())
            .await
            .is_err_and(|error| error.is_unavailable())
    })
    .await;
    assert!(
        answered(view.records(None))
            .await
            .unwrap_err()
            .is_unavailable()
    );
    // Each waits as long as a call may, so that a back-off that grows has time to grow: what is
    // promised is a bound, not luck.
    for _ in 0..2 {
        assert!(answered(view.ping()).await.unwrap_err().is_unavailable());
    }

    server.start_again().await;
    eventually("records can be put", REDIS_BACK_WITHIN, async || {
        // The server lost everything, so also an earlier report is news.
        answered(view.put(Arc::new(record("edge", "i-1", 7, 6)), 1))
            .await
            .is_ok_and(|put| put == Put::Stored)
    })
    .await;
    assert_eq!(
        view.records(None).await.unwrap(),
        [record("edge", "i-1", 7, 6)]
    );
    eventually(
        "hints are heard by one that never asked for anything",
        REDIS_BACK_WITHIN,
        async || {
            answered(view.publish(Hint::TokenRevoked)).await.unwrap();
            hints.try_recv().is_ok()
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_costs_a_bounded_time() {
    let server = RedisServer::start().await;
    let view = RedisLive::connect(&server.url()).await.unwrap();
    server.freeze();
    assert!(
        answered(view.put(Arc::new(record("edge", "i-1", 1, 1)), 1))
            .await
            .unwrap_err()
            .is_unavailable()
    );
    assert!(
        answered(view.records(None))
            .await
            .unwrap_err()
            .is_unavailable()
    );
    assert!(
        answered(view.publish(Hint::TokenRevoked))
            .await
            .unwrap_err()
            .is_unavailable()
    );
    server.thaw();
    eventually("the view works again", REDIS_BACK_WITHIN, async || {
        answered(view.ping()).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_starts_without_redis_and_finds_it_later() {
    let mut server = RedisServer::start().await;
    server.stop();
    let view = answered(RedisLive::connect(&server.url())).await.unwrap();
    let mut hints = view.subscribe();
    assert!(answered(view.ping()).await.unwrap_err().is_unavailable());
    server.start_again().await;
    eventually("hints are heard", Duration::from_secs(5), async || {
        let _ = answered(view.publish(Hint::TokenRevoked)).await;
        hints.try_recv().is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_crash_of_postgres() {
    let mut server = PostgresServer::start().await;
    let store = ConfigStore::connect(&server.create_database().await)
        .await
        .unwrap();
    store
        .create_gateway("edge", &json!({}), "h1", &change("ann", 1))
        .await
        .unwrap();
    let writes = async |from: u64, count: u64| {
        for number in from..from + count {
            let revision = store
                .write_revision(
                    "edge",
                    Some(number - 1),
                    &json!({}),
                    "h",
                    &change("ann", number),
                )
                .await;
            assert_eq!(revision.unwrap().number, number);
        }
    };
    writes(2, 20).await;

    server.stop();
    let started = async {
        store
            .write_revision("edge", None, &json!({}), "h", &change("ann", 30))
            .await
    };
    // The longest wait is the one for a connection.
    let refused = tokio::time::timeout(Duration::from_secs(8), started)
        .await
        .expect("an answer in time");
    assert!(refused.unwrap_err().is_unavailable());

    server.start_again().await;
    eventually("the store answers", Duration::from_secs(5), async || {
        store.ping().await.is_ok()
    })
    .await;
    assert_eq!(store.current("edge").await.unwrap().unwrap().number, 21);
    writes(22, 5).await;
    let verdict = store.verify_audit().await.unwrap();
    assert_eq!((verdict.entries, verdict.fault), (26, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_demoted_primary_are_left() {
    let server = PostgresServer::start().await;
    let url = server.create_database().await;
    let store = ConfigStore::connect(&url).await.unwrap();
    store
        .create_gateway("edge", &json!({}), "h1", &change("ann", 1))
        .await
        .unwrap();
    let database = url.rsplit('/').next().unwrap();
    let mut operator = PgConnection::connect(&url).await.unwrap();
    let mut order = async |sql: String| {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut operator)
            .await
            .unwrap();
    };
    // Sessions that begin now are read-only until they end, as those of a former primary are.
    order(format!(
        "ALTER DATABASE {database} SET default_transaction_read_only = on"
    ))
    .await;
    order(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'lanekeeper'"
            .to_owned(),
    )
    .await;
    let write = async || {
        store
            .write_revision("edge", None, &json!({}), "h", &change("ann", 2))
            .await
    };
    for _ in 0..3 {
        assert!(write().await.unwrap_err().is_unavailable());
    }
    assert_eq!(store.current("edge").await.unwrap().unwrap().number, 1);
    order(format!(
        "ALTER DATABASE {database} SET default_transaction_read_only = off"
    ))
    .await;
    eventually("writes go on", Duration::from_secs(3), async || {
        write().await.is_ok()
    })
    .await;
}
