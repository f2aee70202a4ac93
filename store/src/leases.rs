//! Leases: which replica does what one alone should do.
//!
//! A lease spares work and keeps order; it is no lock. Clocks differ, and a replica may stand still
//! between taking a lease and a write, so what may happen only once is decided by conditions on the
//! rows that it writes.

use crate::config_store::ConfigStore;
use crate::engine::{execute, to_stored};
use crate::error::Error;

impl ConfigStore {
    /// Takes or renews a lease until a time, unix milliseconds; false when another one holds it.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn hold_lease(
        &self,
        name: &str,
        holder: &str,
        now_ms: u64,
        expires_ms: u64,
    ) -> Result<bool, Error> {
        let mut session = self.engine.begin().await?;
        let taken = execute!(
            &mut session,
            sqlx::query(
                "INSERT INTO leases (name, holder, expires_ms) VALUES ($1, $2, $3)
                 ON CONFLICT (name) DO UPDATE SET holder = $2, expires_ms = $3
                 WHERE leases.holder = $2 OR leases.expires_ms <= $4",
            )
            .bind(name)
            .bind(holder)
            .bind(to_stored(expires_ms))
            .bind(to_stored(now_ms))
        );
        session.finish(taken).await.map(|rows| rows > 0)
    }

    /// Gives a lease up, if this holder has it, so that another replica need not wait for its end.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn drop_lease(&self, name: &str, holder: &str) -> Result<(), Error> {
        let mut session = self.engine.begin().await?;
        let dropped = execute!(
            &mut session,
            sqlx::query("DELETE FROM leases WHERE name = $1 AND holder = $2")
                .bind(name)
                .bind(holder)
        );
        session.finish(dropped).await.map(|_| ())
    }
}
