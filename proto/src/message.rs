//! The session's messages as checked values: what both ends of the stream work with. Durations are
//! `Duration`, absent facts are `None`, and every enum is closed, so that no one past this crate
//! meets a wire type or a magic number.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lanekeeper_model::lease::{ProbeAnswer, ProbeAsk, ProbeVerdict, ProbedLane};
use lanekeeper_model::{Advisory, ConfigSource, Override, PoolUsability, Problem, Report};

/// The ability of both ends to exchange [`Overrides`] and [`OverridesResult`].
pub const ABILITY_OVERRIDES: &str = "overrides";
/// The ability of an agent to be taken out of service by a [`FromServer::Drain`].
pub const ABILITY_DRAIN: &str = "drain";
/// The ability of a server to do without cells that are plainly closed. To one that names it an
/// agent sends no dense report: a list of hundreds of closed cells carries nothing that their
/// absence does not.
pub const ABILITY_SPARSE: &str = "sparse";
/// The ability of a server to read providers' own cells in reports. One that does not name it would
/// refuse a report with a cell without a lane, so an agent leaves them out.
pub const ABILITY_PROVIDER_CELLS: &str = "provider_cells";
/// The ability of a server to store the changes of state that reports carry, and to say which are
/// stored.
pub const ABILITY_TRANSITIONS: &str = "transitions";

/// The ability of an agent to follow [`FromServer::Advisories`].
pub const ABILITY_ADVISORIES: &str = "advisories";

/// The ability of both ends to make one probe for the fleet: [`ProbeLeaseRequest`], [`ProbeLease`].
pub const ABILITY_PROBE_LEASES: &str = "probe_leases";

/// What an agent sends.
#[derive(Debug, Clone, PartialEq)]
pub enum FromAgent {
    /// Opens the session; first and only once.
    Hello(Hello),
    /// Answers one push.
    ConfigResult(ConfigResult),
    /// The agent's cells and totals.
    Report(Report),
    /// The agent leaves on purpose.
    Bye(Bye),
    /// What became of the latest set of overrides.
    OverridesResult(OverridesResult),
    /// Questions about probes, and what leased ones proved.
    ProbeLeases(ProbeLeaseRequest),
}

/// What the control plane sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromServer {
    /// Answers the Hello.
    Welcome(Welcome),
    /// A revision to apply.
    ConfigPush(ConfigPush),
    /// A report has arrived.
    ReportAck(ReportAck),
    /// The server ends the session; nothing follows.
    Goodbye(Goodbye),
    /// The agent is out of service (`true`), or back.
    Drain(bool),
    /// The operators' overrides for this agent.
    Overrides(Overrides),
    /// The fleet's whole set of advisories for the gateway's agents.
    Advisories(Vec<Advisory>),
    /// Answers about probes, and what those of other agents proved.
    ProbeLeases(ProbeLease),
}

/// Questions about probes, and what leased ones proved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeLeaseRequest {
    /// Lanes whose cooldown is over.
    pub asks: Vec<ProbeAsk>,
    /// What leased probes proved.
    pub verdicts: Vec<ProbeVerdict>,
    /// Leases that proved nothing to others.
    pub returned: Vec<ProbedLane>,
}

/// Answers about probes, and what those of other agents proved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbeLease {
    /// Answers to asks.
    pub answers: Vec<ProbeAnswer>,
    /// Verdicts.
    pub verdicts: Vec<ProbeVerdict>,
}

/// Who opens a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Lowest protocol version the agent speaks.
    pub protocol_min: u32,
    /// Highest protocol version the agent speaks.
    pub protocol_max: u32,
    /// The agent's release.
    pub agent_version: String,
    /// The gateway it serves, never empty.
    pub gateway: String,
    /// Its display name; several instances may share one.
    pub name: String,
    /// Labels the operator gave it.
    pub labels: BTreeMap<String, String>,
    /// Fresh for each process, never empty.
    pub instance: String,
    /// What it serves from, if anything.
    pub applied: Option<AppliedRevision>,
    /// The agent's wall clock, unix milliseconds. Only ever shown, as skew.
    pub wall_ms: u64,
    /// The epoch of this instance's session before this one.
    pub previous_session_epoch: Option<u64>,
    /// Optional abilities of the agent.
    pub capabilities: Vec<String>,
}

/// The configuration an agent serves from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedRevision {
    /// Its number; 0 only for a file without one.
    pub revision: u64,
    /// Its content hash.
    pub hash: String,
    /// Where it came from.
    pub source: ConfigSource,
    /// The control epoch under which it was received; `None` for a file.
    pub control_epoch: Option<String>,
}

/// Answers one push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigResult {
    /// The nonce of the push that is answered.
    pub nonce: u64,
    /// What became of it.
    pub outcome: ConfigOutcome,
    /// The revision the agent serves from now, 0 when none.
    pub revision: u64,
    /// Content hash of that revision, empty when none.
    pub hash: String,
    /// The pools that lack a member under that revision.
    pub pools: Vec<PoolUsability>,
}

/// The fate of a pushed revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigOutcome {
    /// Swapped in.
    Applied {
        /// What is wrong without having prevented it.
        problems: Vec<String>,
    },
    /// Refused; the agent keeps what it had.
    Rejected {
        /// Why.
        errors: Vec<Problem>,
    },
}

/// The agent leaves on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bye {
    /// For people.
    pub reason: String,
}

/// Opens the session on the server's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Orders this instance's sessions: later ones are greater.
    pub session_epoch: u64,
    /// Names the database's history; it changes when the database is restored from a copy.
    pub control_epoch: String,
    /// How often to report.
    pub report_interval: Duration,
    /// When to send the first timed report, counted from this message.
    pub report_phase: Duration,
    /// Without a report for this long the agent is shown as stale.
    pub stale_after: Duration,
    /// The gateway's newest revision, 0 when there is none.
    pub target_revision: u64,
    /// The protocol version spoken on this session.
    pub protocol: u32,
    /// The gateway exists. If not, the agent stays and is pushed to as soon as it does.
    pub gateway_exists: bool,
    /// Sizes the server accepts.
    pub limits: Limits,
    /// Optional abilities of the server.
    pub capabilities: Vec<String>,
}

/// Sizes the server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest encoded message, in bytes, both ways.
    pub message_bytes: u32,
    /// Most cells in one report.
    pub report_cells: u32,
}

/// A revision to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigPush {
    /// Ties the answer to this push; counts up within a session.
    pub nonce: u64,
    /// The revision, never 0.
    pub revision: u64,
    /// The gateway document as JSON.
    pub document: Bytes,
    /// Its content hash: SHA-256 over canonical JSON, lower-case hex.
    pub hash: String,
}

/// A report has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportAck {
    /// The report's number.
    pub seq: u64,
    /// Send a dense report next.
    pub want_dense: bool,
    /// Report interval from now on; `None` for no change.
    pub next_interval: Option<Duration>,
    /// Why the report was not taken; `None` when it was.
    pub refused: Option<String>,
    /// Changes of state up to this number are stored; 0 = none that this session knows of.
    pub transitions_stored: u64,
}

/// The whole set of operators' overrides for one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overrides {
    /// Which state of the gateway's overrides this is.
    pub generation: u64,
    /// The overrides, the earliest first.
    pub entries: Vec<Override>,
    /// Overrides of a newer peer that this build cannot read, with the field at fault. They do not
    /// keep the others from taking effect. Filled on the way in only.
    pub unreadable: Vec<RefusedOverride>,
}

/// Answers one [`Overrides`], after it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverridesResult {
    /// The generation of the set that is answered.
    pub generation: u64,
    /// The ids of the overrides that are in force or, for a reset, carried out.
    pub applied: Vec<String>,
    /// The overrides that are not.
    pub refused: Vec<RefusedOverride>,
}

/// An override that an agent cannot carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedOverride {
    /// Its id.
    pub id: String,
    /// Why, for people.
    pub reason: String,
}

/// The server ends the session on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goodbye {
    /// Why.
    pub reason: GoodbyeReason,
    /// For people.
    pub detail: String,
    /// Do not dial again before.
    pub reconnect_after: Duration,
    /// Add a random share of this to it.
    pub jitter: Duration,
}

/// Why a server ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoodbyeReason {
    /// It stops or restarts.
    Shutdown,
    /// No protocol version in common.
    Protocol,
    /// The same instance opened a newer session.
    Replaced,
    /// It has no room.
    Overloaded,
    /// Nothing was heard from the agent for three report intervals.
    Silent,
    /// The database was restored from a copy: a new session learns the new control epoch.
    Restored,
    /// Another process holds a living session under this instance.
    Duplicate,
    /// A reason this build does not know. The session is over all the same, so this one is not
    /// refused.
    Other,
}

impl GoodbyeReason {
    /// Snake-case name for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::Protocol => "protocol",
            Self::Replaced => "replaced",
            Self::Overloaded => "overloaded",
            Self::Silent => "silent",
            Self::Restored => "restored",
            Self::Duplicate => "duplicate",
            Self::Other => "other",
        }
    }
}

/// Asks for a first certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct EnrollRequest {
    /// The token that lets the agent in.
    pub join_token: String,
    /// The gateway it wants to serve, never empty.
    pub gateway: String,
    /// Its display name, never empty.
    pub name: String,
    /// A certificate signing request (PKCS #10, DER).
    pub csr: Vec<u8>,
}

impl std::fmt::Debug for EnrollRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnrollRequest")
            .field("gateway", &self.gateway)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Asks for a certificate in place of the one in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewCertRequest {
    /// A certificate signing request (PKCS #10, DER).
    pub csr: Vec<u8>,
}

/// What an agent proves itself with from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The identity's id.
    pub agent_id: String,
    /// The certificate, PEM.
    pub certificate: String,
    /// Every authority that the control plane's certificates may come from, PEM.
    pub authorities: String,
    /// How long the certificate lasts from now on.
    pub valid_for: Duration,
}
