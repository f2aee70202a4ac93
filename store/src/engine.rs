//! One face over the two SQL engines: pools, one borrowed connection at a time, and the macro that
//! expands a statement for each engine.
//!
//! Every statement has a deadline. A connection whose statement was cut short, by the deadline or
//! by a caller that went away, is closed instead of going back to its pool: its next user would
//! otherwise wait for a server that may never answer, or write into a stranger's transaction.

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres, Sqlite, SqlitePool};
use tokio::time::error::Elapsed;

use crate::clock;
use crate::error::Error;
use crate::outage::Outage;

/// The store's name in errors.
pub(crate) const NAME: &str = "configuration database";

/// The longest wait for a connection, which includes opening one.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest a single statement may take. Longer than SQLite's wait for a lock held by another
/// process.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(6);

#[derive(Clone)]
pub(crate) enum Engine {
    Postgres {
        pool: PgPool,
        outage: Arc<Outage>,
    },
    /// SQLite admits one writer at a time and lets the others poll; a pool of one connection queues
    /// them fairly.
    Sqlite {
        readers: SqlitePool,
        writer: SqlitePool,
    },
}

/// A borrowed connection.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    in_transaction: bool,
    /// A statement is under way or was cut short.
    pub(crate) suspect: bool,
}

pub(crate) enum Connection {
    Postgres(PoolConnection<Postgres>),
    Sqlite(PoolConnection<Sqlite>),
}

/// Runs one statement that yields rows on whichever engine the session has. The expression is
/// expanded once per engine, with the connection under the given name, because the drivers' query
/// types are generic over the engine.
macro_rules! fetch {
    ($session:expr, $connection:ident => $statement:expr) => {{
        let session: &mut $crate::engine::Session = $session;
        session.suspect = true;
        let answer = match &mut session.connection {
            $crate::engine::Connection::Postgres(connection) => {
                let $connection = &mut **connection;
                tokio::time::timeout($crate::engine::STATEMENT_TIMEOUT, $statement).await
            }
            $crate::engine::Connection::Sqlite(connection) => {
                let $connection = &mut **connection;
                tokio::time::timeout($crate::engine::STATEMENT_TIMEOUT, $statement).await
            }
        };
        session.settle(answer)
    }};
}
pub(crate) use fetch;

/// Runs one statement that yields no rows; the value is the number of rows it touched.
macro_rules! execute {
    ($session:expr, $query:expr) => {
        $crate::engine::fetch!($session, connection => async {
            $query.execute(connection).await.map(|done| done.rows_affected())
        })
    };
}
pub(crate) use execute;

impl Engine {
    /// A connection for reading.
    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let connection = match self {
            Self::Postgres { pool, outage } => return acquire(pool, outage).await,
            Self::Sqlite { readers, .. } => readers.acquire().await.map(Connection::Sqlite),
        };
        connection.map(Session::new).map_err(classify)
    }

    /// A connection with an open write transaction; end it with [`Session::finish`].
    pub(crate) async fn begin(&self) -> Result<Session, Error> {
        let mut session = match self {
            Self::Postgres { pool, outage } => acquire(pool, outage).await?,
            Self::Sqlite { writer, .. } => {
                let connection = writer.acquire().await.map_err(classify)?;
                Session::new(Connection::Sqlite(connection))
            }
        };
        // A deferred SQLite transaction that reads first fails when another process writes
        // meanwhile; an immediate one waits for its turn before it reads.
        let begin = match session.connection {
            Connection::Postgres(_) => "BEGIN",
            Connection::Sqlite(_) => "BEGIN IMMEDIATE",
        };
        session.in_transaction = true;
        execute!(&mut session, sqlx::raw_sql(begin))?;
        Ok(session)
    }
}

/// A connection to PostgreSQL, or the word at once that there is none to be had for now.
async fn acquire(pool: &PgPool, outage: &Outage) -> Result<Session, Error> {
    if !outage.may_ask(clock::instant(), ACQUIRE_TIMEOUT) {
        return Err(Error::Unavailable {
            store: NAME,
            source: "it did not answer a moment ago".into(),
        });
    }
    match pool.acquire().await {
        Ok(connection) => {
            outage.ended();
            Ok(Session::new(Connection::Postgres(connection)))
        }
        Err(error) => {
            outage.began(clock::instant());
            Err(classify(error))
        }
    }
}

impl Session {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            in_transaction: false,
            suspect: false,
        }
    }

    /// Ends the transaction: commits what succeeded, rolls back what did not.
    pub(crate) async fn finish<T>(mut self, result: Result<T, Error>) -> Result<T, Error> {
        let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
        // A connection in doubt is closed on drop, which rolls back too.
        if !(self.suspect && result.is_err()) {
            let ended = execute!(&mut self, sqlx::raw_sql(end));
            self.in_transaction = ended.is_err();
            if result.is_ok() {
                ended?;
            }
        }
        result
    }

    /// Turns a driver's answer into ours and decides whether the connection may be used again.
    pub(crate) fn settle<T>(
        &mut self,
        answer: Result<Result<T, sqlx::Error>, Elapsed>,
    ) -> Result<T, Error> {
        match answer {
            Ok(Ok(value)) => {
                self.suspect = false;
                Ok(value)
            }
            Ok(Err(error)) => {
                let error = classify(error);
                // A server that has become read-only, or is going down, is left for a new
                // connection to find.
                self.suspect = error.is_unavailable();
                Err(error)
            }
            Err(elapsed) => Err(Error::Unavailable {
                store: NAME,
                source: elapsed.into(),
            }),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.suspect || self.in_transaction {
            match &mut self.connection {
                Connection::Postgres(connection) => connection.close_on_drop(),
                Connection::Sqlite(connection) => connection.close_on_drop(),
            }
        }
    }
}

/// Sorts a driver's error by what the caller can do about it.
pub(crate) fn classify(error: sqlx::Error) -> Error {
    match &error {
        sqlx::Error::Database(inner) => {
            let code = inner.code().unwrap_or_default();
            if let Some(error) = inner.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
                return classify_sqlite(&code, error.to_string());
            }
            // Connection, resources, operator intervention, read-only after a demotion,
            // serialization, deadlock, lock not available. The list is PostgreSQL's appendix of
            // error codes.
            let passing = ["08", "53", "57"]
                .iter()
                .any(|class| code.starts_with(class))
                || ["25006", "40001", "40P01", "55P03"].contains(&code.as_ref());
            if passing {
                Error::Unavailable {
                    store: NAME,
                    source: error.into(),
                }
            } else {
                Error::Internal {
                    store: NAME,
                    source: error.into(),
                }
            }
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Error::Unavailable {
            store: NAME,
            source: error.into(),
        },
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            Error::Corrupt(error.to_string())
        }
        _ => Error::Internal {
            store: NAME,
            source: error.into(),
        },
    }
}

/// The result codes are SQLite's; the low byte of an extended code is the primary one.
fn classify_sqlite(code: &str, text: String) -> Error {
    const BUSY: u32 = 5;
    const LOCKED: u32 = 6;
    const READ_ONLY: u32 = 8;
    const IO: u32 = 10;
    const CORRUPT: u32 = 11;
    const FULL: u32 = 13;
    const CANNOT_OPEN: u32 = 14;
    const NOT_A_DATABASE: u32 = 26;
    match code.parse::<u32>().unwrap_or_default() & 0xff {
        BUSY | LOCKED | READ_ONLY | IO | FULL | CANNOT_OPEN => Error::Unavailable {
            store: NAME,
            source: text.into(),
        },
        CORRUPT | NOT_A_DATABASE => Error::Corrupt(text),
        _ => Error::Internal {
            store: NAME,
            source: text.into(),
        },
    }
}

/// Times and numbers are stored as signed 64-bit integers; nothing this program writes comes near
/// the end of them, and a caller's number beyond it finds nothing.
pub(crate) fn to_stored(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn from_stored(value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| Error::Corrupt(format!("{value} where a count belongs")))
}

pub(crate) fn from_stored_opt(value: Option<i64>) -> Result<Option<u64>, Error> {
    value.map(from_stored).transpose()
}
