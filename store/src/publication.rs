//! Publishing a revision: its number, its row, the gateway's head and the rollout that it starts, in
//! one transaction.

use serde_json::{Value, json};

use crate::audit::{self, NewEntry};
use crate::change::Change;
use crate::config_store::ConfigStore;
use crate::engine::{Session, execute, fetch, from_stored, to_stored};
use crate::error::Error;
use crate::gateway_row::{self, KIND};
use crate::revisions::{self, Draft, Revision};
use crate::rollout_rows::{self, Spread};

/// How a new revision is written.
#[derive(Debug)]
pub(crate) struct Manner {
    /// What the audit trail calls it.
    pub(crate) action: &'static str,
    /// How agents get it.
    pub(crate) spread: Spread,
}

impl ConfigStore {
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
    let (current, current_hash) = gateway_row::current(session, draft.gateway)
        .await?
        .ok_or_else(missing)?;
    if expected.is_some_and(|expected| expected != current) {
        return Err(Error::Conflict { current });
    }
    let revision = revisions::insert(session, &draft, number, Some(current)).await?;
    execute!(
        session,
        sqlx::query(
            "UPDATE gateways SET revision = $2, hash = $3, labels = $4, updated_ms = $5
             WHERE name = $1",
        )
        .bind(draft.gateway)
        .bind(to_stored(number))
        .bind(draft.hash)
        .bind(gateway_row::labels_of(draft.document))
        .bind(to_stored(draft.change.now_ms))
    )?;
    let replaced = (current, current_hash.clone());
    rollout_rows::follow(session, &revision, replaced, manner.spread).await?;
    let resource = gateway_row::resource(draft.gateway);
    let entry = NewEntry::done(manner.action, resource, draft.change)
        .before(json!({ "revision": current, "hash": current_hash }))
        .after(json!({ "revision": revision.number, "hash": revision.hash }));
    audit::append(session, entry).await?;
    Ok(revision)
}
