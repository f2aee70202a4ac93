//! The names a caller may use as a model, in the list its vendor's package reads.

use super::path::Route;
use crate::clients::Caller;
use crate::lanes::snapshot::Snapshot;
use lanekeeper_protocol::error_body::ErrorKind;
use serde_json::Value;

/// The list, or the entry named by the path. Below the prefix of a model there is this one only.
///
/// # Errors
///
/// The named model does not exist or is not the caller's to use.
pub(super) fn answer(
    snapshot: &Snapshot,
    caller: &Caller,
    route: &Route<'_>,
) -> Result<Value, ErrorKind> {
    let vendor = route.dialect.vendor();
    if let Some(model) = route.model.as_deref() {
        super::of_caller(snapshot, caller, model)?;
        let entry = vendor.model_entry(model);
        return Ok(if route.wants_list {
            vendor.model_list(vec![entry])
        } else {
            entry
        });
    }
    let pools = snapshot.pools.keys().map(|name| name.as_str());
    let lanes = snapshot.lanes.iter().map(|lane| lane.name().as_str());
    let entries: Vec<Value> = pools
        .chain(lanes)
        .filter(|name| caller.may_use(name))
        .map(|name| vendor.model_entry(name))
        .collect();
    Ok(vendor.model_list(entries))
}
