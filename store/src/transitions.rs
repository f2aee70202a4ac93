//! The timeline: changes of breakers' states as agents reported them.
//!
//! A change is known by its agent's instance and its number there, so that one that is reported
//! again, here or to another replica, is stored once.

use lanekeeper_model::transition::{EntryKind, TimelineEntry};
use sqlx::AssertSqlSafe;

use crate::change::PAGE_MAX;
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, to_stored};
use crate::error::Error;

/// The columns of an entry, in the order of [`EntryColumns`].
const COLUMNS: &str =
    "gateway, instance, sequence, agent, at_ms, kind, pool, lane, provider, value";
type EntryColumns = (
    String,
    String,
    i64,
    String,
    i64,
    String,
    Option<String>,
    Option<String>,
    String,
    String,
);
/// Most entries that one statement of [`ConfigStore::prune_transitions`] removes, so that none
/// keeps the database from others for long.
const PRUNED_AT_ONCE: u32 = 5000;

/// Which entries of the timeline to read. Absent = any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelineFilter {
    /// Of this gateway.
    pub gateway: Option<String>,
    /// Of this pool; empty for direct routes.
    pub pool: Option<String>,
    /// Of this lane.
    pub lane: Option<String>,
    /// Of lanes of this provider, and of its own cell.
    pub provider: Option<String>,
    /// Only of providers' own cells.
    pub own_cells: bool,
    /// Of the agents with this name or instance.
    pub agent: Option<String>,
    /// Of this kind.
    pub kind: Option<EntryKind>,
    /// Not earlier, unix milliseconds.
    pub from_ms: Option<u64>,
    /// Earlier than this, unix milliseconds.
    pub until_ms: Option<u64>,
}

/// Where an entry stands in the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelinePlace {
    /// Its time, unix milliseconds.
    pub at_ms: u64,
    /// Its gateway.
    pub gateway: String,
    /// Its instance.
    pub instance: String,
    /// Its number.
    pub sequence: u64,
}

impl ConfigStore {
    /// Stores entries. One that is there already stays as it is, but for a range of missing ones
    /// that has grown.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; nothing was stored then.
    pub async fn record_transitions(&self, entries: &[TimelineEntry]) -> Result<(), Error> {
        let mut session = self.engine.begin().await?;
        let written = async {
            for entry in entries {
                record(&mut session, entry).await?;
            }
            Ok(())
        }
        .await;
        session.finish(written).await
    }

    /// Entries of the timeline, the latest first, after a place in it.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn timeline(
        &self,
        filter: &TimelineFilter,
        after: Option<&TimelinePlace>,
        limit: u32,
    ) -> Result<Vec<TimelineEntry>, Error> {
        let (conditions, texts) = conditions(filter);
        let until_ms = filter.until_ms.map_or(i64::MAX, to_stored);
        let place = after.map_or((until_ms, "", "", 0), |place| {
            (
                to_stored(place.at_ms).min(until_ms),
                place.gateway.as_str(),
                place.instance.as_str(),
                to_stored(place.sequence),
            )
        });
        // A bound on the time alone lets both engines begin at the right end of an index.
        let sql = format!(
            "SELECT {COLUMNS} FROM transitions
             WHERE at_ms >= $1 AND at_ms <= $2
                   AND (at_ms, gateway, instance, sequence) < ($2, $3, $4, $5){conditions}
             ORDER BY at_ms DESC, gateway DESC, instance DESC, sequence DESC LIMIT $6"
        );
        let from_ms = to_stored(filter.from_ms.unwrap_or(0));
        let mut session = self.engine.session().await?;
        let rows: Vec<EntryColumns> = fetch!(&mut session, connection => {
            let mut query = sqlx::query_as(AssertSqlSafe(sql.clone()))
                .bind(from_ms)
                .bind(place.0)
                .bind(place.1.to_owned())
                .bind(place.2.to_owned())
                .bind(place.3)
                .bind(i64::from(limit.min(PAGE_MAX)));
            for text in &texts {
                query = query.bind(text.clone());
            }
            query.fetch_all(connection)
        })?;
        rows.into_iter().map(entry_of).collect()
    }

    /// Forgets entries from before a time, unix milliseconds, and the earliest of those beyond
    /// `kept`. The value is how many went; call it again while it is not 0.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn prune_transitions(&self, before_ms: u64, kept: u64) -> Result<u64, Error> {
        let mut session = self.engine.begin().await?;
        let pruned = async {
            let limit: Option<(i64,)> = fetch!(&mut session, connection => {
                sqlx::query_as("SELECT at_ms FROM transitions ORDER BY at_ms DESC LIMIT 1 OFFSET $1")
                    .bind(to_stored(kept))
                    .fetch_optional(connection)
            })?;
            let before = to_stored(before_ms);
            // Of those at the very moment of the first that is too many, all go.
            let through = limit.map_or(before - 1, |(at_ms,)| at_ms.max(before - 1));
            execute!(
                &mut session,
                sqlx::query(
                    "DELETE FROM transitions WHERE (gateway, instance, sequence) IN
                     (SELECT gateway, instance, sequence FROM transitions WHERE at_ms <= $1
                      ORDER BY at_ms LIMIT $2)",
                )
                .bind(through)
                .bind(i64::from(PRUNED_AT_ONCE))
            )
        }
        .await;
        session.finish(pruned).await
    }
}

/// The conditions beside those on time, with the texts that they compare with.
fn conditions(filter: &TimelineFilter) -> (String, Vec<String>) {
    /// Parameters before these.
    const FIXED: usize = 6;
    let TimelineFilter {
        gateway,
        pool,
        lane,
        provider,
        own_cells,
        agent,
        kind,
        from_ms: _,
        until_ms: _,
    } = filter;
    let (mut sql, mut texts) = (String::new(), Vec::new());
    let kind = kind.map(|kind| kind.as_str().to_owned());
    for (column, wanted) in [
        ("gateway = $", gateway),
        ("pool = $", pool),
        ("lane = $", lane),
        ("provider = $", provider),
        ("kind = $", &kind),
    ] {
        if let Some(wanted) = wanted {
            texts.push(wanted.clone());
            sql += &format!(" AND {column}{}", FIXED + texts.len());
        }
    }
    if let Some(agent) = agent {
        texts.push(agent.clone());
        let number = FIXED + texts.len();
        sql += &format!(" AND (instance = ${number} OR agent = ${number})");
    }
    if *own_cells {
        sql += " AND lane IS NULL AND kind <> 'shed'";
    }
    (sql, texts)
}

/// Stores an entry. A range of missing changes may begin with some that are stored, of which the agent
/// did not hear: it is kept under the first number that is free.
async fn record(session: &mut Session, entry: &TimelineEntry) -> Result<(), Error> {
    for sequence in entry.sequence..=entry.through() {
        if insert(session, entry, sequence).await? || entry.kind != EntryKind::Shed {
            break;
        }
    }
    Ok(())
}

/// True when the entry is stored under this number.
async fn insert(
    session: &mut Session,
    entry: &TimelineEntry,
    sequence: u64,
) -> Result<bool, Error> {
    let value =
        serde_json::to_string(&entry.detail).map_err(|error| Error::Corrupt(error.to_string()))?;
    let touched = execute!(
        session,
        sqlx::query(
            "INSERT INTO transitions (gateway, instance, sequence, agent, at_ms, kind, pool, lane,
                                      provider, value)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (gateway, instance, sequence) DO UPDATE SET
                 value = excluded.value, at_ms = excluded.at_ms
             WHERE transitions.kind = 'shed' AND excluded.kind = 'shed'",
        )
        .bind(entry.gateway.as_str())
        .bind(&entry.instance)
        .bind(to_stored(sequence))
        .bind(&entry.agent)
        .bind(to_stored(entry.at_ms))
        .bind(entry.kind.as_str())
        .bind(entry.pool.as_deref())
        .bind(entry.lane.as_deref())
        .bind(entry.provider.as_str())
        .bind(&value)
    )?;
    Ok(touched > 0)
}

fn entry_of(columns: EntryColumns) -> Result<TimelineEntry, Error> {
    let (gateway, instance, sequence, agent, at_ms, kind, pool, lane, provider, value) = columns;
    let corrupt = |what: String| Error::Corrupt(format!("change {sequence} of {instance}: {what}"));
    let detail = serde_json::from_str(&value).map_err(|error| corrupt(error.to_string()))?;
    let kind = EntryKind::from_name(&kind).ok_or_else(|| corrupt(format!("kind {kind:?}")))?;
    Ok(TimelineEntry {
        gateway: gateway.into(),
        sequence: from_stored(sequence)?,
        agent,
        at_ms: from_stored(at_ms)?,
        kind,
        pool: pool.map(Into::into),
        lane: lane.map(Into::into),
        provider: provider.into(),
        detail,
        instance,
    })
}
