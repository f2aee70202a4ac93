//! Sizes and times both ends of the wire agree on, in one place so that they cannot drift apart.

use std::time::Duration;

/// Lowest protocol version this build speaks.
pub const PROTOCOL_MIN: u32 = 1;
/// Highest protocol version this build speaks.
pub const PROTOCOL_MAX: u32 = 1;

/// Longest encoded message either side sends or accepts, in bytes (16 MiB).
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest JSON document in a push, in bytes: the model's bound, which leaves a mebibyte of a
/// message for its envelope.
pub const DOCUMENT_BYTES_MAX: usize = lanekeeper_model::document::DOCUMENT_BYTES_MAX;
const _: () = assert!(DOCUMENT_BYTES_MAX <= MESSAGE_BYTES_MAX - 1024 * 1024);
/// Longest list of request headers, in bytes as HTTP/2 counts them.
pub const HEADER_LIST_BYTES_MAX: u32 = 16 * 1024;
/// Streams one connection may hold. An agent needs one; the rest is room for a successor and unary
/// calls.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 64;

/// Longest gateway, agent, pool, lane or provider name, instance, hash, version, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Longest human text (a reason, a problem), in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Most labels of an agent.
pub const LABELS_MAX: usize = 64;
/// Most optional abilities one side may name.
pub const CAPABILITIES_MAX: usize = 64;
/// Most cells in one report.
pub const REPORT_CELLS_MAX: usize = 65_536;
/// Most pools in one report. A report with more is refused.
pub const REPORT_POOLS_MAX: usize = 4096;
/// Most members of all pools in one report.
pub const REPORT_MEMBERS_MAX: usize = REPORT_CELLS_MAX;
/// Most of anything counted that one report is believed, per second since the report before: far
/// above what a machine can do, and far below what would spoil a fleet's sums.
pub const REPORT_COUNT_PER_SEC_MAX: u64 = 1_000_000;
/// Most operators' overrides in one message.
pub const OVERRIDES_MAX: usize = 1000;
/// Most advisories in one message.
pub const ADVISORIES_MAX: usize = 10_000;
/// Most entries of each kind in one message about probes.
pub const PROBE_LEASES_MAX: usize = 10_000;
/// Most problems or errors in one message.
pub const PROBLEMS_MAX: usize = 256;

/// Longest join token, in bytes. Those of Kubernetes have about 1 KiB.
pub const JOIN_TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Longest certificate signing request, in bytes.
pub const CSR_BYTES_MAX: usize = 8 * 1024;
/// Longest certificate or list of authorities, in bytes.
pub const CERTIFICATES_BYTES_MAX: usize = 64 * 1024;
/// Longest certificate life that is believed.
pub const CERTIFICATE_LIFE_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How often an agent reports.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// A record without a report for this long is stale.
pub const STALE_AFTER: Duration = Duration::from_secs(30);
/// Time between HTTP/2 pings.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How long a ping may go unanswered.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
