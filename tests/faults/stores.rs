//! PostgreSQL and Redis that go away, freeze, refuse and forget.

use lanekeeper_tests::{Cluster, History, Written, eventually};
use serde_json::Value;

use crate::{HEALED, written_again};

async fn writable(cluster: &Cluster, history: &History, weight: u64) -> u64 {
    let document = cluster.document(weight);
    let (revision, took) = written_again(cluster, history, 0, &document).await;
    println!("writable after {took:?}");
    revision
}

/// Waits until the view of every API is whole, or says that it is not.
async fn partial(cluster: &Cluster, wanted: bool) {
    let what = format!("every view has partial: {wanted}");
    eventually(&what, HEALED, || async {
        for api in 0..cluster.apis.len() {
            let view = cluster
                .get(api, "/api/v1/breaker-state?include=closed")
                .await
                .map_err(|error| error.to_string())?;
            if view["partial"] != wanted {
                return Err(format!("api {api}: {view}"));
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn redis_stopped_flushed_and_frozen_costs_the_view_its_wholeness_and_nothing_else() {
    let mut cluster = Cluster::start(2, 2).await.unwrap();
    let history = cluster.watch();
    partial(&cluster, false).await;

    cluster.redis.0.command(&["FLUSHALL"]).await;
    cluster.all_live(HEALED).await;

    cluster.redis.0.freeze();
    partial(&cluster, true).await;
    let document = cluster.document(2);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(2)
    );
    cluster.converged(2, HEALED).await;
    cluster.redis.0.thaw();
    partial(&cluster, false).await;

    cluster.redis.0.stop();
    partial(&cluster, true).await;
    let document = cluster.document(3);
    assert_eq!(
        cluster.commit(&history, 1, &document).await,
        Written::Confirmed(3)
    );
    cluster.converged(3, HEALED).await;
    cluster.redis.0.start_again().await;
    partial(&cluster, false).await;
    cluster.all_live(HEALED).await;

    // Out of memory: every write is refused, reads go on.
    cluster
        .redis
        .0
        .command(&["CONFIG", "SET", "maxmemory", "1"])
        .await;
    let document = cluster.document(4);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(4)
    );
    cluster.converged(4, HEALED).await;
    cluster
        .redis
        .0
        .command(&["CONFIG", "SET", "maxmemory", "0"])
        .await;
    // Hints are lost; the poll is the truth.
    cluster
        .redis
        .0
        .command(&["CLIENT", "KILL", "TYPE", "pubsub"])
        .await;
    let document = cluster.document(5);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(5)
    );
    cluster.converged(5, HEALED).await;
    partial(&cluster, false).await;
    cluster.all_live(HEALED).await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn postgres_stopped_frozen_and_read_only_costs_writes_and_nothing_else() {
    let mut cluster = Cluster::start(2, 2).await.unwrap();
    let history = cluster.watch();
    cluster.all_live(HEALED).await;

    cluster.postgres.0.stop();
    let refused = cluster.commit(&history, 0, &cluster.document(2)).await;
    assert_eq!(refused, Written::Unknown);
    let view = cluster.get(1, "/api/v1/breaker-state").await.unwrap();
    assert_eq!(view["agents"]["live"], 2, "{view}");
    cluster.postgres.0.start_again().await;
    let revision = writable(&cluster, &history, 2).await;
    cluster.converged(revision, HEALED).await;

    cluster.postgres.0.freeze();
    let refused = cluster.commit(&history, 0, &cluster.document(3)).await;
    assert_eq!(refused, Written::Unknown);
    let view = cluster.get(0, "/api/v1/breaker-state").await.unwrap();
    assert_eq!(view["agents"]["live"], 2, "{view}");
    cluster.postgres.0.thaw();
    let revision = writable(&cluster, &history, 3).await;
    cluster.converged(revision, HEALED).await;

    // A demoted primary: sessions that are open stay so and refuse to write.
    let database = cluster.database.rsplit('/').next().unwrap().to_owned();
    let read_only = |on: bool| {
        let word = if on { "on" } else { "off" };
        format!(
            "ALTER DATABASE {database} SET default_transaction_read_only = {word};
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = '{database}' AND pid <> pg_backend_pid();"
        )
    };
    let server = cluster.database.replace(&database, "postgres");
    cluster.postgres.0.execute(&server, &read_only(true)).await;
    eventually("writes are refused", HEALED, || async {
        match cluster.commit(&history, 0, &cluster.document(4)).await {
            Written::Unknown => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Only the setting goes back: whoever keeps its sessions keeps being refused.
    cluster
        .postgres
        .0
        .execute(
            &server,
            &format!("ALTER DATABASE {database} SET default_transaction_read_only = off"),
        )
        .await;
    let revision = writable(&cluster, &history, 5).await;
    cluster.converged(revision, HEALED).await;
    cluster.all_live(HEALED).await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn a_restored_backup_begins_an_epoch_in_which_agents_go_back_to_what_it_holds() {
    let cluster = Cluster::start(2, 2).await.unwrap();
    let history = cluster.watch();
    let document = cluster.document(2);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(2)
    );
    let backup = cluster.postgres.0.back_up(&cluster.database);
    for weight in 3..=5 {
        let document = cluster.document(weight);
        assert_eq!(
            cluster.commit(&history, 0, &document).await,
            Written::Confirmed(weight)
        );
    }
    cluster.converged(5, HEALED).await;
    cluster.postgres.0.restore(&cluster.database, &backup);
    // Without a word of the operator's the agents keep what they have: the lower number looks like
    // a copy that lags behind.
    let config: Value = cluster.get(0, "/admin/v1/gateways/edge").await.unwrap();
    assert_eq!(config["revision"], 2);
    cluster.converged(5, HEALED).await;
    history.epoch_ends();
    let url = format!(
        "{}/admin/v1/control-epoch/renew",
        cluster.apis[0].url("http")
    );
    let renewed = cluster
        .http
        .post(url)
        .bearer_auth(&cluster.token)
        .send()
        .await;
    assert_eq!(renewed.unwrap().status(), 200);
    cluster.converged(2, HEALED).await;
    history.epoch_began();
    let revision = writable(&cluster, &history, 7).await;
    assert_eq!(revision, 3);
    cluster.all_live(HEALED).await;
    history.judge(&cluster).await;
}
