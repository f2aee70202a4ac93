//! An empty store per test, on either engine, and the macros that make two tests of one body.

use lanekeeper_store::testing::{PostgresServer, RedisServer};
use lanekeeper_store::{
    Change, ConfigStore, EMBEDDED_FILE, LiveView, MemoryLive, RedisLive, RedisLiveOptions,
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Makes two tests of each case named, one per configuration database.
macro_rules! on_each_engine {
    ($($case:ident,)*) => {$(
        mod $case {
            use crate::stores::TestStore;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$case(TestStore::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$case(TestStore::postgres().await).await;
            }
        }
    )*};
}

/// Makes two tests of each case named, one per live view. A case gets two handles of one view, as
/// two replicas have them; records live for the time given.
macro_rules! on_each_view {
    ($($case:ident($ttl:expr),)*) => {$(
        mod $case {
            #[allow(unused_imports, reason = "cases differ in what their time to live is made of")]
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn memory() {
                let (one, other) = crate::stores::memory_views($ttl);
                super::$case(one, other).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                let (one, other) = crate::stores::redis_views($ttl).await;
                super::$case(one, other).await;
            }
        }
    )*};
}

/// An empty configuration database.
pub(crate) struct TestStore {
    pub(crate) store: ConfigStore,
    place: Place,
}

enum Place {
    Sqlite(TempDir),
    Postgres(String),
}

impl TestStore {
    pub(crate) async fn sqlite() -> Self {
        let folder = TempDir::new().unwrap();
        let store = ConfigStore::open_embedded(folder.path()).await.unwrap();
        Self {
            store,
            place: Place::Sqlite(folder),
        }
    }

    pub(crate) async fn postgres() -> Self {
        let url = PostgresServer::shared().await.create_database().await;
        let store = ConfigStore::connect(&url).await.unwrap();
        Self {
            store,
            place: Place::Postgres(url),
        }
    }

    /// A second handle with connections of its own, as another process has one.
    pub(crate) async fn another(&self) -> ConfigStore {
        match &self.place {
            Place::Sqlite(folder) => ConfigStore::open_embedded(folder.path()).await.unwrap(),
            Place::Postgres(url) => ConfigStore::connect(url).await.unwrap(),
        }
    }

    /// Runs a statement behind the store's back.
    pub(crate) async fn tamper(&self, sql: &str) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        match &self.place {
            Place::Sqlite(folder) => {
                let url = format!("sqlite://{}", folder.path().join(EMBEDDED_FILE).display());
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                sql.execute(&mut connection).await.unwrap();
            }
            Place::Postgres(url) => {
                let mut connection = PgConnection::connect(url).await.unwrap();
                sql.execute(&mut connection).await.unwrap();
            }
        }
    }
}

pub(crate) fn memory_views(ttl: Duration) -> (Arc<dyn LiveView>, Arc<dyn LiveView>) {
    let view = Arc::new(MemoryLive::with_ttl(ttl));
    (view.clone(), view)
}

pub(crate) async fn redis_views(ttl: Duration) -> (Arc<dyn LiveView>, Arc<dyn LiveView>) {
    let url = RedisServer::shared().await.url();
    let prefix = TempDir::with_prefix("view-")
        .unwrap()
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let options = RedisLiveOptions { prefix, ttl };
    let one = RedisLive::connect_with(&url, options.clone())
        .await
        .unwrap();
    let other = RedisLive::connect_with(&url, options).await.unwrap();
    (Arc::new(one), Arc::new(other))
}

/// A change by an actor at a time.
pub(crate) fn change(actor: &str, now_ms: u64) -> Change {
    Change {
        actor: actor.to_owned(),
        actor_id: String::new(),
        message: "because".to_owned(),
        now_ms,
        idempotency: None,
    }
}
