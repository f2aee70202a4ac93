//! What every part of Lanekeeper agrees on: names, the gateway document and its validation, the
//! reports agents send, and the fleet view computed from them. No I/O, no clock: text, values and
//! times come in as arguments.
//!
//! A document exists in three forms. [`spec`] is the document as people write it, [`gateway`] is
//! the same after validation with every reference resolved, and between them stands [`document`],
//! which refuses with a list of all [`Problem`]s at once.

pub mod credentials;
pub mod document;
pub mod enrolment;
pub mod fleet;
pub mod gateway;
pub mod ids;
pub mod incident;
pub mod journal;
pub mod lease;
mod nearest;
pub mod problem;
pub mod replay;
pub mod report;
pub mod rollout;
mod schema;
pub mod spec;
pub mod steer;
mod stream;
mod text;
pub mod traffic;
pub mod usability;
mod validate;
pub mod wording;

pub use lanekeeper_breaker::{Cause, CauseKind};

pub use document::{Checked, check_json, check_yaml, content_hash, json_schema};
pub use fleet::{AgentRecord, AgentState, FleetView, FreshWindows, ViewQuery};
pub use gateway::Gateway;
pub use ids::{GatewayName, LaneName, PoolName, ProviderName};
pub use problem::Problem;
pub use report::transition;
pub use report::{CauseReport, CellReport, CellState, ConfigSource, Report, Totals, digest};
pub use steer::{ActiveOverride, Advisory, Override, OverrideAction, emptied_pools};
pub use stream::split_documents;
pub use traffic::{AttemptCounts, PoolTotals, PoolTraffic, RequestCounts, Times};
pub use usability::{LaneUsability, PoolReport, PoolUsability, Reasons, UnusableReason};
