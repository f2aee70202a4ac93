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

/// The result of verifying the whole audit trail.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct AuditChain {
    /// True when every entry follows the one before, and is as it was written.
    intact: bool,
    /// Entries that were looked at.
    entries: u64,
    /// The first entry at which the chain does not hold; null when it holds.
    broken_at: Option<u64>,
    /// What is wrong there; null when nothing is.
    reason: Option<&'static str>,
}

/// Verify every hash of the audit trail. Entries changed, removed or reordered in the database
/// since they were written are found, unless everything after them was rewritten too: keep a copy of
/// a late entry's hash elsewhere to detect that as well.
#[utoipa::path(
    get,
    path = "/admin/v1/audit/verify",
    operation_id = "verify_audit",
    tag = "audit",
    responses((status = 200, description = "Whether the chain holds", body = AuditChain))
)]
pub(crate) async fn verify(State(app): State<App>) -> Result<axum::Json<AuditChain>, Error> {
    let verdict = app.store.verify_audit().await?;
    Ok(axum::Json(AuditChain {
        intact: verdict.fault.is_none(),
        entries: verdict.entries,
        broken_at: verdict.fault.map(|(id, _)| id),
        reason: verdict.fault.map(|(_, reason)| reason),
    }))
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
