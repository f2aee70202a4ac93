//! Writes that may be sent twice: a key given with a change is stored in the change's own
//! transaction, so that however often a client repeats itself the change is made once.
//!
//! Only changes that were made are remembered. A refused one may be tried again under its key.

use crate::audit::{self, AuditEntry};
use crate::config_store::{ConfigStore, check_text};
use crate::engine::{Session, execute, fetch, to_stored};
use crate::error::Error;
use crate::random;

/// How long a key is remembered, in milliseconds: a day, as long as clients of other APIs expect.
pub const IDEMPOTENCY_TTL_MS: u64 = 24 * 60 * 60 * 1000;
/// The longest key, in bytes.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;
/// The longest answer that is kept for a repetition, in bytes.
pub const IDEMPOTENT_ANSWER_MAX: usize = 64 * 1024;

/// The key of one request, as its sender chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    key: String,
    /// What the request asks for: two requests with one key must ask for the same.
    fingerprint: String,
    /// This request, among repetitions that run at the same time. All writes of one request are
    /// one attempt.
    attempt: String,
}

impl IdempotencyKey {
    /// A key for one request. `fingerprint` is a digest of all that decides what it does.
    #[must_use]
    pub fn new(key: &str, fingerprint: &str) -> Self {
        Self {
            key: key.to_owned(),
            fingerprint: fingerprint.to_owned(),
            attempt: random::identifier(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        check_text("idempotency key", &self.key)
    }
}

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

/// Notes that a change is made under its key, in the change's transaction.
///
/// # Errors
/// [`Error::AlreadyDone`] when another request has made it.
pub(crate) async fn remember(
    session: &mut Session,
    actor_id: &str,
    key: &IdempotencyKey,
    audit_seq: i64,
    now_ms: u64,
) -> Result<(), Error> {
    let oldest = to_stored(now_ms.saturating_sub(IDEMPOTENCY_TTL_MS));
    execute!(
        session,
        sqlx::query("DELETE FROM idempotency_keys WHERE created_ms < $1").bind(oldest)
    )?;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO idempotency_keys
                 (actor_id, idempotency_key, attempt, fingerprint, audit_seq, created_ms)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (actor_id, idempotency_key) DO NOTHING",
        )
        .bind(actor_id)
        .bind(&key.key)
        .bind(&key.attempt)
        .bind(&key.fingerprint)
        .bind(audit_seq)
        .bind(to_stored(now_ms))
    )?;
    let (attempt,): (String,) = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT attempt FROM idempotency_keys WHERE actor_id = $1 AND idempotency_key = $2",
        )
        .bind(actor_id)
        .bind(&key.key)
        .fetch_one(connection)
    })?;
    if attempt == key.attempt {
        Ok(())
    } else {
        Err(Error::AlreadyDone)
    }
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
