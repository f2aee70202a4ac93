//! Writes that may be sent twice: a key given with a change is stored in the change's own
//! transaction, so that however often a client repeats itself the change is made once.
//!
//! Only changes that were made are remembered. A refused one may be tried again under its key.

use crate::change::IdempotencyKey;
use crate::engine::{Session, execute, fetch, to_stored};
use crate::error::Error;

/// How long a key is remembered, in milliseconds: a day, as long as clients of other APIs expect.
pub const IDEMPOTENCY_TTL_MS: u64 = 24 * 60 * 60 * 1000;
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
