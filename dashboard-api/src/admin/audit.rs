//! The audit trail: who did or tried what, in a chain of hashes.

use super::PageQuery;
use crate::app::App;
use crate::clock;
use crate::error::Error;
use crate::input::{Query, cursor};
use axum::extract::State;
use lanekeeper_store::AuditEntry;
use serde_json::Value;

/// One entry of the audit trail.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct AuditInfo {
    /// Its place in the chain.
    id: u64,
    /// When, RFC 3339.
    at: String,
    /// Who: a token's name, with its id in brackets.
    actor: String,
    /// What was done, `noun.verb`.
    action: String,
    /// To what: `gateways/NAME`, `tokens/ID`.
    resource: String,
    /// `done` or `refused`.
    outcome: &'static str,
    /// The reason given; may be empty.
    message: String,
    /// What was there before, in short.
    before: Option<Value>,
    /// What is there now, in short.
    after: Option<Value>,
    /// The hash of the entry before.
    prev_hash: String,
    /// SHA-256 over this entry and `prev_hash`, hex.
    hash: String,
}

impl From<AuditEntry> for AuditInfo {
    fn from(entry: AuditEntry) -> Self {
        Self {
            id: entry.seq,
            at: clock::rfc3339(entry.at_ms),
            actor: entry.actor,
            action: entry.action,
            resource: entry.resource,
            outcome: entry.outcome.as_str(),
            message: entry.message,
            before: entry.before,
            after: entry.after,
            prev_hash: entry.prev_hash,
            hash: entry.hash,
        }
    }
}

/// A page of the audit trail, newest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct AuditPage {
    /// The entries.
    entries: Vec<AuditInfo>,
    /// Where the next page starts; null on the last one.
    next_cursor: Option<String>,
}

/// List the audit trail, newest first.
#[utoipa::path(
    get,
    path = "/admin/v1/audit",
    operation_id = "list_audit",
    tag = "audit",
    params(PageQuery),
    responses((status = 200, description = "A page of the audit trail", body = AuditPage))
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<AuditPage>, Error> {
    let limit = cursor::limit(page.limit.as_deref())?;
    let before = cursor::parsed(page.cursor.as_deref())?;
    let mut entries = app.store.audit_latest(before, limit + 1).await?;
    let next_cursor = cursor::cut(&mut entries, limit, |entry| entry.seq.to_string());
    Ok(axum::Json(AuditPage {
        entries: entries.into_iter().map(AuditInfo::from).collect(),
        next_cursor,
    }))
}
