//! The rows of rollouts and of the plans they follow.

use lanekeeper_model::rollout::{NewRollout, Rollout, RolloutPlan, cells_of_document};

use crate::engine::{Session, execute, fetch, from_stored, to_stored};
use crate::error::Error;
use crate::gateway_row;
use crate::revisions::Revision;

/// The word for a rollout in errors.
const KIND: &str = "rollout";

/// What a rollout's columns are read by: gateway, version, value, last written.
pub(crate) type RolloutRow = (String, i64, String, i64);

/// A rollout as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRollout {
    /// The rollout.
    pub rollout: Rollout,
    /// Grows with each write; whoever writes on top of an older one does not.
    pub version: u64,
    /// Last written, wall time in unix milliseconds.
    pub updated_ms: u64,
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

/// Makes a new revision the subject of a rollout, or of none: called by every write of a revision,
/// in its transaction. A rollout that is under way is superseded, and what its unreached agents
/// keep is what those of the new one keep.
pub(crate) async fn follow(
    session: &mut Session,
    revision: &Revision,
    replaced: (u64, String),
    spread: Spread,
) -> Result<(), Error> {
    let gateway = &revision.gateway;
    let mut base = replaced;
    if let Some(mut active) = active(session, gateway).await? {
        active.rollout.supersede();
        base = (active.rollout.base, active.rollout.base_hash.clone());
        save(session, &active, revision.created_ms).await?;
    }
    let plan = match spread {
        Spread::AtOnce => return Ok(()),
        Spread::Rollout(plan) => plan,
        Spread::ByPlan => match stored_plan(session, gateway).await? {
            plan if plan.is_all_at_once() => return Ok(()),
            plan => plan,
        },
    };
    let new = NewRollout {
        gateway: gateway.as_str().into(),
        revision: (revision.number, revision.hash.clone()),
        base,
        author: revision.author.clone(),
        message: revision.message.clone(),
        cells_per_agent: cells_of_document(&revision.document),
    };
    let rollout = Rollout::new(new, plan, revision.created_ms);
    let value = text_of(&rollout)?;
    execute!(
        session,
        sqlx::query(
            "INSERT INTO rollouts (gateway, revision, state, version, value, updated_ms)
             VALUES ($1, $2, $3, 1, $4, $5)",
        )
        .bind(gateway)
        .bind(to_stored(revision.number))
        .bind(rollout.state.as_str())
        .bind(value)
        .bind(to_stored(revision.created_ms))
    )?;
    Ok(())
}

/// Removes what goes with a gateway: its rollouts, whose steps stay in the audit trail, and its plan.
/// One that is created under its name later does not inherit them.
pub(crate) async fn forget(session: &mut Session, gateway: &str) -> Result<(), Error> {
    execute!(
        session,
        sqlx::query("DELETE FROM rollouts WHERE gateway = $1").bind(gateway)
    )?;
    execute!(
        session,
        sqlx::query("DELETE FROM rollout_plans WHERE gateway = $1").bind(gateway)
    )?;
    Ok(())
}

pub(crate) async fn stored_plan(
    session: &mut Session,
    gateway: &str,
) -> Result<RolloutPlan, Error> {
    let row: Option<(String,)> = fetch!(session, connection => {
        sqlx::query_as("SELECT plan FROM rollout_plans WHERE gateway = $1")
            .bind(gateway)
            .fetch_optional(connection)
    })?;
    let Some((plan,)) = row else {
        return Ok(RolloutPlan::default());
    };
    serde_json::from_str(&plan)
        .map_err(|error| Error::Corrupt(format!("rollout plan of {gateway:?}: {error}")))
}

/// The rollout that decides what a gateway's agents serve.
async fn active(session: &mut Session, gateway: &str) -> Result<Option<StoredRollout>, Error> {
    let row: Option<RolloutRow> = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT gateway, version, value, updated_ms FROM rollouts
             WHERE gateway = $1 AND state IN ('running', 'paused', 'stopped')",
        )
        .bind(gateway)
        .fetch_optional(connection)
    })?;
    row.map(rollout_of).transpose()
}

pub(crate) async fn find(
    session: &mut Session,
    gateway: &str,
    revision: u64,
) -> Result<StoredRollout, Error> {
    let row: Option<RolloutRow> = fetch!(session, connection => {
        sqlx::query_as(
            "SELECT gateway, version, value, updated_ms FROM rollouts
             WHERE gateway = $1 AND revision = $2",
        )
        .bind(gateway)
        .bind(to_stored(revision))
        .fetch_optional(connection)
    })?;
    let row = row.ok_or_else(|| Error::not_found(KIND, &format!("{gateway}/{revision}")))?;
    rollout_of(row)
}

/// Writes a rollout over the one that was read. The caller holds the gateway's counter row.
pub(crate) async fn save(
    session: &mut Session,
    stored: &StoredRollout,
    now_ms: u64,
) -> Result<StoredRollout, Error> {
    let rollout = &stored.rollout;
    let value = text_of(rollout)?;
    execute!(
        session,
        sqlx::query(
            "UPDATE rollouts SET state = $3, version = version + 1, value = $4, updated_ms = $5
             WHERE gateway = $1 AND revision = $2",
        )
        .bind(rollout.gateway.as_str())
        .bind(to_stored(rollout.revision))
        .bind(rollout.state.as_str())
        .bind(value)
        .bind(to_stored(now_ms))
    )?;
    Ok(StoredRollout {
        rollout: rollout.clone(),
        version: stored.version + 1,
        updated_ms: now_ms,
    })
}

pub(crate) fn rollout_of(row: RolloutRow) -> Result<StoredRollout, Error> {
    let (gateway, version, value, updated_ms) = row;
    Ok(StoredRollout {
        rollout: parse(&gateway, &value)?,
        version: from_stored(version)?,
        updated_ms: from_stored(updated_ms)?,
    })
}

pub(crate) fn parse(gateway: &str, value: &str) -> Result<Rollout, Error> {
    serde_json::from_str(value)
        .map_err(|error| Error::Corrupt(format!("a rollout of {gateway:?}: {error}")))
}

fn text_of(rollout: &Rollout) -> Result<String, Error> {
    serde_json::to_string(rollout).map_err(|error| Error::Corrupt(error.to_string()))
}

/// How the audit trail calls a rollout.
pub(crate) fn resource(rollout: &Rollout) -> String {
    format!(
        "{}/rollouts/{}",
        gateway_row::resource(&rollout.gateway),
        rollout.revision
    )
}
