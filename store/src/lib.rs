//! Everything Lanekeeper keeps outside its agents, and the only home of SQL and Redis.
//!
//! [`ConfigStore`] is the source of truth for configuration, audit and tokens: PostgreSQL, or a
//! SQLite file for a single server. [`LiveView`] is what the fleet looks like now: Redis, or this
//! process's memory. Both answer the same way on either engine, within a bounded time, and take the
//! wall time as an argument.

mod agents;
mod audit;
mod change;
mod clock;
mod config_store;
mod connect;
mod control_epoch;
mod dial;
mod drains;
mod engine;
mod enrolment;
mod error;
mod gateway_row;
mod gateways;
mod idempotency;
mod incidents;
mod leases;
mod live;
mod migrations;
mod outage;
mod overrides;
mod publication;
mod random;
mod repetition;
mod revisions;
mod rollout_rows;
mod rollouts;
mod sign_ins;
#[cfg(feature = "testing")]
#[expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a step of a test's preparation that fails is a failed test"
)]
pub mod testing;
mod tokens;
mod transitions;

pub use agents::{AGENT_FACTS_MAX, AgentFacts};
pub use audit::{AuditEntry, AuditOutcome, AuditVerdict};
pub use change::{Change, IDEMPOTENCY_KEY_MAX, IdempotencyKey, PAGE_MAX, TEXT_MAX};
pub use config_store::ConfigStore;
pub use connect::EMBEDDED_FILE;
pub use enrolment::{
    AUTHORITIES_MAX, Authority, IDENTITIES_MAX, Identity, JOIN_TOKENS_MAX, JoinToken, NewIdentity,
    NewJoinToken, Renewal,
};
pub use error::Error;
pub use gateways::GatewayRow;
pub use idempotency::IDEMPOTENCY_TTL_MS;
pub use incidents::{INCIDENTS_OPEN_MAX, IncidentFilter, IncidentPlace, StoredIncident};
pub use live::{
    ANNOUNCE_INTERVAL, Changes, Cursor, HINTS_MAX, Hint, LiveView, MemoryLive, Put, RECORD_TTL,
    RedisLive, RedisLiveOptions, SHARE_OVERDUE, SHARE_TTL, SeenShare, Share,
};
pub use overrides::{ALL_STANDING_MAX, NewOverride, OVERRIDES_STANDING_MAX, OverrideRow, Standing};
pub use repetition::{IDEMPOTENT_ANSWER_MAX, Remembered};
pub use revisions::Revision;
pub use rollout_rows::StoredRollout;
pub use rollouts::{Course, RolloutStart};
pub use sign_ins::{SIGN_IN_LIFE, SIGN_INS_MAX, is_sign_in};
pub use tokens::{ExposeSecret, NewToken, Principal, Role, SecretString, TOKENS_MAX, TokenRow};
pub use transitions::{TimelineFilter, TimelinePlace};

/// What every call answers with.
pub type Result<T, E = Error> = std::result::Result<T, E>;
