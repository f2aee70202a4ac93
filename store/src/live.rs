//! The live view: what connected agents last reported, and hints between replicas.
//!
//! One record per agent instance, the newest by (session epoch, seq), gone some time after its last
//! write. Hints tell other replicas that something is worth reading again; they may be lost, so a
//! slow poll stays the truth.

mod memory;
mod redis;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lanekeeper_model::lease::{LeaseKey, Leased, ProbeVerdict, ProbedLane};
use lanekeeper_model::traffic::ReplicaTraffic;
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

/// How often a replica announces its share.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// A share that was announced longer ago is missing.
pub const SHARE_OVERDUE: Duration = Duration::from_secs(4);
/// A missing share is missed for this long: then its agents are elsewhere, or stale.
pub const SHARE_TTL: Duration = Duration::from_secs(60);

/// What became of a record that was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is the record now.
    Stored,
    /// A later one is there; nothing was changed.
    Older,
}

/// Where a reader of [`LiveView::changes`] has got to. The default is the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Names the view's memory; another one after the view has lost it.
    run: String,
    /// The last change read.
    seq: u64,
}

/// What changed in the view since a [`Cursor`].
#[derive(Clone, Debug)]
pub struct Changes {
    /// True when `records` are all there are, and what was read before is void: the first reading,
    /// and the first one after the view has lost its memory.
    pub is_whole: bool,
    /// Records that are new or newer.
    pub records: Vec<Arc<AgentRecord>>,
    /// Agents that were forgotten: gateway and instance. A record that only ran out of its time to
    /// live may be missing here.
    pub gone: Vec<(GatewayName, String)>,
    /// Where to read on.
    pub next: Cursor,
}

/// A control-plane replica's part in the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Sessions open there.
    pub sessions: u64,
    /// The view has lost records of this replica, which is still writing them again.
    pub rewriting: bool,
    /// The replica ends; its agents go elsewhere.
    pub left: bool,
}

/// A share as it was last announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenShare {
    /// The replica, by the name it gave itself.
    pub replica: String,
    /// How long ago it announced its share.
    pub age: Duration,
    /// The share.
    pub share: Share,
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
    /// An incident of a gateway began, changed or ended.
    Incident {
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
    /// An agent probed a lane for all others.
    ProbeVerdict {
        /// The gateway's name.
        gateway: GatewayName,
        /// The lane.
        lane: ProbedLane,
    },
    /// A token was revoked: what is remembered of tokens is stale.
    TokenRevoked,
    /// An agent's identity was revoked or an authority added.
    Revocation,
    /// A process was turned away because another one lives under the same instance.
    Duplicate {
        /// The gateway's name.
        gateway: GatewayName,
        /// The instance that both claim.
        instance: String,
    },
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
    async fn put(&self, record: Arc<AgentRecord>, now_ms: u64) -> Result<Put, Error>;

    /// The records of one gateway or of all, in the order of gateway and instance.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn records(&self, gateway: Option<&str>) -> Result<Vec<AgentRecord>, Error>;

    /// The record of an agent instance if a later session than `than` wrote it. Cheap where none
    /// did, since every agent that comes is asked after.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn later_session(
        &self,
        gateway: &str,
        instance: &str,
        than: u64,
    ) -> Result<Option<AgentRecord>, Error> {
        let records = self.records(Some(gateway)).await?;
        let is_later = |it: &AgentRecord| it.instance == instance && it.session_epoch > than;
        Ok(records.into_iter().find(is_later))
    }

    /// What changed since `since`. Costs as much as there are changes, not as there are agents.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: nothing was read, and the cursor still holds.
    async fn changes(&self, since: &Cursor) -> Result<Changes, Error>;

    /// Tells readers that a replica is there and what it holds; to be repeated every
    /// [`ANNOUNCE_INTERVAL`]. False when an earlier announcement is not remembered: the view has
    /// lost its memory, or this is the first one.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn announce(&self, replica: &str, share: Share) -> Result<bool, Error>;

    /// The shares of all replicas that announced one within [`SHARE_TTL`]. Empty for a view inside
    /// one process, which is whole by nature.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn shares(&self) -> Result<Vec<SeenShare>, Error>;

    /// Tells readers what a replica heard of traffic, in place of what it said before; to be repeated
    /// every [`ANNOUNCE_INTERVAL`], since it is forgotten after [`SHARE_TTL`].
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn publish_traffic(
        &self,
        replica: &str,
        traffic: Arc<ReplicaTraffic>,
    ) -> Result<(), Error>;

    /// What each replica that announced its share within [`SHARE_TTL`] heard of traffic, by the name
    /// that it gave itself.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn traffic(&self) -> Result<Vec<(String, Arc<ReplicaTraffic>)>, Error>;

    /// Drops one record, if it is there, and tells readers of it either way.
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

    /// Asks for the lease of a lane's probe; see [`lanekeeper_model::lease`].
    ///
    /// # Errors
    /// [`Error::Unavailable`]: nobody knows who holds it.
    async fn lease(&self, key: &LeaseKey, holder: &str, ttl: Duration) -> Result<Leased, Error>;

    /// Gives a lease back with what the probe proved; false when it was not the holder's any more.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn settle_lease(
        &self,
        key: &LeaseKey,
        holder: &str,
        verdict: Option<&ProbeVerdict>,
    ) -> Result<bool, Error>;

    /// What the latest probe of a lane proved, while that counts.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn probe_verdict(&self, key: &LeaseKey) -> Result<Option<ProbeVerdict>, Error>;

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
