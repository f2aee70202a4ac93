//! What can go wrong in a store, told by what the caller can do about it.
//!
//! Services map these to status codes in one place each. Texts of variants that name a field or an
//! object may be shown to a caller; sources of the others carry internals and belong in the log.

use std::path::PathBuf;

/// A driver's error, kept for the log.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object named does not exist (404).
    #[error("{kind} '{id}' not found")]
    NotFound {
        /// What was looked for, a glossary word.
        kind: &'static str,
        /// The name asked for.
        id: String,
    },
    /// An object of that name exists already (409).
    #[error("{kind} {id:?} already exists")]
    Exists {
        /// What was to be created, a glossary word.
        kind: &'static str,
        /// The name asked for.
        id: String,
    },
    /// The caller's expected revision is not the current one (412). Nothing was written.
    #[error("the current revision is {current}")]
    Conflict {
        /// The revision that is current now.
        current: u64,
    },
    /// No admin token would remain that lives as long as this one (409). Nothing was written.
    #[error(
        "this is the last admin token valid for so long: create another admin token that does \
         not expire, or expires later, before removing it"
    )]
    LastAdmin,
    /// The gateway would be left without an agent that takes requests (409). Nothing was written.
    #[error("this is the last agent of its gateway that takes requests")]
    LastAgent,
    /// A bound on the number of stored objects is reached (409).
    #[error("the limit of {max} {kind}s is reached")]
    Full {
        /// What was to be created, a glossary word.
        kind: &'static str,
        /// The bound.
        max: u64,
    },
    /// Another request with the same idempotency key has made this change (409). Nothing was
    /// written.
    #[error("an earlier request with the same key already made this change")]
    AlreadyDone,
    /// The rollout is in a state that does not take the order (409). Nothing was written.
    #[error("the rollout is {state}, which does not allow this")]
    RolloutState {
        /// The state it is in.
        state: &'static str,
    },
    /// A text cannot be stored (400).
    #[error("{field} {reason}")]
    Invalid {
        /// The field at fault.
        field: &'static str,
        /// What is wrong with it, as the rest of a sentence.
        reason: &'static str,
    },
    /// The address of a store cannot be used. Only at start.
    #[error("the address of the {store} is not usable: {reason}")]
    Address {
        /// Which store.
        store: &'static str,
        /// Why; never contains the address, which may hold a password.
        reason: String,
    },
    /// The data directory cannot be used. Only at start.
    #[error("the data directory {} cannot be used", path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The operating system's word on it.
        source: std::io::Error,
    },
    /// The tables could not be brought up to date. Only at start.
    #[error("the migrations of the configuration database failed")]
    Migration(#[source] Source),
    /// The store does not answer, is read-only or is overloaded (503): the same call may succeed
    /// later. When it comes from a write, the write may have happened if the connection was lost
    /// while it was being committed.
    #[error("the {store} is unavailable")]
    Unavailable {
        /// Which store.
        store: &'static str,
        /// What the driver said.
        source: Source,
    },
    /// What is stored makes no sense to this program (500).
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The store refused a statement of ours (500): a defect of this program.
    #[error("the {store} refused a statement")]
    Internal {
        /// Which store.
        store: &'static str,
        /// What the driver said.
        source: Source,
    },
}

impl Error {
    pub(crate) fn not_found(kind: &'static str, id: &str) -> Self {
        Self::NotFound {
            kind,
            id: id.to_owned(),
        }
    }

    pub(crate) fn exists(kind: &'static str, id: &str) -> Self {
        Self::Exists {
            kind,
            id: id.to_owned(),
        }
    }

    /// True for an error that the same call may not meet again a moment later.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
