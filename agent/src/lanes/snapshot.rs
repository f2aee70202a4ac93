//! One revision, compiled for the request path: every name resolved to what serves it.
//!
//! A snapshot never changes, except for credentials, whose content lives outside the revision. A
//! request holds the one it began with until its answer ends.

pub(crate) mod compile;
pub(crate) mod live;

use crate::clients::Clients;
use crate::lanes::cells::CellSlot;
use crate::lanes::lane::Lane;
use crate::lanes::pool::Pool;
use crate::lanes::provider::Provider;
use lanekeeper_breaker::CauseKind;
use lanekeeper_model::gateway::{Cors, Limits, Pattern};
use lanekeeper_model::{ConfigSource, PoolName};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

/// Which revision is served, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The revision's number; 0 for a local file.
    pub revision: u64,
    /// SHA-256 of the canonical document, in hexadecimal.
    pub hash: String,
    /// Where the document came from.
    pub source: ConfigSource,
}

/// A compiled revision.
pub(crate) struct Snapshot {
    pub(crate) applied: Applied,
    /// What a caller may name as a model: pools, lanes, and `provider/lane`.
    pub(crate) names: HashMap<String, Arc<Pool>>,
    /// Pools with a name, sorted by it.
    pub(crate) pools: BTreeMap<PoolName, Arc<Pool>>,
    /// Lanes, sorted by name; a lane's number is its place here.
    pub(crate) lanes: Vec<Arc<Lane>>,
    pub(crate) providers: Vec<Arc<Provider>>,
    pub(crate) clients: Clients,
    pub(crate) limits: Limits,
    /// Which web pages may call.
    pub(crate) cors: Cors,
    /// Pools of names that nobody declared, in the order they are tried.
    pub(crate) routes: Vec<(Pattern, Arc<Pool>)>,
    /// What this version does not do as the document says.
    pub(crate) unserved: Vec<String>,
}

impl Snapshot {
    /// What serves the model name of a caller.
    pub(crate) fn route(&self, model: &str) -> Option<&Arc<Pool>> {
        self.names.get(model).or_else(|| {
            let mut routes = self.routes.iter();
            let found = routes.find(|(pattern, _)| pattern.matches(model));
            found.map(|(_, pool)| pool)
        })
    }

    /// Every cell of every lane, and of every provider that has its own.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Arc<CellSlot>> {
        let of_lanes = self.lanes.iter().flat_map(|lane| &lane.cells);
        of_lanes.chain(self.providers.iter().flat_map(|it| it.own_cells()))
    }

    /// Everything that keeps a part of the revision from working here.
    pub(crate) fn problems(&self, now: Instant) -> Vec<String> {
        let missing = self.providers.iter().filter_map(|provider| {
            let reason = provider.dead_reason(false)?;
            Some(format!("providers.{}: {reason}", provider.name))
        });
        let lacking = self.lanes.iter().filter(|lane| {
            let mut cells = lane.cells.iter().map(|cell| cell.view(now));
            cells.any(|view| {
                view.cause
                    .is_some_and(|it| it.kind == CauseKind::ModelMissing)
            })
        });
        let lacking = lacking.map(|lane| {
            format!(
                "models.{}: {} says that it has no model \"{}\"",
                lane.name(),
                lane.provider.name,
                lane.upstream_model
            )
        });
        missing
            .chain(lacking)
            .chain(self.unserved.iter().cloned())
            .collect()
    }
}
