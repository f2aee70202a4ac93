//! The first connection to PostgreSQL: what keeps it away is told apart, because the one who started
//! this program has to mend it.

use std::io;

use sqlx::ConnectOptions;
use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use crate::engine::{ACQUIRE_TIMEOUT, NAME, classify};
use crate::error::{Error, Source};

/// PostgreSQL's codes for a user that it does not know and for a wrong password.
const REFUSED: [&str; 2] = ["28000", "28P01"];
/// PostgreSQL's code for a database that does not exist.
const NO_DATABASE: &str = "3D000";

/// What is away.
#[derive(Debug, thiserror::Error)]
enum Absence {
    #[error("its host {0} is not known")]
    Host(String, #[source] io::Error),
    #[error("nothing listens at {0}:{1} yet")]
    Server(String, u16, #[source] io::Error),
    #[error("{0}:{1} did not answer in time")]
    Answer(String, u16),
    #[error("its server is up but has no such database")]
    Database(#[source] sqlx::Error),
}

/// Opens one connection.
///
/// # Errors
///
/// [`Error::Unavailable`] for what may pass by itself, [`Error::Address`] when user or password are
/// refused.
pub(crate) async fn dial(options: &PgConnectOptions) -> Result<PgConnection, Error> {
    let (host, port) = (options.get_host().to_owned(), options.get_port());
    let away = |absence: Absence| Error::Unavailable {
        store: NAME,
        source: absence.into(),
    };
    if options.get_socket().is_none() {
        // The driver says neither whether it was the name that failed, nor which one.
        let found = tokio::net::lookup_host((host.as_str(), port)).await;
        let _addresses = found.map_err(|error| away(Absence::Host(host.clone(), error)))?;
    }
    match tokio::time::timeout(ACQUIRE_TIMEOUT, options.connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(sqlx::Error::Io(error))) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Err(away(Absence::Server(host, port, error)))
        }
        Ok(Err(error)) => Err(unreached(error)),
        Err(_) => Err(away(Absence::Answer(host, port))),
    }
}

fn unreached(error: sqlx::Error) -> Error {
    let code = match &error {
        sqlx::Error::Database(inner) => inner.code().unwrap_or_default().into_owned(),
        _ => String::new(),
    };
    if REFUSED.contains(&code.as_str()) {
        // What the server says names the user and no password.
        return Error::Address {
            store: NAME,
            reason: format!("the server refuses its user or password: {error}"),
        };
    }
    if code == NO_DATABASE {
        return Error::Unavailable {
            store: NAME,
            source: Absence::Database(error).into(),
        };
    }
    classify(error)
}

/// What a migration met: a server that went away may come back, all else stays.
pub(crate) fn unmigrated(error: MigrateError) -> Error {
    let (MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) = error else {
        return Error::Migration(error.into());
    };
    match classify(cause) {
        away @ Error::Unavailable { .. } => away,
        stays => Error::Migration(Source::from(stays)),
    }
}
