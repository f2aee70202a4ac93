//! The answer to a write that is sent again: what is stored of a change that was made under a key.

use crate::audit::{self, AuditEntry};
use crate::change::IdempotencyKey;
use crate::config_store::ConfigStore;
use crate::engine::{execute, fetch, to_stored};
use crate::error::Error;
use crate::idempotency::IDEMPOTENCY_TTL_MS;

/// The longest answer that is kept for a repetition, in bytes.
pub const IDEMPOTENT_ANSWER_MAX: usize = 64 * 1024;

/// A change that was made under a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// The digest of the request that made it.
    pub fingerprint: String,
    /// What the server answered, as it was kept; `None` when it died before it could keep it, or
    /// the answer held a secret.
    pub answer: Option<String>,
    /// What the audit trail says of the change.
    pub entry: AuditEntry,
}

impl ConfigStore {
    /// The change that was made under a key by the owner of a token; `None` when there was none in
    /// the last day.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn remembered(
        &self,
        actor_id: &str,
        key: &str,
        now_ms: u64,
    ) -> Result<Option<Remembered>, Error> {
        let mut session = self.engine.session().await?;
        let row: Option<(String, i64, Option<String>)> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT fingerprint, audit_seq, answer FROM idempotency_keys
                 WHERE actor_id = $1 AND idempotency_key = $2 AND created_ms >= $3",
            )
            .bind(actor_id)
            .bind(key)
            .bind(to_stored(now_ms.saturating_sub(IDEMPOTENCY_TTL_MS)))
            .fetch_optional(connection)
        })?;
        let Some((fingerprint, audit_seq, answer)) = row else {
            return Ok(None);
        };
        let entry = audit::one(&mut session, audit_seq).await?.ok_or_else(|| {
            Error::Corrupt(format!(
                "a key names the audit entry {audit_seq}, which is missing"
            ))
        })?;
        Ok(Some(Remembered {
            fingerprint,
            answer,
            entry,
        }))
    }

    /// Keeps what was answered to the request that made a change under a key. An answer that is
    /// too long is not kept.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: a repetition then gets an answer made from the audit trail.
    pub async fn keep_answer(
        &self,
        actor_id: &str,
        key: &IdempotencyKey,
        answer: &str,
    ) -> Result<(), Error> {
        if answer.len() > IDEMPOTENT_ANSWER_MAX {
            return Ok(());
        }
        let mut session = self.engine.begin().await?;
        let written = execute!(
            &mut session,
            sqlx::query(
                "UPDATE idempotency_keys SET answer = $4
                 WHERE actor_id = $1 AND idempotency_key = $2 AND attempt = $3",
            )
            .bind(actor_id)
            .bind(&key.key)
            .bind(&key.attempt)
            .bind(answer)
        )
        .map(|_| ());
        session.finish(written).await
    }
}
