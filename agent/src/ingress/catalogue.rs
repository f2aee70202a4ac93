//! The names a caller may use as a model, in the list its vendor's package reads.

use crate::clients::Caller;
use crate::protocol::error_body::ErrorKind;
use crate::protocol::{Dialect, Protocol};
use crate::snapshot::Snapshot;
use serde_json::{Value, json};

/// Lists have a date of creation, and names of a gateway have none that means anything.
const CREATED_AT: &str = "1970-01-01T00:00:00Z";

/// The list, or the entry named by the path.
///
/// # Errors
///
/// The named model does not exist or is not the caller's to use.
pub(super) fn answer(
    snapshot: &Snapshot,
    caller: &Caller,
    dialect: Dialect,
    named: Option<&str>,
) -> Result<Value, ErrorKind> {
    let protocol = dialect.protocol();
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
        return Ok(entry(protocol, model));
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
