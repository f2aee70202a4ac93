//! Opens the configuration database on either engine and brings its tables up to date.

use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::config_store::ConfigStore;
use crate::dial::{dial, unmigrated};
use crate::engine::{ACQUIRE_TIMEOUT, Engine, NAME, classify, execute};
use crate::error::Error;
use crate::migrations::migrator;
use crate::{audit, enrolment, random};

/// The embedded database's file inside the data directory.
pub const EMBEDDED_FILE: &str = "lanekeeper.db";

/// Connections of one process to PostgreSQL.
const POSTGRES_CONNECTIONS_MAX: u32 = 10;
/// Reading connections of one process to the embedded database.
const SQLITE_READERS_MAX: u32 = 4;
/// The longest SQLite waits for a lock that another process holds; below the statement time-out.
const BUSY_TIMEOUT: Duration = Duration::from_secs(4);
/// The longest the migrations may take, waiting for another replica's included.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at the migration lock of an embedded database.
const MIGRATION_LOCK_POLL: Duration = Duration::from_millis(20);
/// PostgreSQL's own bounds, in milliseconds. The second frees the locks of a replica that froze in
/// a transaction.
const POSTGRES_SETTINGS: [(&str, &str); 3] = [
    ("statement_timeout", "5000"),
    ("idle_in_transaction_session_timeout", "10000"),
    ("lock_timeout", "5000"),
];

impl ConfigStore {
    /// Opens the database file `lanekeeper.db` in a directory, creating both when missing, and
    /// brings its tables up to date. Other processes of the same host may have it open at the same
    /// time.
    ///
    /// # Errors
    /// [`Error::DataDir`] when the directory cannot be used, [`Error::Migration`] or
    /// [`Error::Unavailable`] when the file cannot.
    pub async fn open_embedded(dir: &Path) -> Result<Self, Error> {
        let unusable = |source| Error::DataDir {
            path: dir.to_owned(),
            source,
        };
        // Documents name internal hosts, so a directory that is made here is the owner's alone.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(unusable)?;
        let file = dir.join(EMBEDDED_FILE);
        // A directory that was there may be open to others, so the file is made before SQLite makes
        // it; its companions get the same rights.
        File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&file)
            .map_err(unusable)?;
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL may lose the last commits when the power fails; an acknowledged write is never
            // lost.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .disable_statement_logging();

        // SQLite has no lock that spans several migrations, and switching to WAL is refused while
        // others are connected: first comers take turns. The lock goes with the file handle.
        let turn = migration_turn(dir).await?;
        let mut connection = options.connect().await.map_err(classify)?;
        tokio::time::timeout(
            MIGRATION_TIMEOUT,
            migrator().run_direct(None, &mut connection, false),
        )
        .await
        .map_err(|elapsed| Error::Unavailable {
            store: NAME,
            source: elapsed.into(),
        })?
        .map_err(|error| Error::Migration(error.into()))?;
        sqlx::Connection::close(connection)
            .await
            .map_err(classify)?;
        drop(turn);

        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(ACQUIRE_TIMEOUT)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
                .connect_lazy_with(options.clone())
        };
        let engine = Engine::Sqlite {
            readers: pool(SQLITE_READERS_MAX),
            writer: pool(1),
        };
        Self::start(engine).await
    }

    /// Connects to PostgreSQL by a `postgres://` URL and brings its tables up to date.
    ///
    /// # Errors
    /// [`Error::Address`] for another kind of URL and for one whose user or password is refused,
    /// [`Error::Unavailable`] when the server cannot be reached, with a source that tells an unknown
    /// host from a server that is not up, [`Error::Migration`] when its tables cannot be brought up to date.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            return Err(Error::Address {
                store: NAME,
                reason: "it must begin with postgres://".to_owned(),
            });
        }
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| Error::Address {
                store: NAME,
                reason: "not a URL".to_owned(),
            })?
            .application_name("lanekeeper")
            .disable_statement_logging();

        // Without the pool's short statement time-out: a migration may take long, or wait for
        // another replica's.
        let mut connection = dial(&options).await?;
        let migrated = async {
            migrator()
                .run_direct(None, &mut connection, false)
                .await
                .map_err(unmigrated)?;
            sqlx::Connection::close(connection).await.map_err(classify)
        };
        tokio::time::timeout(MIGRATION_TIMEOUT, migrated)
            .await
            .map_err(|elapsed| Error::Unavailable {
                store: NAME,
                source: elapsed.into(),
            })??;

        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options.options(POSTGRES_SETTINGS));
        let engine = Engine::Postgres {
            pool,
            outage: Arc::default(),
        };
        Self::start(engine).await
    }

    /// Writes the rows that every database has exactly one of.
    async fn start(engine: Engine) -> Result<Self, Error> {
        let mut session = engine.begin().await?;
        let written = async {
            execute!(
                &mut session,
                sqlx::query(
                    "INSERT INTO control_state (id, epoch, token_changes) VALUES (1, $1, 0)
                     ON CONFLICT (id) DO NOTHING",
                )
                .bind(random::identifier())
            )?;
            enrolment::start(&mut session).await?;
            audit::start(&mut session).await
        }
        .await;
        session.finish(written).await?;
        Ok(Self { engine })
    }
}

/// Waits for the right to migrate the embedded database.
async fn migration_turn(dir: &Path) -> Result<File, Error> {
    let unusable = |source| Error::DataDir {
        path: dir.to_owned(),
        source,
    };
    let path = dir.join(format!("{EMBEDDED_FILE}.lock"));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(unusable)?;
    let waited = tokio::time::timeout(MIGRATION_TIMEOUT, async {
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(MIGRATION_LOCK_POLL).await,
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
            }
        }
    });
    waited.await.map_err(|elapsed| Error::Unavailable {
        store: NAME,
        source: elapsed.into(),
    })??;
    Ok(file)
}
