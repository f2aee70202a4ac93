//! The names a caller may use as a model, in the list its vendor's package reads.

use super::path::Route;
use crate::clients::Caller;
use crate::lanes::snapshot::Snapshot;
use lanekeeper_protocol::Protocol;
use lanekeeper_protocol::error_body::ErrorKind;
use serde_json::{Value, json};

/// Lists have a date of creation, and names of a gateway have none that means anything.
const CREATED_AT: &str = "1970-01-01T00:00:00Z";

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
    let protocol = route.dialect.protocol();
    if let Some(model) = route.model.as_deref() {
        super::of_caller(snapshot, caller, model)?;
        let entry = entry(protocol, model);
        return Ok(if route.wants_list {
            list(protocol, vec![entry])
        } else {
            entry
        });
    }
    let pools = snapshot.pools.keys().map(|name| name.as_str());
    let lanes = snapshot.lanes.iter().map(|lane| lane.name().as_str());
    let entries: Vec<Value> = pools
        .chain(lanes)
        .filter(|name| caller.may_use(name))
        .map(|name| entry(protocol, name))
        .collect();
    Ok(list(protocol, entries))
}

fn list(protocol: Protocol, entries: Vec<Value>) -> Value {
    let id = |entry: Option<&Value>| entry.and_then(|entry| entry.get("id")).cloned();
    match protocol {
        Protocol::Gemini => json!({"models": entries}),
        Protocol::Anthropic => json!({
            "has_more": false,
            "first_id": id(entries.first()),
            "last_id": id(entries.last()),
            "data": entries,
        }),
        _ => json!({"object": "list", "data": entries}),
    }
}

fn entry(protocol: Protocol, name: &str) -> Value {
    match protocol {
        Protocol::Gemini => json!({
            "name": format!("models/{name}"),
            "version": "1",
            "displayName": name,
            "supportedGenerationMethods":
                ["generateContent", "countTokens", "embedContent", "batchEmbedContents"],
        }),
        Protocol::Anthropic => json!({
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": CREATED_AT,
        }),
        _ => json!({"id": name, "object": "model", "created": 0, "owned_by": "lanekeeper"}),
    }
}
