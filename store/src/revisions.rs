//! Revisions: immutable versions of a gateway's document, numbered by the gateway's counter row.
//!
//! The counter is a row and not a sequence because a sequence hands out numbers in another order
//! than transactions commit, and an agent must never meet a lower number after a higher one. The
//! row is updated first in every write: it is the gateway's lock as well as the number.

use serde_json::Value;

use crate::change::{Change, PAGE_MAX};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::error::Error;

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

/// The document of a revision.
pub(crate) async fn document(
    session: &mut Session,
    gateway: &str,
    number: u64,
) -> Result<Value, Error> {
    let (document,): (String,) = fetch!(session, connection => {
        sqlx::query_as("SELECT document FROM revisions WHERE gateway = $1 AND number = $2")
            .bind(gateway)
            .bind(to_stored(number))
            .fetch_one(connection)
    })?;
    serde_json::from_str(&document)
        .map_err(|error| Error::Corrupt(format!("revision {number} of {gateway:?}: {error}")))
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
