//! Enrolment: what lets agents in, which agents hold certificates, and whose signature counts.
//!
//! Join tokens are `id.secret` and stored like API tokens, as a hash. Certificates themselves are
//! not stored: an identity's row tells until when its latest one lasts, which is how long a
//! revocation has to be remembered. Writers take the enrolment row first, then token, identity and
//! audit rows; enrolling itself starts at the token's row, which nobody takes before the first.

mod authorities;
mod identities;
mod join_tokens;

pub use authorities::{AUTHORITIES_MAX, Authority};
pub use identities::{IDENTITIES_MAX, Identity, NewIdentity, Renewal};
pub use join_tokens::{JOIN_TOKENS_MAX, JoinToken, NewJoinToken};

use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored};
use crate::error::Error;

impl ConfigStore {
    /// Counts the changes that control planes have to hear of: a new authority, a revocation. The
    /// same number means that nothing changed.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn enrolment_changes(&self) -> Result<u64, Error> {
        let mut session = self.engine.session().await?;
        let (changes,): (i64,) = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT changes FROM enrolment_state WHERE id = 1")
                .fetch_one(connection)
        })?;
        from_stored(changes)
    }
}

/// Writes the row that every database has one of.
pub(crate) async fn start(session: &mut Session) -> Result<(), Error> {
    execute!(
        session,
        sqlx::query(
            "INSERT INTO enrolment_state (id, changes) VALUES (1, 0) ON CONFLICT (id) DO NOTHING",
        )
    )?;
    Ok(())
}

/// Makes writers take turns, and readers read again.
pub(crate) async fn lock(session: &mut Session) -> Result<(), Error> {
    execute!(
        session,
        sqlx::query("UPDATE enrolment_state SET changes = changes + 1 WHERE id = 1")
    )?;
    Ok(())
}
