//! What a gateway's agents shall serve.

use bytes::Bytes;

/// The newest known revision of a gateway, encoded once and shared by all its sessions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its number.
    pub(crate) revision: u64,
    /// Its content hash.
    pub(crate) hash: String,
    /// The document as JSON.
    pub(crate) document: Bytes,
}
