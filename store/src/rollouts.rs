//! Rollouts and the plans they follow.
//!
//! Every write of a gateway's rollouts holds the gateway's counter row, as every write of its
//! revisions does: a rollout and the revision it is about are never seen apart.

mod drive;

use std::collections::BTreeMap;

use lanekeeper_model::rollout::{Rollout, RolloutOrder, RolloutPlan};
use serde_json::{Value, json};

use crate::audit::{self, NewEntry};
use crate::change::{Change, PAGE_MAX};
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, to_stored};
use crate::error::Error;
use crate::gateway_row::{self, KIND as GATEWAY};
use crate::publication::{self, Manner};
use crate::revisions::Draft;
use crate::rollout_rows::{
    RolloutRow, Spread, StoredRollout, find, parse, resource, rollout_of, save, stored_plan,
};

/// What a gateway's agents shall serve now.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// The newest revision.
    pub revision: u64,
    /// Its content hash.
    pub hash: String,
    /// The rollout that decides who has it already; `None` when everyone shall.
    pub rollout: Option<Rollout>,
}

/// What a rollout brings.
#[derive(Clone, Copy, Debug)]
pub struct RolloutStart<'a> {
    /// The document, checked.
    pub document: &'a Value,
    /// Its content hash.
    pub hash: &'a str,
    /// The plan; `None` follows the gateway's.
    pub plan: Option<&'a RolloutPlan>,
}

impl ConfigStore {
    /// The plan that a gateway's writes follow; `None` when there is no such gateway.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn rollout_plan(&self, gateway: &str) -> Result<Option<RolloutPlan>, Error> {
        let mut session = self.engine.session().await?;
        match gateway_row::current(&mut session, gateway).await? {
            Some(_) => stored_plan(&mut session, gateway).await.map(Some),
            None => Ok(None),
        }
    }

    /// Sets the plan that a gateway's later writes follow. One that is under way keeps its own.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`], [`Error::Unavailable`].
    pub async fn put_rollout_plan(
        &self,
        gateway: &str,
        plan: &RolloutPlan,
        change: &Change,
    ) -> Result<(), Error> {
        change.check()?;
        let mut session = self.engine.begin().await?;
        let written = put_plan(&mut session, gateway, plan, change).await;
        session.finish(written).await
    }

    /// Writes a document as a new revision and rolls it out. `expected` is the revision the caller
    /// has seen; `None` writes over whatever is there.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], [`Error::Invalid`], [`Error::Unavailable`];
    /// nothing was written then.
    pub async fn start_rollout(
        &self,
        gateway: &str,
        expected: Option<u64>,
        start: RolloutStart<'_>,
        change: &Change,
    ) -> Result<StoredRollout, Error> {
        change.check()?;
        let mut session = self.engine.begin().await?;
        let draft = Draft {
            gateway,
            document: start.document,
            hash: start.hash,
            change,
        };
        let written = async {
            let number = publication::draw_number(&mut session, gateway).await?;
            let plan = match start.plan {
                Some(plan) => plan.clone(),
                None => stored_plan(&mut session, gateway).await?,
            };
            let manner = Manner {
                action: "rollout.start",
                spread: Spread::Rollout(plan),
            };
            publication::write(&mut session, expected, draft, number, manner).await?;
            find(&mut session, gateway, number).await
        }
        .await;
        session.finish(written).await
    }

    /// Rollouts of a gateway before a revision, newest first; `None` begins at the newest.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn rollouts(
        &self,
        gateway: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<StoredRollout>, Error> {
        let mut session = self.engine.session().await?;
        let rows: Vec<RolloutRow> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT gateway, version, value, updated_ms FROM rollouts
                 WHERE gateway = $1 AND revision < $2 ORDER BY revision DESC LIMIT $3",
            )
            .bind(gateway)
            .bind(before.map_or(i64::MAX, to_stored))
            .bind(i64::from(limit.min(PAGE_MAX)))
            .fetch_all(connection)
        })?;
        rows.into_iter().map(rollout_of).collect()
    }

    /// The rollout of one revision of a gateway.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn rollout(&self, gateway: &str, revision: u64) -> Result<StoredRollout, Error> {
        let mut session = self.engine.session().await?;
        find(&mut session, gateway, revision).await
    }

    /// Gives an operator's order to a rollout.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::RolloutState`] in a state that does not take the order,
    /// [`Error::Invalid`], [`Error::Unavailable`]; nothing was written then.
    pub async fn order_rollout(
        &self,
        gateway: &str,
        revision: u64,
        order: RolloutOrder,
        change: &Change,
    ) -> Result<StoredRollout, Error> {
        change.check()?;
        let mut session = self.engine.begin().await?;
        let written = give_order(&mut session, gateway, revision, order, change).await;
        session.finish(written).await
    }

    /// Stops a rollout and brings the old content back to every agent, as a new revision.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::RolloutState`] when it no longer decides what agents serve,
    /// [`Error::Invalid`], [`Error::Unavailable`]; nothing was written then.
    pub async fn abort_rollout(
        &self,
        gateway: &str,
        revision: u64,
        change: &Change,
    ) -> Result<StoredRollout, Error> {
        change.check()?;
        let mut session = self.engine.begin().await?;
        let written = async {
            gateway_row::lock(&mut session, gateway).await?;
            let stored = find(&mut session, gateway, revision).await?;
            if !stored.rollout.state.is_active() {
                return Err(Error::RolloutState {
                    state: stored.rollout.state.as_str(),
                });
            }
            drive::roll_back(&mut session, stored, change).await
        }
        .await;
        session.finish(written).await
    }

    /// What the agents of every gateway shall serve, in one consistent reading. Documents are not
    /// read.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn courses(&self) -> Result<BTreeMap<String, Course>, Error> {
        let mut session = self.engine.session().await?;
        // One statement, so that a newest revision is never seen without its rollout.
        let rows: Vec<(String, i64, String, Option<String>)> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT g.name, g.revision, g.hash, r.value
                 FROM gateways g LEFT JOIN rollouts r ON r.gateway = g.name
                      AND r.state IN ('running', 'paused', 'stopped')",
            )
            .fetch_all(connection)
        })?;
        rows.into_iter()
            .map(|(gateway, revision, hash, value)| {
                let rollout = value.map(|value| parse(&gateway, &value)).transpose()?;
                let course = Course {
                    revision: from_stored(revision)?,
                    hash,
                    rollout,
                };
                Ok((gateway, course))
            })
            .collect()
    }
}

async fn put_plan(
    session: &mut Session,
    gateway: &str,
    plan: &RolloutPlan,
    change: &Change,
) -> Result<(), Error> {
    gateway_row::lock(session, gateway).await?;
    gateway_row::current(session, gateway)
        .await?
        .ok_or_else(|| Error::not_found(GATEWAY, gateway))?;
    let before = value_of(&stored_plan(session, gateway).await?)?;
    let after = value_of(plan)?;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO rollout_plans (gateway, plan, updated_ms) VALUES ($1, $2, $3)
             ON CONFLICT (gateway) DO UPDATE SET plan = $2, updated_ms = $3",
        )
        .bind(gateway)
        .bind(after.to_string())
        .bind(to_stored(change.now_ms))
    )?;
    let entry = NewEntry::done("rollout_plan.write", gateway_row::resource(gateway), change)
        .before(before)
        .after(after);
    audit::append(session, entry).await
}

async fn give_order(
    session: &mut Session,
    gateway: &str,
    revision: u64,
    order: RolloutOrder,
    change: &Change,
) -> Result<StoredRollout, Error> {
    gateway_row::lock(session, gateway).await?;
    let mut stored = find(session, gateway, revision).await?;
    let before = stored.rollout.state.as_str();
    stored
        .rollout
        .order(order, &change.actor, change.now_ms)
        .map_err(|refused| Error::RolloutState {
            state: refused.state.as_str(),
        })?;
    let saved = save(session, &stored, change.now_ms).await?;
    let action = match order {
        RolloutOrder::Pause => "rollout.pause",
        RolloutOrder::Resume => "rollout.resume",
        RolloutOrder::Stop => "rollout.abort",
    };
    let entry = NewEntry::done(action, resource(&saved.rollout), change)
        .before(json!({ "state": before }))
        .after(json!({ "state": saved.rollout.state.as_str() }));
    audit::append(session, entry).await?;
    Ok(saved)
}

fn value_of(plan: &RolloutPlan) -> Result<Value, Error> {
    serde_json::to_value(plan).map_err(|error| Error::Corrupt(error.to_string()))
}
