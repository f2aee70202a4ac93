//! The configuration database: gateways and their revisions, the audit trail, tokens and the
//! agents' last facts.
//!
//! PostgreSQL for several replicas, a SQLite file in the data directory for a single server; the
//! same SQL text runs on both. Locks are always taken in one order (a gateway's counter row or the
//! token row, then the end of the audit chain), so that writers queue and never deadlock.

use crate::engine::{Engine, fetch};
use crate::error::Error;

/// The configuration database. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct ConfigStore {
    pub(crate) engine: Engine,
}

impl std::fmt::Debug for ConfigStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let engine = match self.engine {
            Engine::Postgres { .. } => "postgres",
            Engine::Sqlite { .. } => "sqlite",
        };
        f.debug_struct("ConfigStore")
            .field("engine", &engine)
            .finish()
    }
}

impl ConfigStore {
    /// Answers when the database does.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn ping(&self) -> Result<(), Error> {
        let mut session = self.engine.session().await?;
        let (_one,): (i64,) = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT id FROM control_state WHERE id = 1").fetch_one(connection)
        })?;
        Ok(())
    }

    /// Closes all connections; for an orderly end.
    pub async fn close(&self) {
        match &self.engine {
            Engine::Postgres { pool, .. } => pool.close().await,
            Engine::Sqlite { readers, writer } => {
                readers.close().await;
                writer.close().await;
            }
        }
    }
}
