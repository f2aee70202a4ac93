//! The audit trail: one entry per change, in the change's own transaction, each holding the hash of
//! the one before.
//!
//! Whoever edits, removes or reorders entries has to rewrite everything after them and the head row
//! as well; a copy of any later hash kept elsewhere then still tells. Refused attempts are entries
//! too, in transactions of their own.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::change::{Change, PAGE_MAX, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, to_stored};
use crate::error::Error;
use crate::idempotency;
use crate::random::hex;

/// What the first entry has for the hash of the one before.
const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// What an entry's columns are read by, in the order of [`EntryRow`].
type EntryRow = (
    i64,
    i64,
    String,
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    String,
    String,
);

/// Whether the change an entry tells of was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It was made, in the entry's own transaction.
    Done,
    /// It was refused; nothing else was written.
    Refused,
}

impl AuditOutcome {
    /// The word stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }

    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "done" => Ok(Self::Done),
            "refused" => Ok(Self::Refused),
            _ => Err(Error::Corrupt(format!(
                "an audit entry's outcome is {text:?}"
            ))),
        }
    }
}

/// One entry of the audit trail.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// Position in the chain, from 1 without gaps; the entry's id.
    pub seq: u64,
    /// Wall time in unix milliseconds.
    pub at_ms: u64,
    /// Who did it: a token's name, with its id in brackets.
    pub actor: String,
    /// What was done, `noun.verb`, such as `gateway.create`.
    pub action: String,
    /// To what, as a path such as `gateways/edge`.
    pub resource: String,
    /// Whether it was made.
    pub outcome: AuditOutcome,
    /// The reason given.
    pub message: String,
    /// What was there, in short; documents are in the revisions.
    pub before: Option<Value>,
    /// What is there now, in short.
    pub after: Option<Value>,
    /// The hash of the entry before, 64 zeros for the first.
    pub prev_hash: String,
    /// SHA-256 over this entry and `prev_hash`, in hex.
    pub hash: String,
}

/// What a look at the whole chain found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditVerdict {
    /// Entries that were looked at.
    pub entries: u64,
    /// The first place where the chain does not hold: the position, and what is wrong there.
    pub fault: Option<(u64, &'static str)>,
}

/// An entry before it has its place in the chain.
pub(crate) struct NewEntry<'a> {
    action: &'static str,
    resource: String,
    outcome: AuditOutcome,
    change: &'a Change,
    before: Option<Value>,
    after: Option<Value>,
}

impl<'a> NewEntry<'a> {
    pub(crate) fn done(action: &'static str, resource: String, change: &'a Change) -> Self {
        Self {
            action,
            resource,
            outcome: AuditOutcome::Done,
            change,
            before: None,
            after: None,
        }
    }

    pub(crate) fn before(self, before: Value) -> Self {
        Self {
            before: Some(before),
            ..self
        }
    }

    pub(crate) fn after(self, after: Value) -> Self {
        Self {
            after: Some(after),
            ..self
        }
    }
}

/// The exact texts an entry is hashed over. A JSON array keeps the fields apart whatever they
/// contain.
#[derive(serde::Serialize)]
struct Hashed<'a>(
    u64,
    u64,
    &'a str,
    &'a str,
    &'a str,
    &'a str,
    &'a str,
    Option<&'a str>,
    Option<&'a str>,
    &'a str,
);

impl Hashed<'_> {
    fn hash(&self) -> Result<String, Error> {
        let bytes = serde_json::to_vec(self).map_err(|error| Error::Corrupt(error.to_string()))?;
        Ok(hex(&Sha256::digest(bytes)))
    }
}

/// Writes the head row of an empty chain.
pub(crate) async fn start(session: &mut Session) -> Result<(), Error> {
    execute!(
        session,
        sqlx::query(
            "INSERT INTO audit_head (id, seq, hash) VALUES (1, 0, $1) ON CONFLICT (id) DO NOTHING",
        )
        .bind(GENESIS)
    )?;
    Ok(())
}

/// Adds an entry in the transaction of the change it tells of. The head row is locked until that
/// one ends.
pub(crate) async fn append(session: &mut Session, entry: NewEntry<'_>) -> Result<(), Error> {
    let (seq, prev_hash): (i64, String) = fetch!(session, connection => {
        sqlx::query_as("UPDATE audit_head SET seq = seq + 1 WHERE id = 1 RETURNING seq, hash")
            .fetch_one(connection)
    })?;
    let before = entry.before.map(|value| value.to_string());
    let after = entry.after.map(|value| value.to_string());
    let change = entry.change;
    let actor = change.signature();
    let at_ms = to_stored(change.now_ms);
    let hash = Hashed(
        from_stored(seq)?,
        from_stored(at_ms)?,
        &actor,
        entry.action,
        &entry.resource,
        entry.outcome.as_str(),
        &change.message,
        before.as_deref(),
        after.as_deref(),
        &prev_hash,
    )
    .hash()?;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO audit (seq, at_ms, actor, action, resource, outcome, message,
                                before_json, after_json, prev_hash, hash)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        )
        .bind(seq)
        .bind(at_ms)
        .bind(&actor)
        .bind(entry.action)
        .bind(&entry.resource)
        .bind(entry.outcome.as_str())
        .bind(&change.message)
        .bind(before.as_deref())
        .bind(after.as_deref())
        .bind(&prev_hash)
        .bind(&hash)
    )?;
    execute!(
        session,
        sqlx::query("UPDATE audit_head SET hash = $1 WHERE id = 1").bind(&hash)
    )?;
    match &change.idempotency {
        Some(key) if entry.outcome == AuditOutcome::Done => {
            idempotency::remember(session, &change.actor_id, key, seq, change.now_ms).await
        }
        Some(_) | None => Ok(()),
    }
}

/// One entry by its place in the chain.
pub(crate) async fn one(session: &mut Session, seq: i64) -> Result<Option<AuditEntry>, Error> {
    let row: Option<EntryRow> = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT seq, at_ms, actor, action, resource, outcome, message,
                    before_json, after_json, prev_hash, hash
             FROM audit WHERE seq = $1",
        )
        .bind(seq)
        .fetch_optional(connection)
    })?;
    row.as_ref().map(entry_of).transpose()
}

impl ConfigStore {
    /// Audit entries after a position, oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn audit(&self, after: Option<u64>, limit: u32) -> Result<Vec<AuditEntry>, Error> {
        self.entries(after, limit)
            .await?
            .iter()
            .map(entry_of)
            .collect()
    }

    /// Audit entries before a position, newest first; `None` begins at the end.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn audit_latest(
        &self,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<EntryRow> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT seq, at_ms, actor, action, resource, outcome, message,
                        before_json, after_json, prev_hash, hash
                 FROM audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2",
            )
            .bind(before.map_or(i64::MAX, to_stored))
            .bind(i64::from(limit.min(PAGE_MAX)))
            .fetch_all(connection)
        })?;
        rows.iter().map(entry_of).collect()
    }

    /// Records an attempt that was refused before it reached the store.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Invalid`].
    pub async fn record_refused(
        &self,
        action: &'static str,
        resource: &str,
        reason: &str,
        change: &Change,
    ) -> Result<(), Error> {
        change.check()?;
        check_text("resource", resource)?;
        let entry = NewEntry {
            outcome: AuditOutcome::Refused,
            ..NewEntry::done(action, resource.to_owned(), change)
        }
        .after(serde_json::json!({ "reason": reason }));
        let mut session = self.engine.begin().await?;
        let written = append(&mut session, entry).await;
        session.finish(written).await
    }

    /// Recomputes the whole chain, page by page.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`]; a broken chain is an answer, not an error.
    pub async fn verify_audit(&self) -> Result<AuditVerdict, Error> {
        let mut session = self.engine.session().await?;
        let (head, head_hash): (i64, String) = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT seq, hash FROM audit_head WHERE id = 1").fetch_one(connection)
        })?;
        drop(session);
        let head = from_stored(head)?;
        let mut seq = 0;
        let mut prev_hash = GENESIS.to_owned();
        while seq < head {
            let rows = self.entries(Some(seq), PAGE_MAX).await?;
            if rows.is_empty() {
                return Ok(AuditVerdict {
                    entries: seq,
                    fault: Some((seq + 1, "entry is missing")),
                });
            }
            for row in rows {
                seq += 1;
                if let Some(fault) = fault_of(&row, seq, &prev_hash)? {
                    return Ok(AuditVerdict {
                        entries: seq,
                        fault: Some((seq, fault)),
                    });
                }
                prev_hash = row.10;
                if seq == head {
                    break;
                }
            }
        }
        let fault = (prev_hash != head_hash).then_some((head, "the head has another hash"));
        Ok(AuditVerdict {
            entries: seq,
            fault,
        })
    }

    async fn entries(&self, after: Option<u64>, limit: u32) -> Result<Vec<EntryRow>, Error> {
        let mut session = self.engine.session().await?;
        fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT seq, at_ms, actor, action, resource, outcome, message,
                        before_json, after_json, prev_hash, hash
                 FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2",
            )
            .bind(to_stored(after.unwrap_or_default()))
            .bind(i64::from(limit.min(PAGE_MAX)))
            .fetch_all(connection)
        })
    }
}

/// What is wrong with the entry that should be the one at `seq`.
fn fault_of(row: &EntryRow, seq: u64, prev_hash: &str) -> Result<Option<&'static str>, Error> {
    if row.0 != to_stored(seq) {
        return Ok(Some("entry is missing"));
    }
    if row.9 != prev_hash {
        return Ok(Some("does not follow the entry before"));
    }
    let hash = Hashed(
        seq,
        from_stored(row.1)?,
        &row.2,
        &row.3,
        &row.4,
        &row.5,
        &row.6,
        row.7.as_deref(),
        row.8.as_deref(),
        &row.9,
    )
    .hash()?;
    Ok((hash != row.10).then_some("was changed"))
}

fn entry_of(row: &EntryRow) -> Result<AuditEntry, Error> {
    let value = |text: &Option<String>| {
        text.as_deref()
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| Error::Corrupt(format!("audit entry {}: {error}", row.0)))
    };
    Ok(AuditEntry {
        seq: from_stored(row.0)?,
        at_ms: from_stored(row.1)?,
        actor: row.2.clone(),
        action: row.3.clone(),
        resource: row.4.clone(),
        outcome: AuditOutcome::parse(&row.5)?,
        message: row.6.clone(),
        before: value(&row.7)?,
        after: value(&row.8)?,
        prev_hash: row.9.clone(),
        hash: row.10.clone(),
    })
}
