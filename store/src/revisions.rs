//! Revisions: immutable versions of a gateway's document, numbered by the gateway's counter row.
//!
//! The counter is a row and not a sequence because a sequence hands out numbers in another order
//! than transactions commit, and an agent must never meet a lower number after a higher one. The
//! row is updated first in every write: it is the gateway's lock as well as the number.

use lanekeeper_model::rollout::RolloutPlan;
use serde_json::{Value, json};

use crate::audit::{self, NewEntry};
use crate::config_store::{Change, ConfigStore, PAGE_MAX};
use crate::engine::{Session, execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::error::Error;
use crate::gateways::{self, KIND};
use crate::rollouts;

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

/// How a new revision is written.
#[derive(Debug)]
pub(crate) struct Manner {
    /// What the audit trail calls it.
    pub(crate) action: &'static str,
    /// How agents get it.
    pub(crate) spread: Spread,
}

/// How agents get a new revision.
#[derive(Debug)]
pub(crate) enum Spread {
    /// As the gateway's plan says.
    ByPlan,
    /// In a rollout by this plan.
    Rollout(RolloutPlan),
    /// All of them at once, whatever the plan.
    AtOnce,
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
        let draft = Draft {
            gateway,
            document,
            hash,
            change,
        };
        let written = async {
            let number = draw_number(&mut session, gateway).await?;
            let manner = Manner {
                action: "config.write",
                spread: Spread::ByPlan,
            };
            write(&mut session, expected, draft, number, manner).await
        }
        .await;
        session.finish(written).await
    }
}

/// Draws the number of a gateway's next revision, which takes the gateway's lock.
pub(crate) async fn draw_number(session: &mut Session, gateway: &str) -> Result<u64, Error> {
    let counted: Option<(i64,)> = fetch!(session, connection => {
        sqlx::query_as(
            "UPDATE revision_counters SET last = last + 1 WHERE gateway = $1 RETURNING last",
        )
        .bind(gateway)
        .fetch_optional(connection)
    })?;
    let (number,) = counted.ok_or_else(|| Error::not_found(KIND, gateway))?;
    from_stored(number)
}

/// Writes a revision under a number that was drawn before in the same transaction.
pub(crate) async fn write(
    session: &mut Session,
    expected: Option<u64>,
    draft: Draft<'_>,
    number: u64,
    manner: Manner,
) -> Result<Revision, Error> {
    let missing = || Error::not_found(KIND, draft.gateway);
    // A deleted gateway still has its counter.
    let (current, current_hash) = gateways::current(session, draft.gateway)
        .await?
        .ok_or_else(missing)?;
    if expected.is_some_and(|expected| expected != current) {
        return Err(Error::Conflict { current });
    }
    let revision = insert(session, &draft, number, Some(current)).await?;
    execute!(
        session,
        sqlx::query(
            "UPDATE gateways SET revision = $2, hash = $3, labels = $4, updated_ms = $5
             WHERE name = $1",
        )
        .bind(draft.gateway)
        .bind(to_stored(number))
        .bind(draft.hash)
        .bind(gateways::labels_of(draft.document))
        .bind(to_stored(draft.change.now_ms))
    )?;
    let replaced = (current, current_hash.clone());
    rollouts::follow(session, &revision, replaced, manner.spread).await?;
    let resource = gateways::resource(draft.gateway);
    let entry = NewEntry::done(manner.action, resource, draft.change)
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
