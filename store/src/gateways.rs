//! Gateways: named configurations, each with its current revision.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::audit::{self, NewEntry};
use crate::change::{Change, PAGE_MAX, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, to_stored};
use crate::error::Error;
use crate::gateway_row::{KIND, current, labels_of, lock, resource};
use crate::overrides;
use crate::revisions::{self, Draft, Revision};
use crate::rollout_rows;

/// What a gateway's columns are read by.
type GatewayColumns = (String, i64, String, String, i64, i64);

/// One line of the list of gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayRow {
    /// The gateway's name.
    pub name: String,
    /// Its current revision.
    pub revision: u64,
    /// The hash of the current document.
    pub hash: String,
    /// The `labels` of the current document.
    pub labels: BTreeMap<String, String>,
    /// Created, wall time in unix milliseconds.
    pub created_ms: u64,
    /// Last written, wall time in unix milliseconds.
    pub updated_ms: u64,
}

impl ConfigStore {
    /// Gateways in the order of their names, after a name.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn list_gateways(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<GatewayRow>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<GatewayColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT name, revision, hash, labels, created_ms, updated_ms
                 FROM gateways WHERE name > $1 ORDER BY name LIMIT $2",
            )
            .bind(after.unwrap_or_default())
            .bind(i64::from(limit.min(PAGE_MAX)))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(gateway_of).collect()
    }

    /// One gateway; `None` when there is no such gateway.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn gateway(&self, name: &str) -> Result<Option<GatewayRow>, Error> {
        let mut session = self.engine.session().await?;
        let row: Option<GatewayColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT name, revision, hash, labels, created_ms, updated_ms
                 FROM gateways WHERE name = $1",
            )
            .bind(name)
            .fetch_optional(connection)
        })?;
        row.map(gateway_of).transpose()
    }

    /// Every gateway's name, current revision and hash, in the order of their names. Cheap:
    /// documents are not read.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn heads(&self) -> Result<Vec<(String, u64, String)>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<(String, i64, String)> = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT name, revision, hash FROM gateways ORDER BY name")
                .fetch_all(connection)
        })?;
        rows.into_iter()
            .map(|(gateway, revision, hash)| Ok((gateway, from_stored(revision)?, hash)))
            .collect()
    }

    /// Creates a gateway with its first document. One that was deleted before under this name
    /// continues its revision numbers. The document is stored as given: validation is the caller's.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn create_gateway(
        &self,
        name: &str,
        document: &Value,
        hash: &str,
        change: &Change,
    ) -> Result<Revision, Error> {
        change.check()?;
        check_text("gateway", name)?;
        let mut session = self.engine.begin().await?;
        let written = create(
            &mut session,
            Draft {
                gateway: name,
                document,
                hash,
                change,
            },
        )
        .await;
        session.finish(written).await
    }

    /// Deletes a gateway. Its audit entries and revisions stay, and so does its counter. `if_match`
    /// is the revision the caller has seen; `None` deletes whatever is there.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], [`Error::Unavailable`].
    pub async fn delete_gateway(
        &self,
        name: &str,
        if_match: Option<u64>,
        change: &Change,
    ) -> Result<(), Error> {
        change.check()?;
        let mut session = self.engine.begin().await?;
        let written = delete(&mut session, name, if_match, change).await;
        session.finish(written).await
    }
}

fn gateway_of(columns: GatewayColumns) -> Result<GatewayRow, Error> {
    let (name, revision, hash, labels, created_ms, updated_ms) = columns;
    let labels = serde_json::from_str(&labels)
        .map_err(|error| Error::Corrupt(format!("labels of {name:?}: {error}")))?;
    Ok(GatewayRow {
        name,
        revision: from_stored(revision)?,
        hash,
        labels,
        created_ms: from_stored(created_ms)?,
        updated_ms: from_stored(updated_ms)?,
    })
}

async fn create(session: &mut Session, draft: Draft<'_>) -> Result<Revision, Error> {
    let (number,): (i64,) = fetch!(session, connection => {
        sqlx::query_as(
            "INSERT INTO revision_counters (gateway, last) VALUES ($1, 1)
             ON CONFLICT (gateway) DO UPDATE SET last = revision_counters.last + 1 RETURNING last",
        )
        .bind(draft.gateway)
        .fetch_one(connection)
    })?;
    if current(session, draft.gateway).await?.is_some() {
        return Err(Error::exists(KIND, draft.gateway));
    }
    let revision = revisions::insert(session, &draft, from_stored(number)?, None).await?;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO gateways (name, revision, hash, labels, created_ms, updated_ms)
             VALUES ($1, $2, $3, $4, $5, $5)",
        )
        .bind(draft.gateway)
        .bind(number)
        .bind(draft.hash)
        .bind(labels_of(draft.document))
        .bind(to_stored(draft.change.now_ms))
    )?;
    let entry = NewEntry::done("gateway.create", resource(draft.gateway), draft.change)
        .after(json!({ "revision": revision.number, "hash": revision.hash }));
    audit::append(session, entry).await?;
    Ok(revision)
}

async fn delete(
    session: &mut Session,
    name: &str,
    if_match: Option<u64>,
    change: &Change,
) -> Result<(), Error> {
    lock(session, name).await?;
    let (revision, hash) = current(session, name)
        .await?
        .ok_or_else(|| Error::not_found(KIND, name))?;
    if if_match.is_some_and(|expected| expected != revision) {
        return Err(Error::Conflict { current: revision });
    }
    rollout_rows::forget(session, name).await?;
    execute!(
        session,
        sqlx::query("DELETE FROM gateways WHERE name = $1").bind(name)
    )?;
    overrides::end_all(session, name, change.now_ms).await?;
    let entry = NewEntry::done("gateway.delete", resource(name), change)
        .before(json!({ "revision": revision, "hash": hash }));
    audit::append(session, entry).await
}
