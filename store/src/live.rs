//! The live view: what connected agents last reported, and hints between replicas.
//!
//! One record per agent instance, the newest by (session epoch, seq), gone some time after its last
//! write. Hints tell other replicas that something is worth reading again; they may be lost, so a
//! slow poll stays the truth.

mod memory;
mod redis;

use std::time::Duration;

use async_trait::async_trait;
use lanekeeper_model::{AgentRecord, GatewayName};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

pub use self::memory::MemoryLive;
pub use self::redis::{RedisLive, RedisLiveOptions};

use crate::error::Error;

/// How long a record outlives its last write: twice the time after which an agent counts as gone,
/// so that a view shows it as gone before it disappears.
pub const RECORD_TTL: Duration = Duration::from_secs(600);
/// Hints that a slow subscriber may be behind before it loses the oldest; it then sees a lag and
/// reads everything.
pub const HINTS_MAX: usize = 1024;

/// What became of a record that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is the record now.
    Stored,
    /// A later one is there; nothing was changed.
    Older,
}

/// Something another replica may want to read again. Never the thing itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Hint {
    /// A gateway has a new revision, or is gone.
    Revision {
        /// The gateway's name.
        gateway: GatewayName,
    },
    /// A rollout of a gateway took a step.
    Rollout {
        /// The gateway's name.
        gateway: GatewayName,
    },
    /// The operators' orders on a gateway's agents have changed.
    Overrides {
        /// The gateway's name.
        gateway: GatewayName,
    },
    /// An agent's record changed in a way worth showing at once.
    Report {
        /// The gateway's name.
        gateway: GatewayName,
        /// The agent's instance.
        instance: String,
    },
    /// A token was revoked: what is remembered of tokens is stale.
    TokenRevoked,
    /// An agent's identity was revoked or an authority added.
    Revocation,
}

/// The newest record of every agent instance, shared by all replicas that use one view.
#[async_trait]
pub trait LiveView: Send + Sync {
    /// Stores a record unless a later one by (session epoch, seq) is there. An equal pair replaces:
    /// within a session one writer adds an acknowledgement or a farewell to the latest report.
    /// `now_ms` is wall time in unix milliseconds, by which the in-process view ages its records.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the record may or may not be stored.
    async fn put(&self, record: &AgentRecord, now_ms: u64) -> Result<Put, Error>;

    /// The records of one gateway or of all, in the order of gateway and instance.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn records(&self, gateway: Option<&str>) -> Result<Vec<AgentRecord>, Error>;

    /// Drops one record, if it is there.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn forget(&self, gateway: &str, instance: &str) -> Result<(), Error>;

    /// Sends a hint to every subscriber of every replica, the sender's own included.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the hint is lost, which hints may be.
    async fn publish(&self, hint: Hint) -> Result<(), Error>;

    /// Hints from now on.
    fn subscribe(&self) -> broadcast::Receiver<Hint>;

    /// Answers when the view does.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn ping(&self) -> Result<(), Error>;
}

/// A record's place in order: later sessions come after earlier ones, later reports after earlier
/// ones.
fn order_of(record: &AgentRecord) -> (u64, u64) {
    (record.session_epoch, record.seq)
}
