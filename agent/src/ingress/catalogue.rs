//! `GET /v1/models`: the names a caller may use as a model.
//!
//! One document serves both the OpenAI and the Anthropic packages: each reads its own fields.

use crate::clients::Caller;
use crate::protocol::error_body::ErrorKind;
use crate::snapshot::Snapshot;
use serde_json::{Value, json};

/// The list, or the entry named by the path.
///
/// # Errors
///
/// The named model does not exist or is not the caller's to use.
pub(super) fn answer(
    snapshot: &Snapshot,
    caller: &Caller,
    named: Option<&str>,
) -> Result<Value, ErrorKind> {
    if let Some(model) = named {
        if snapshot.route(model).is_none() {
            return Err(ErrorKind::NotFound {
                model: model.to_owned(),
            });
        }
        if !caller.may_use(model) {
            return Err(ErrorKind::Forbidden {
                model: model.to_owned(),
            });
        }
        return Ok(entry(model));
    }
    let pools = snapshot.pools.keys().map(|name| name.as_str());
    let lanes = snapshot.lanes.iter().map(|lane| lane.name().as_str());
    let entries: Vec<Value> = pools
        .chain(lanes)
        .filter(|name| caller.may_use(name))
        .map(entry)
        .collect();
    let id = |entry: Option<&Value>| entry.and_then(|entry| entry.get("id")).cloned();
    Ok(json!({
        "object": "list",
        "has_more": false,
        "first_id": id(entries.first()),
        "last_id": id(entries.last()),
        "data": entries,
    }))
}

fn entry(name: &str) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "lanekeeper",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    })
}
