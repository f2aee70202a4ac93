//! A revision as answers describe it, without its document.

use crate::clock;
use lanekeeper_store::Revision;

/// One revision without its document.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct RevisionInfo {
    /// The gateway.
    pub(crate) gateway: String,
    /// The revision.
    pub(crate) revision: u64,
    /// SHA-256 of the document in canonical form, hex.
    pub(crate) hash: String,
    /// The name of the token that wrote it.
    pub(crate) author: String,
    /// Why it was written; may be empty.
    pub(crate) message: String,
    /// When it was written, RFC 3339.
    pub(crate) created_at: String,
    /// The revision it replaced; null for the first.
    pub(crate) parent: Option<u64>,
}

impl From<Revision> for RevisionInfo {
    fn from(revision: Revision) -> Self {
        Self {
            gateway: revision.gateway,
            revision: revision.number,
            hash: revision.hash,
            author: revision.author,
            message: revision.message,
            created_at: clock::rfc3339(revision.created_ms),
            parent: revision.parent,
        }
    }
}
