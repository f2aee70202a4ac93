//! What became different between two views of the fleet, for those who follow them.

use super::etag::timeless;
use lanekeeper_model::FleetView;
use lanekeeper_model::fleet::{CellView, FleetAgents};
use lanekeeper_model::{GatewayName, LaneName, PoolName, ProviderName};
use std::collections::BTreeMap;

/// Names a cell of the view.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct CellKey {
    /// The gateway.
    gateway: GatewayName,
    /// The pool; empty for direct routes, null for a provider's own cell.
    pool: Option<PoolName>,
    /// The lane; null for a provider's own cell.
    lane: Option<LaneName>,
    /// The provider whose own cell it is; null for a lane's cell.
    provider: Option<ProviderName>,
    /// The endpoint, where the policy keeps a cell for each.
    endpoint: Option<String>,
}

/// A change of the view: replace the cells that are listed, drop the ones that are gone.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Change {
    /// The moment of the new view, RFC 3339.
    generated_at: String,
    /// True when a share of the reports is missing.
    partial: bool,
    /// True after a start of the server, until every agent that was known before has come back or
    /// has had its time for it.
    rebuilding: bool,
    /// Agents of the gateways shown.
    agents: FleetAgents,
    /// Cells that are new or different.
    cells: Vec<CellView>,
    /// Cells that the view no longer lists.
    gone: Vec<CellKey>,
}

fn key(cell: &CellView) -> CellKey {
    CellKey {
        gateway: cell.gateway.clone(),
        pool: cell.pool.clone(),
        lane: cell.lane.clone(),
        provider: cell.lane.is_none().then(|| cell.provider.clone()),
        endpoint: cell.endpoint.clone(),
    }
}

/// The change from `old`, a timeless view, to `new`; with the timeless form of `new`.
/// `None` when both tell the same.
pub(crate) fn between(old: &FleetView, new: FleetView) -> Option<(Change, FleetView)> {
    let rest = timeless(new.clone());
    if *old == rest {
        return None;
    }
    let before: BTreeMap<CellKey, &CellView> =
        old.cells.iter().map(|cell| (key(cell), cell)).collect();
    let after: BTreeMap<CellKey, &CellView> =
        rest.cells.iter().map(|cell| (key(cell), cell)).collect();
    let cells = new
        .cells
        .into_iter()
        .filter(|cell| {
            let key = key(cell);
            before.get(&key) != after.get(&key)
        })
        .collect();
    let gone = before
        .keys()
        .filter(|key| !after.contains_key(key))
        .cloned()
        .collect();
    let change = Change {
        generated_at: new.generated_at,
        partial: new.partial,
        rebuilding: new.rebuilding,
        agents: new.agents,
        cells,
        gone,
    };
    Some((change, rest))
}
