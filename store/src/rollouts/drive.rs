//! What whoever drives rollouts reads and writes. A step on top of an older version than the stored
//! one changes nothing, so any number of replicas may drive at once.

use lanekeeper_model::rollout::Rollout;
use serde_json::json;

use crate::audit::{self, NewEntry};
use crate::change::Change;
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, to_stored};
use crate::error::Error;
use crate::gateway_row;
use crate::publication::{self, Manner};
use crate::revisions::{self, Draft};
use crate::rollout_rows::{RolloutRow, Spread, StoredRollout, find, resource, rollout_of, save};

impl ConfigStore {
    /// The rollouts that are going on, of all gateways.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    pub async fn running_rollouts(&self) -> Result<Vec<StoredRollout>, Error> {
        let mut session = self.engine.session().await?;
        // The first condition is the index's own, without which SQLite would read every row.
        let rows: Vec<RolloutRow> = fetch!(&mut session, connection => {
            sqlx::query_as(
                "SELECT gateway, version, value, updated_ms FROM rollouts
                 WHERE state IN ('running', 'paused', 'stopped') AND state = 'running'
                 ORDER BY gateway",
            )
            .fetch_all(connection)
        })?;
        rows.into_iter().map(rollout_of).collect()
    }

    /// Writes the next state of a rollout that was read as version `seen`; false when someone else
    /// wrote in between. `action` names the step in the audit trail; `None` for notes, which decide
    /// nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn advance_rollout(
        &self,
        rollout: &Rollout,
        seen: u64,
        action: Option<&'static str>,
        change: &Change,
    ) -> Result<bool, Error> {
        let mut session = self.engine.begin().await?;
        let written = async {
            let Some(stored) = lock_seen(&mut session, rollout, seen).await? else {
                return Ok(false);
            };
            let saved = save(&mut session, &stored, change.now_ms).await?;
            if let Some(action) = action {
                let entry = NewEntry::done(action, resource(rollout), change).after(json!({
                    "state": saved.rollout.state.as_str(),
                    "stages_begun": saved.rollout.stages_begun(),
                }));
                audit::append(&mut session, entry).await?;
            }
            Ok(true)
        }
        .await;
        session.finish(written).await
    }

    /// Forgets rollouts that are over: those last written before this time, and of each gateway all
    /// but the newest `kept`. The audit trail keeps their steps. The value is how many went.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn prune_rollouts(&self, ended_before_ms: u64, kept: u32) -> Result<u64, Error> {
        let mut session = self.engine.begin().await?;
        // Without so many the inner question has no answer, and the condition does not hold.
        let pruned = execute!(
            &mut session,
            sqlx::query(
                "DELETE FROM rollouts WHERE state NOT IN ('running', 'paused', 'stopped')
                 AND (updated_ms < $1 OR revision <= (
                     SELECT newer.revision FROM rollouts newer
                     WHERE newer.gateway = rollouts.gateway
                           AND newer.state NOT IN ('running', 'paused', 'stopped')
                     ORDER BY newer.revision DESC LIMIT 1 OFFSET $2))",
            )
            .bind(to_stored(ended_before_ms))
            .bind(i64::from(kept))
        );
        session.finish(pruned).await
    }

    /// Brings the old content back as a new revision, in place of a rollout that stopped and was
    /// read as version `seen`; false when someone else wrote in between.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn revert_rollout(
        &self,
        rollout: &Rollout,
        seen: u64,
        change: &Change,
    ) -> Result<bool, Error> {
        let mut session = self.engine.begin().await?;
        let written = async {
            let Some(stored) = lock_seen(&mut session, rollout, seen).await? else {
                return Ok(false);
            };
            roll_back(&mut session, stored, change).await.map(|_| true)
        }
        .await;
        session.finish(written).await
    }
}

/// The rollout as it shall be written next, if the stored one still is the version seen.
async fn lock_seen(
    session: &mut Session,
    rollout: &Rollout,
    seen: u64,
) -> Result<Option<StoredRollout>, Error> {
    gateway_row::lock(session, &rollout.gateway).await?;
    let stored = find(session, &rollout.gateway, rollout.revision).await?;
    Ok((stored.version == seen).then(|| StoredRollout {
        rollout: rollout.clone(),
        ..stored
    }))
}

/// Writes the base content as a new revision for everyone and ends the rollout. The caller holds the
/// gateway's counter row.
pub(super) async fn roll_back(
    session: &mut Session,
    mut stored: StoredRollout,
    change: &Change,
) -> Result<StoredRollout, Error> {
    let gateway = stored.rollout.gateway.clone();
    let base = revisions::document(session, &gateway, stored.rollout.base).await?;
    let number = publication::draw_number(session, &gateway).await?;
    // Ended first: the write that follows would otherwise supersede it.
    stored.rollout.rolled_back(number, &change.actor);
    let saved = save(session, &stored, change.now_ms).await?;
    let draft = Draft {
        gateway: &gateway,
        document: &base,
        hash: &saved.rollout.base_hash,
        change,
    };
    let manner = Manner {
        action: "rollout.roll_back",
        spread: Spread::AtOnce,
    };
    publication::write(session, None, draft, number, manner).await?;
    Ok(saved)
}
