//! A gateway's row and its lock, which every write of its revisions, rollouts and overrides works on.

use serde_json::Value;

use crate::engine::{Session, execute, fetch, from_stored};
use crate::error::Error;

/// The glossary word in errors.
pub(crate) const KIND: &str = "gateway";

/// Takes a gateway's lock without drawing a number: the lock is the counter's row.
pub(crate) async fn lock(session: &mut Session, name: &str) -> Result<(), Error> {
    execute!(
        session,
        sqlx::query("UPDATE revision_counters SET last = last WHERE gateway = $1").bind(name)
    )?;
    Ok(())
}

/// The current revision of a gateway and its hash; `None` when there is no such gateway.
pub(crate) async fn current(
    session: &mut Session,
    name: &str,
) -> Result<Option<(u64, String)>, Error> {
    let row: Option<(i64, String)> = fetch!(session, connection => {
        sqlx::query_as("SELECT revision, hash FROM gateways WHERE name = $1")
            .bind(name)
            .fetch_optional(connection)
    })?;
    row.map(|(revision, hash)| Ok((from_stored(revision)?, hash)))
        .transpose()
}

/// How the audit trail calls a gateway.
pub(crate) fn resource(name: &str) -> String {
    format!("gateways/{name}")
}

/// The labels of a document as JSON text. What is no text is left out: the store does not judge
/// documents.
pub(crate) fn labels_of(document: &Value) -> String {
    let labels: serde_json::Map<String, Value> = document
        .get("labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.is_string())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Value::Object(labels).to_string()
}
