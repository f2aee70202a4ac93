//! Which cells a revision has: read and validated once, stored while it matters.

use lanekeeper_model::fleet::{AdviceRules, GatewayCells};
use lanekeeper_model::ids::CellName;
use lanekeeper_model::{AgentRecord, GatewayName};
use lanekeeper_store::ConfigStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Revisions beside the current ones that are looked at, over all gateways. Agents on still others
/// are taken to have the current cells.
const MAX_OLD_REVISIONS: usize = 64;

type Key = (GatewayName, u64);
/// A revision's cells, and how its agents warn each other.
type Known = (Vec<CellName>, AdviceRules);

/// The cells of revisions that are current or still served.
#[derive(Default)]
pub(super) struct RevisionCells {
    known: BTreeMap<Key, Known>,
}

impl RevisionCells {
    /// The cells of every current revision and of those that `records` say are served.
    ///
    /// A revision that cannot be read now has no cells in this answer and is tried again.
    pub(super) async fn of(
        &mut self,
        store: &ConfigStore,
        targets: &BTreeMap<GatewayName, (u64, String)>,
        records: &[Arc<AgentRecord>],
    ) -> Vec<GatewayCells> {
        let mut wanted: BTreeSet<Key> = targets
            .iter()
            .map(|(name, (revision, _))| (name.clone(), *revision))
            .collect();
        let old: BTreeSet<Key> = records
            .iter()
            .filter(|record| record.applied_revision != 0 && targets.contains_key(&record.gateway))
            .map(|record| (record.gateway.clone(), record.applied_revision))
            .collect();
        wanted.extend(old.into_iter().take(MAX_OLD_REVISIONS));
        self.known.retain(|key, _| wanted.contains(key));

        let mut cells = Vec::with_capacity(wanted.len());
        for key in wanted {
            if !self.known.contains_key(&key)
                && let Some(read) = read(store, &key).await
            {
                self.known.insert(key.clone(), read);
            }
            let of_revision = self.known.get(&key).cloned();
            let is_current = targets
                .get(&key.0)
                .is_some_and(|(revision, _)| *revision == key.1);
            // An unknown old revision is left out: the view then assumes the current cells.
            if let Some((known, rules)) = of_revision.or_else(|| is_current.then(Known::default)) {
                cells.push(GatewayCells {
                    name: key.0,
                    revision: key.1,
                    cells: known,
                    rules,
                });
            }
        }
        cells
    }
}

async fn read(store: &ConfigStore, (gateway, number): &Key) -> Option<Known> {
    let revision = match store.revision(gateway, *number).await {
        Ok(revision) => revision?,
        Err(error) => {
            tracing::warn!(%error, %gateway, revision = number, "cannot read a revision");
            return None;
        }
    };
    let checked =
        tokio::task::spawn_blocking(move || lanekeeper_model::check_json(&revision.document)).await;
    match checked {
        Ok(Ok(checked)) => {
            let gateway = &checked.gateway;
            Some((gateway.cells(), AdviceRules::of(gateway)))
        }
        Ok(Err(_)) => {
            // Written past the API. Agents refuse it, and their reports name the cells they have.
            tracing::warn!(%gateway, revision = number, "a stored document has errors");
            Some(Known::default())
        }
        Err(error) => {
            tracing::error!(%error, %gateway, revision = number, "validation failed");
            None
        }
    }
}
