//! Revisions: immutable versions of a gateway's document, numbered by the gateway's counter row.
//!
//! The counter is a row and not a sequence because a sequence hands out numbers in another order
//! than transactions commit, and an agent must never meet a lower number after a higher one. The
//! row is updated first in every write: it is the gateway's lock as well as the number.

use serde_json::{Value, json};

use crate::audit::{self, NewEntry};
use crate::config_store::{Change, ConfigStore, PAGE_MAX};
use crate::engine::{Session, execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::error::Error;
use crate::gateways::{self, KIND};

/// What a revision's columns are read by.
type RevisionRow = (
    String,
    i64,
    String,
    String,
    String,
    String,
    i64,
    Option<i64>,
);

/// One revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The gateway's name.
    pub gateway: String,
    /// The number; grows by one with each write.
    pub number: u64,
    /// The whole document as it was given.
    pub document: Value,
    /// The document's content hash.
    pub hash: String,
    /// Who wrote it.
    pub author: String,
    /// The reason given.
    pub message: String,
    /// Written, wall time in unix milliseconds.
    pub created_ms: u64,
    /// The revision it replaced; `None` for the first of a gateway.
    pub parent: Option<u64>,
}

/// A document about to become a revision.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) gateway: &'a str,
    pub(crate) document: &'a Value,
    pub(crate) hash: &'a str,
    pub(crate) change: &'a Change,
}

impl ConfigStore {
    /// The current revision of a gateway; `None` when there is no such gateway.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn current(&self, gateway: &str) -> Result<Option<Revision>, Error> {
        let mut session = self.engine.session().await?;
        let row: Option<RevisionRow> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT r.gateway, r.number, r.document, r.hash, r.author, r.message,
                        r.created_ms, r.parent
                 FROM gateways g JOIN revisions r ON r.gateway = g.name AND r.number = g.revision
                 WHERE g.name = $1",
            )
            .bind(gateway)
            .fetch_optional(connection)
        })?;
        row.map(revision_of).transpose()
    }

    /// One revision of a gateway; `None` when either does not exist.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn revision(&self, gateway: &str, number: u64) -> Result<Option<Revision>, Error> {
        let mut session = self.engine.session().await?;
        let row: Option<RevisionRow> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT r.gateway, r.number, r.document, r.hash, r.author, r.message,
                        r.created_ms, r.parent
                 FROM gateways g JOIN revisions r ON r.gateway = g.name
                 WHERE g.name = $1 AND r.number = $2",
            )
            .bind(gateway)
            .bind(to_stored(number))
            .fetch_optional(connection)
        })?;
        row.map(revision_of).transpose()
    }

    /// Revisions of a gateway before a number, newest first; `None` begins at the current one.
    /// Empty when there is no such gateway.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn revisions(
        &self,
        gateway: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Revision>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<RevisionRow> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT r.gateway, r.number, r.document, r.hash, r.author, r.message,
                        r.created_ms, r.parent
                 FROM gateways g JOIN revisions r ON r.gateway = g.name
                 WHERE g.name = $1 AND r.number < $2 ORDER BY r.number DESC LIMIT $3",
            )
            .bind(gateway)
            .bind(before.map_or(i64::MAX, to_stored))
            .bind(i64::from(limit.min(PAGE_MAX)))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(revision_of).collect()
    }

    /// Writes a new revision of a gateway. `expected` is the revision the caller has seen; `None`
    /// writes over whatever is there. The document is stored as given: validation is the caller's.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], [`Error::Invalid`], [`Error::Unavailable`];
    /// nothing was written then.
    pub async fn write_revision(
        &self,
        gateway: &str,
        expected: Option<u64>,
        document: &Value,
        hash: &str,
        change: &Change,
    ) -> Result<Revision, Error> {
        change.check()?;
        let mut session = self.engine.begin().await?;
        let written = write(
            &mut session,
            expected,
            Draft {
                gateway,
                document,
                hash,
                change,
            },
        )
        .await;
        session.finish(written).await
    }
}

async fn write(
    session: &mut Session,
    expected: Option<u64>,
    draft: Draft<'_>,
) -> Result<Revision, Error> {
    let missing = || Error::not_found(KIND, draft.gateway);
    let counted: Option<(i64,)> = fetch!(session, connection => {
        sqlx::query_as(
            "UPDATE revision_counters SET last = last + 1 WHERE gateway = $1 RETURNING last",
        )
        .bind(draft.gateway)
            .fetch_optional(connection)
    })?;
    let (number,) = counted.ok_or_else(missing)?;
    // A deleted gateway still has its counter.
    let (current, current_hash) = gateways::current(session, draft.gateway)
        .await?
        .ok_or_else(missing)?;
    if expected.is_some_and(|expected| expected != current) {
        return Err(Error::Conflict { current });
    }
    let revision = insert(session, &draft, from_stored(number)?, Some(current)).await?;
    execute!(
        session,
        sqlx::query(
            "UPDATE gateways SET revision = $2, hash = $3, labels = $4, updated_ms = $5
             WHERE name = $1",
        )
        .bind(draft.gateway)
        .bind(number)
        .bind(draft.hash)
        .bind(gateways::labels_of(draft.document))
        .bind(to_stored(draft.change.now_ms))
    )?;
    let entry = NewEntry::done(
        "config.write",
        gateways::resource(draft.gateway),
        draft.change,
    )
    .before(json!({ "revision": current, "hash": current_hash }))
    .after(json!({ "revision": revision.number, "hash": revision.hash }));
    audit::append(session, entry).await?;
    Ok(revision)
}

/// Inserts the row of a revision whose number the caller has just drawn.
pub(crate) async fn insert(
    session: &mut Session,
    draft: &Draft<'_>,
    number: u64,
    parent: Option<u64>,
) -> Result<Revision, Error> {
    let change = draft.change;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO revisions (gateway, number, document, hash, author, message,
                                    created_ms, parent)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(draft.gateway)
        .bind(to_stored(number))
        .bind(draft.document.to_string())
        .bind(draft.hash)
        .bind(&change.actor)
        .bind(&change.message)
        .bind(to_stored(change.now_ms))
        .bind(parent.map(to_stored))
    )?;
    Ok(Revision {
        gateway: draft.gateway.to_owned(),
        number,
        document: draft.document.clone(),
        hash: draft.hash.to_owned(),
        author: change.actor.clone(),
        message: change.message.clone(),
        created_ms: change.now_ms,
        parent,
    })
}

fn revision_of(row: RevisionRow) -> Result<Revision, Error> {
    let (gateway, number, document, hash, author, message, created_ms, parent) = row;
    let document = serde_json::from_str(&document)
        .map_err(|error| Error::Corrupt(format!("revision {number} of {gateway:?}: {error}")))?;
    Ok(Revision {
        gateway,
        number: from_stored(number)?,
        document,
        hash,
        author,
        message,
        created_ms: from_stored(created_ms)?,
        parent: from_stored_opt(parent)?,
    })
}
