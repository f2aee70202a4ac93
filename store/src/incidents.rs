//! Incidents as they are stored after every step.
//!
//! Any replica may try to take a step: of one subject the database lets one incident be open, and a
//! step counts only upon the version that it was decided on.

use lanekeeper_model::incident::{Context, ContextKind, ContextMark, Incident, SubjectKind};
use sqlx::AssertSqlSafe;

use crate::change::PAGE_MAX;
use crate::config_store::ConfigStore;
use crate::engine::{execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::error::Error;
use crate::random;

/// Most incidents that are open at a time; beyond it none is opened.
pub const INCIDENTS_OPEN_MAX: u32 = 5_000;

/// An incident with the version that its next step is decided on.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredIncident {
    /// The incident.
    pub incident: Incident,
    /// Its version.
    pub version: u64,
    /// When it was last written, unix milliseconds.
    pub updated_ms: u64,
}

/// Which incidents to read. Absent = any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncidentFilter {
    /// Of this gateway.
    pub gateway: Option<String>,
    /// About what is of this kind.
    pub kind: Option<SubjectKind>,
    /// About what has this name.
    pub name: Option<String>,
    /// Only those that go on, or only those that do not.
    pub open: Option<bool>,
    /// Begun not earlier, unix milliseconds.
    pub from_ms: Option<u64>,
    /// Begun earlier than this, unix milliseconds.
    pub until_ms: Option<u64>,
}

/// Where an incident stands in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentPlace {
    /// When it began, unix milliseconds.
    pub opened_ms: u64,
    /// Its id.
    pub id: String,
}

type IncidentColumns = (String, i64, i64);
type RevisionColumns = (i64, String, String, i64, Option<String>, Option<i64>);
type OverrideColumns = (
    String,
    String,
    Option<String>,
    String,
    Option<String>,
    String,
    String,
    i64,
    i64,
    Option<i64>,
);

/// Revisions, and overrides, that one reading of [`ConfigStore::gateway_context`] gives at most.
const CONTEXT_ROWS_MAX: i64 = 100;

impl ConfigStore {
    /// Opens an incident and gives it its id; `None` when one of its subject is open already.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; it may or may not be open then.
    pub async fn open_incident(
        &self,
        mut incident: Incident,
        now_ms: u64,
    ) -> Result<Option<StoredIncident>, Error> {
        incident.id = random::identifier();
        let value = encode(&incident)?;
        let mut session = self.engine.begin().await?;
        let opened = execute!(
            &mut session,
            sqlx::query(
                "INSERT INTO incidents (id, gateway, kind, name, state, opened_ms, updated_ms,
                                        version, value)
                 SELECT $1, $2, $3, $4, 'open', $5, $6, 1, $7
                 WHERE (SELECT COUNT(*) FROM incidents WHERE state = 'open') < $8
                 ON CONFLICT (gateway, kind, name) WHERE state = 'open' DO NOTHING",
            )
            .bind(&incident.id)
            .bind(incident.gateway.as_str())
            .bind(incident.subject.kind.as_str())
            .bind(&incident.subject.name)
            .bind(to_stored(incident.opened_ms))
            .bind(to_stored(now_ms))
            .bind(&value)
            .bind(i64::from(INCIDENTS_OPEN_MAX))
        );
        let opened = session.finish(opened).await?;
        Ok((opened > 0).then_some(StoredIncident {
            incident,
            version: 1,
            updated_ms: now_ms,
        }))
    }

    /// Writes the next state of an incident that was read as version `seen`; `None` when another
    /// one wrote in between, or it is closed.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; it may or may not be written then.
    pub async fn advance_incident(
        &self,
        incident: Incident,
        seen: u64,
        now_ms: u64,
    ) -> Result<Option<StoredIncident>, Error> {
        let value = encode(&incident)?;
        let state = if incident.is_open() { "open" } else { "closed" };
        let mut session = self.engine.begin().await?;
        let written = execute!(
            &mut session,
            sqlx::query(
                "UPDATE incidents SET state = $3, updated_ms = $4, version = version + 1, value = $5
                 WHERE id = $1 AND version = $2 AND state = 'open'",
            )
            .bind(&incident.id)
            .bind(to_stored(seen))
            .bind(state)
            .bind(to_stored(now_ms))
            .bind(&value)
        );
        let written = session.finish(written).await?;
        Ok((written > 0).then_some(StoredIncident {
            incident,
            version: seen + 1,
            updated_ms: now_ms,
        }))
    }

    /// The incidents that go on, of all gateways, the earliest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn open_incidents(&self) -> Result<Vec<StoredIncident>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<IncidentColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT value, version, updated_ms FROM incidents WHERE state = 'open'
                 ORDER BY opened_ms, id LIMIT $1",
            )
            .bind(i64::from(INCIDENTS_OPEN_MAX))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(incident_of).collect()
    }

    /// One incident; `None` when there is no such incident.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn incident(&self, id: &str) -> Result<Option<StoredIncident>, Error> {
        let mut session = self.engine.session().await?;
        let row: Option<IncidentColumns> = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT value, version, updated_ms FROM incidents WHERE id = $1")
                .bind(id)
                .fetch_optional(connection)
        })?;
        row.map(incident_of).transpose()
    }

    /// Incidents, the latest to begin first, after a place in that order.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn incidents(
        &self,
        filter: &IncidentFilter,
        after: Option<&IncidentPlace>,
        limit: u32,
    ) -> Result<Vec<StoredIncident>, Error> {
        let (conditions, texts) = conditions(filter);
        let until_ms = filter.until_ms.map_or(i64::MAX, to_stored);
        let place = after.map_or((until_ms, ""), |place| {
            (to_stored(place.opened_ms).min(until_ms), place.id.as_str())
        });
        let sql = format!(
            "SELECT value, version, updated_ms FROM incidents
             WHERE opened_ms >= $1 AND opened_ms <= $2 AND (opened_ms, id) < ($2, $3){conditions}
             ORDER BY opened_ms DESC, id DESC LIMIT $4"
        );
        let from_ms = to_stored(filter.from_ms.unwrap_or(0));
        let mut session = self.engine.session().await?;
        let rows: Vec<IncidentColumns> = fetch!(&mut session, connection => {
            let mut query = sqlx::query_as(AssertSqlSafe(sql.clone()))
                .bind(from_ms)
                .bind(place.0)
                .bind(place.1.to_owned())
                .bind(i64::from(limit.min(PAGE_MAX)));
            for text in &texts {
                query = query.bind(text.clone());
            }
            query.fetch_all(connection)
        })?;
        rows.into_iter().map(incident_of).collect()
    }

    /// What operators did in a gateway since a time, unix milliseconds, and what of it is still in
    /// force.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn gateway_context(
        &self,
        gateway: &str,
        since_ms: u64,
        now_ms: u64,
    ) -> Result<Context, Error> {
        let mut session = self.engine.session().await?;
        let revisions: Vec<RevisionColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT r.number, r.author, r.message, r.created_ms, o.state, o.updated_ms
                 FROM revisions r LEFT JOIN rollouts o
                      ON o.gateway = r.gateway AND o.revision = r.number
                 WHERE r.gateway = $1 AND r.created_ms >= $2 ORDER BY r.number DESC LIMIT $3",
            )
            .bind(gateway)
            .bind(to_stored(since_ms))
            .bind(CONTEXT_ROWS_MAX)
            .fetch_all(connection)
        })?;
        let overrides: Vec<OverrideColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT id, action, pool, lane, provider, reason, actor, created_ms, expires_ms,
                        released_ms
                 FROM overrides
                 WHERE gateway = $1 AND expires_ms > $2
                       AND (released_ms IS NULL OR released_ms > $2)
                 ORDER BY number DESC LIMIT $3",
            )
            .bind(gateway)
            .bind(to_stored(since_ms))
            .bind(CONTEXT_ROWS_MAX)
            .fetch_all(connection)
        })?;
        let revisions = revisions.into_iter().map(revision_mark);
        let overrides = overrides
            .into_iter()
            .map(|columns| override_mark(columns, now_ms));
        Ok(Context {
            marks: revisions.chain(overrides).collect::<Result<_, _>>()?,
        })
    }

    /// Forgets incidents that are closed and were last written before a time, unix milliseconds.
    /// The value is how many went.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn prune_incidents(&self, before_ms: u64) -> Result<u64, Error> {
        let mut session = self.engine.begin().await?;
        let pruned = execute!(
            &mut session,
            sqlx::query("DELETE FROM incidents WHERE state = 'closed' AND updated_ms < $1")
                .bind(to_stored(before_ms))
        );
        session.finish(pruned).await
    }
}

/// The conditions beside those on time, with the texts that they compare with.
fn conditions(filter: &IncidentFilter) -> (String, Vec<String>) {
    /// Parameters before these.
    const FIXED: usize = 4;
    let kind = filter.kind.map(|kind| kind.as_str().to_owned());
    let state = filter.open.map(|open| {
        let state = if open { "open" } else { "closed" };
        state.to_owned()
    });
    let (mut sql, mut texts) = (String::new(), Vec::new());
    for (column, wanted) in [
        ("gateway = $", &filter.gateway),
        ("name = $", &filter.name),
        ("kind = $", &kind),
        ("state = $", &state),
    ] {
        if let Some(wanted) = wanted {
            texts.push(wanted.clone());
            sql += &format!(" AND {column}{}", FIXED + texts.len());
        }
    }
    (sql, texts)
}

fn encode(incident: &Incident) -> Result<String, Error> {
    serde_json::to_string(incident).map_err(|error| Error::Corrupt(error.to_string()))
}

fn incident_of((value, version, updated_ms): IncidentColumns) -> Result<StoredIncident, Error> {
    let incident = serde_json::from_str(&value)
        .map_err(|error| Error::Corrupt(format!("an incident: {error}")))?;
    Ok(StoredIncident {
        incident,
        version: from_stored(version)?,
        updated_ms: from_stored(updated_ms)?,
    })
}

fn revision_mark(columns: RevisionColumns) -> Result<ContextMark, Error> {
    let (number, author, message, created_ms, state, updated_ms) = columns;
    let over = state
        .as_deref()
        .is_some_and(|state| !["running", "paused", "stopped"].contains(&state));
    let (kind, what) = match &state {
        Some(state) => (ContextKind::Rollout, format!("rollout, {state}")),
        None => (ContextKind::Revision, "for all agents at once".to_owned()),
    };
    let detail = if message.is_empty() {
        format!("revision {number} ({what})")
    } else {
        format!("revision {number} ({what}): {message}")
    };
    Ok(ContextMark {
        kind,
        id: number.to_string(),
        at_ms: from_stored(created_ms)?,
        ended_ms: from_stored_opt(updated_ms.filter(|_| over))?,
        actor: author,
        detail,
    })
}

fn override_mark(columns: OverrideColumns, now_ms: u64) -> Result<ContextMark, Error> {
    let (id, action, pool, lane, provider, reason, actor, created_ms, expires_ms, released_ms) =
        columns;
    let whom = match (provider, pool.as_deref()) {
        (Some(provider), _) => format!("provider {provider}"),
        (None, None) => format!("lane {lane} in every pool"),
        (None, Some("")) => format!("lane {lane} on direct routes"),
        (None, Some(pool)) => format!("lane {lane} in pool {pool}"),
    };
    let expired = Some(expires_ms).filter(|expires| *expires <= to_stored(now_ms));
    Ok(ContextMark {
        kind: ContextKind::Override,
        id,
        at_ms: from_stored(created_ms)?,
        ended_ms: from_stored_opt(released_ms.or(expired))?,
        actor,
        detail: format!("{action} of {whom}: {reason}"),
    })
}
