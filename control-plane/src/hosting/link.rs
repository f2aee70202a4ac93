//! What a stream knows of the connection below it.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::enrolment::authorization::Proof;

/// What a request knows of its connection.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// Closes the connection at once.
    pub(crate) cut: CancellationToken,
    /// The other end.
    pub(crate) peer: Option<SocketAddr>,
    /// What it proved about itself; empty until a handshake is over.
    pub(crate) proof: Arc<OnceLock<Proof>>,
}
