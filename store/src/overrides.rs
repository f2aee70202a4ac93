//! Overrides: operators' orders on the cells of a lane or of a provider, each with an end.
//!
//! A gateway's orders have one counter that grows with every change, so that a replica sees by one
//! cheap read whether there is anything new. The counter's row is also the lock under which the
//! orders of a gateway change: whoever judged the orders at one count can write on that condition.

use std::collections::BTreeMap;

use lanekeeper_model::{ActiveOverride, LaneName, OverrideAction, PoolName, ProviderName};
use serde_json::json;

use crate::audit::{self, NewEntry};
use crate::change::{Change, PAGE_MAX, check_text};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, from_stored_opt, to_stored};
use crate::error::Error;
use crate::{gateway_row, random};

/// The glossary word in errors.
const KIND: &str = "override";
/// The most orders of one gateway that may stand at a time.
pub const OVERRIDES_STANDING_MAX: u32 = 1000;

/// The most orders of all gateways together that one call answers with.
pub const ALL_STANDING_MAX: u32 = 20_000;

/// What an order's columns are read by.
type OverrideColumns = (
    String,
    String,
    i64,
    String,
    Option<String>,
    String,
    Option<String>,
    String,
    String,
    String,
    i64,
    i64,
    Option<i64>,
);

/// One order, standing or over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideRow {
    /// The gateway whose agents it is for.
    pub gateway: String,
    /// What is ordered, for whom and until when.
    pub order: ActiveOverride,
    /// Why, in the operator's words.
    pub reason: String,
    /// Who gave it.
    pub actor: String,
    /// When it was given, wall time in unix milliseconds.
    pub created_ms: u64,
    /// When it was released before its end, wall time in unix milliseconds.
    pub released_ms: Option<u64>,
}

impl OverrideRow {
    /// True while it is in force.
    #[must_use]
    pub fn is_standing(&self, now_ms: u64) -> bool {
        self.released_ms.is_none() && self.order.expires_ms > now_ms
    }
}

/// An order to be given.
#[derive(Clone, Debug)]
pub struct NewOverride {
    /// What to do.
    pub action: OverrideAction,
    /// The pool whose cells are meant, the empty name for direct routes; `None` = all of them.
    pub pool: Option<PoolName>,
    /// The lane; empty when a provider's own cell is meant.
    pub lane: LaneName,
    /// The provider whose own cell is meant; `None` = the lane's cells are.
    pub provider: Option<ProviderName>,
    /// Labels an agent must have; empty = every agent.
    pub agents: BTreeMap<String, String>,
    /// Why.
    pub reason: String,
    /// When it ends by itself, wall time in unix milliseconds.
    pub expires_ms: u64,
}

/// The orders of a gateway that stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The gateway's counter of changes; 0 = it never had an order. Orders may be newer than this,
    /// never older.
    pub generation: u64,
    /// The orders, the earliest first.
    pub rows: Vec<OverrideRow>,
}

impl ConfigStore {
    /// Gives an order, provided that the gateway's orders have not changed since `seen`; `None`
    /// when they have: look at them again.
    ///
    /// # Errors
    /// [`Error::NotFound`] for the gateway, [`Error::Full`], [`Error::Invalid`],
    /// [`Error::Unavailable`].
    pub async fn create_override(
        &self,
        gateway: &str,
        new: &NewOverride,
        seen: u64,
        change: &Change,
    ) -> Result<Option<OverrideRow>, Error> {
        change.check()?;
        check_text("gateway", gateway)?;
        check_text("reason", &new.reason)?;
        check_text("lane", &new.lane)?;
        check_text("provider", new.provider.as_deref().unwrap_or_default())?;
        check_text("pool", new.pool.as_deref().unwrap_or_default())?;
        let mut session = self.engine.begin().await?;
        let written = create(&mut session, gateway, new, seen, change).await;
        session.finish(written).await
    }

    /// Ends an order before its time. One that is over already is left as it is, without an entry
    /// in the audit trail.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn release_override(
        &self,
        gateway: &str,
        id: &str,
        change: &Change,
    ) -> Result<OverrideRow, Error> {
        change.check()?;
        check_text("id", id)?;
        let mut session = self.engine.begin().await?;
        let written = release(&mut session, gateway, id, change).await;
        session.finish(written).await
    }

    /// One order of a gateway; `None` when there is no such order.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn override_of(&self, gateway: &str, id: &str) -> Result<Option<OverrideRow>, Error> {
        let mut session = self.engine.session().await?;
        one(&mut session, gateway, id).await
    }

    /// The orders of a gateway, the latest first, before a number. `standing_at_ms` leaves out those
    /// that are over at that time.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn overrides(
        &self,
        gateway: &str,
        before: Option<u64>,
        standing_at_ms: Option<u64>,
        limit: u32,
    ) -> Result<Vec<OverrideRow>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<OverrideColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT id, gateway, number, action, pool, lane, provider, agents, reason, actor,
                        created_ms, expires_ms, released_ms
                 FROM overrides
                 WHERE gateway = $1 AND number < $2
                   AND ($3 < 0 OR (released_ms IS NULL AND expires_ms > $3))
                 ORDER BY number DESC LIMIT $4",
            )
            .bind(gateway)
            .bind(before.map_or(i64::MAX, to_stored))
            .bind(standing_at_ms.map_or(-1, to_stored))
            .bind(i64::from(limit.min(PAGE_MAX)))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(row_of).collect()
    }

    /// The orders of a gateway that stand at a time, and how far its counter had come before they
    /// were read.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn standing_overrides(&self, gateway: &str, now_ms: u64) -> Result<Standing, Error> {
        let mut session = self.engine.session().await?;
        let counter: Option<(i64,)> = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT last FROM override_counters WHERE gateway = $1")
                .bind(gateway)
                .fetch_optional(connection)
        })?;
        let Some((generation,)) = counter else {
            return Ok(Standing::default());
        };
        let rows: Vec<OverrideColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT id, gateway, number, action, pool, lane, provider, agents, reason, actor,
                        created_ms, expires_ms, released_ms
                 FROM overrides
                 WHERE gateway = $1 AND released_ms IS NULL AND expires_ms > $2 ORDER BY number",
            )
            .bind(gateway)
            .bind(to_stored(now_ms))
            .fetch_all(connection)
        })?;
        Ok(Standing {
            generation: from_stored(generation)?,
            rows: rows.into_iter().map(row_of).collect::<Result<_, _>>()?,
        })
    }

    /// The orders of all gateways that stand at a time, the earliest of each gateway first, at most
    /// [`ALL_STANDING_MAX`].
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn all_standing_overrides(&self, now_ms: u64) -> Result<Vec<OverrideRow>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<OverrideColumns> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT id, gateway, number, action, pool, lane, provider, agents, reason, actor,
                        created_ms, expires_ms, released_ms
                 FROM overrides WHERE released_ms IS NULL AND expires_ms > $1
                 ORDER BY gateway, number LIMIT $2",
            )
            .bind(to_stored(now_ms))
            .bind(i64::from(ALL_STANDING_MAX))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(row_of).collect()
    }

    /// The counter of every gateway that ever had an order, by name. Cheap: orders are not read.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn override_generations(&self) -> Result<BTreeMap<String, u64>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<(String, i64)> = fetch!(&mut session, connection => {
            sqlx::query_as("SELECT gateway, last FROM override_counters ORDER BY gateway")
                .fetch_all(connection)
        })?;
        rows.into_iter()
            .map(|(gateway, last)| Ok((gateway, from_stored(last)?)))
            .collect()
    }

    /// Drops orders whose time was over before a moment, in unix milliseconds; the value is how many
    /// went. Housekeeping: not audited.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn prune_overrides(&self, ended_before_ms: u64) -> Result<u64, Error> {
        let mut session = self.engine.begin().await?;
        let pruned = execute!(
            &mut session,
            sqlx::query("DELETE FROM overrides WHERE expires_ms < $1")
                .bind(to_stored(ended_before_ms))
        );
        session.finish(pruned).await
    }
}

/// Locks the orders of a gateway; the value is its counter.
async fn lock(session: &mut Session, gateway: &str) -> Result<Option<u64>, Error> {
    let row: Option<(i64,)> = fetch!(session, connection => {
        sqlx::query_as(
            "UPDATE override_counters SET last = last WHERE gateway = $1 RETURNING last",
        )
        .bind(gateway)
        .fetch_optional(connection)
    })?;
    from_stored_opt(row.map(|(last,)| last))
}

/// Counts a change; the value is the new count. Creates the counter with the first one.
async fn count(session: &mut Session, gateway: &str) -> Result<i64, Error> {
    let (last,): (i64,) = fetch!(session, connection => {
        sqlx::query_as(
            "INSERT INTO override_counters (gateway, last) VALUES ($1, 1)
             ON CONFLICT (gateway) DO UPDATE SET last = override_counters.last + 1 RETURNING last",
        )
        .bind(gateway)
        .fetch_one(connection)
    })?;
    Ok(last)
}

async fn create(
    session: &mut Session,
    gateway: &str,
    new: &NewOverride,
    seen: u64,
    change: &Change,
) -> Result<Option<OverrideRow>, Error> {
    // A first order has no row to lock yet: two at once meet in the counter below, and the later
    // one finds that it is not the first.
    if lock(session, gateway).await?.unwrap_or(0) != seen {
        return Ok(None);
    }
    if gateway_row::current(session, gateway).await?.is_none() {
        return Err(Error::not_found(gateway_row::KIND, gateway));
    }
    let (standing,): (i64,) = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT COUNT(*) FROM overrides
             WHERE gateway = $1 AND released_ms IS NULL AND expires_ms > $2",
        )
        .bind(gateway)
        .bind(to_stored(change.now_ms))
        .fetch_one(connection)
    })?;
    if standing >= i64::from(OVERRIDES_STANDING_MAX) {
        return Err(Error::Full {
            kind: KIND,
            max: u64::from(OVERRIDES_STANDING_MAX),
        });
    }
    let number = from_stored(count(session, gateway).await?)?;
    if number != seen + 1 {
        // What was counted is a change that did not happen; a replica looks once for nothing.
        return Ok(None);
    }
    let row = OverrideRow {
        gateway: gateway.to_owned(),
        order: ActiveOverride {
            id: random::identifier(),
            number,
            action: new.action,
            pool: new.pool.clone(),
            lane: new.lane.clone(),
            provider: new.provider.clone(),
            agents: new.agents.clone(),
            expires_ms: new.expires_ms,
        },
        reason: new.reason.clone(),
        actor: change.actor.clone(),
        created_ms: change.now_ms,
        released_ms: None,
    };
    let order = &row.order;
    let labels = labels_text(&order.agents)?;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO overrides (id, gateway, number, action, pool, lane, provider, agents,
                                    reason, actor, created_ms, expires_ms, released_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, NULL)",
        )
        .bind(&order.id)
        .bind(gateway)
        .bind(to_stored(number))
        .bind(order.action.as_str())
        .bind(order.pool.as_deref())
        .bind(order.lane.as_str())
        .bind(order.provider.as_deref())
        .bind(&labels)
        .bind(&row.reason)
        .bind(&row.actor)
        .bind(to_stored(row.created_ms))
        .bind(to_stored(order.expires_ms))
    )?;
    let entry = NewEntry::done("override.create", resource(gateway, &order.id), change)
        .after(summary(&row));
    audit::append(session, entry).await?;
    Ok(Some(row))
}

async fn release(
    session: &mut Session,
    gateway: &str,
    id: &str,
    change: &Change,
) -> Result<OverrideRow, Error> {
    lock(session, gateway).await?;
    let mut row = one(session, gateway, id)
        .await?
        .ok_or_else(|| Error::not_found(KIND, id))?;
    if !row.is_standing(change.now_ms) {
        return Ok(row);
    }
    execute!(
        session,
        sqlx::query("UPDATE overrides SET released_ms = $1 WHERE id = $2")
            .bind(to_stored(change.now_ms))
            .bind(id)
    )?;
    count(session, gateway).await?;
    let entry =
        NewEntry::done("override.release", resource(gateway, id), change).before(summary(&row));
    audit::append(session, entry).await?;
    row.released_ms = Some(change.now_ms);
    Ok(row)
}

/// Ends all orders of a gateway that goes; part of that change.
pub(crate) async fn end_all(
    session: &mut Session,
    gateway: &str,
    now_ms: u64,
) -> Result<(), Error> {
    if lock(session, gateway).await?.is_none() {
        return Ok(());
    }
    execute!(
        session,
        sqlx::query(
            "UPDATE overrides SET released_ms = $1
             WHERE gateway = $2 AND released_ms IS NULL AND expires_ms > $1",
        )
        .bind(to_stored(now_ms))
        .bind(gateway)
    )?;
    count(session, gateway).await?;
    Ok(())
}

async fn one(session: &mut Session, gateway: &str, id: &str) -> Result<Option<OverrideRow>, Error> {
    let row: Option<OverrideColumns> = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT id, gateway, number, action, pool, lane, provider, agents, reason, actor,
                    created_ms, expires_ms, released_ms
             FROM overrides WHERE gateway = $1 AND id = $2",
        )
        .bind(gateway)
        .bind(id)
        .fetch_optional(connection)
    })?;
    row.map(row_of).transpose()
}

fn row_of(columns: OverrideColumns) -> Result<OverrideRow, Error> {
    let (
        id,
        gateway,
        number,
        action,
        pool,
        lane,
        provider,
        agents,
        reason,
        actor,
        created,
        expires,
        released,
    ) = columns;
    let damaged = |what: &str| Error::Corrupt(format!("{what} of override {id:?}"));
    Ok(OverrideRow {
        gateway,
        order: ActiveOverride {
            number: from_stored(number)?,
            action: OverrideAction::from_name(&action).ok_or_else(|| damaged("the action"))?,
            pool: pool.map(PoolName::from),
            lane: LaneName::from(lane),
            provider: provider.map(ProviderName::from),
            agents: serde_json::from_str(&agents).map_err(|_| damaged("the labels"))?,
            expires_ms: from_stored(expires)?,
            id,
        },
        reason,
        actor,
        created_ms: from_stored(created)?,
        released_ms: from_stored_opt(released)?,
    })
}

fn labels_text(labels: &BTreeMap<String, String>) -> Result<String, Error> {
    serde_json::to_string(labels).map_err(|error| Error::Corrupt(error.to_string()))
}

/// How the audit trail calls an order.
fn resource(gateway: &str, id: &str) -> String {
    format!("{}/overrides/{id}", gateway_row::resource(gateway))
}

/// What the audit trail keeps of an order.
fn summary(row: &OverrideRow) -> serde_json::Value {
    let order = &row.order;
    json!({
        "action": order.action.as_str(),
        "pool": order.pool.as_deref(),
        "lane": order.lane.as_str(),
        "provider": order.provider.as_deref(),
        "agents": order.agents,
        "reason": row.reason,
        "expires_ms": order.expires_ms,
    })
}
