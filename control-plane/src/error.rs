//! Why the control plane does not start or does not go on.

use std::io;

/// Errors of [`crate::run()`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is refused; the operator mends it.
    #[error("{field}: {reason}")]
    Config {
        /// The field of [`crate::Config`].
        field: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// It cannot be told who is trusted.
    #[error("the authority that certificates come from cannot be used")]
    Trust {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A listening socket could not be opened.
    #[error("the {listener} listener could not be opened")]
    Listen {
        /// Which one: `grpc` or `ops`.
        listener: &'static str,
        /// The system's word, with the address.
        source: io::Error,
    },
    /// A listener ended by itself.
    #[error("the {listener} listener ended")]
    Ended {
        /// Which one: `grpc` or `ops`.
        listener: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
