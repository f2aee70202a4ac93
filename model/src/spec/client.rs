//! Who may call, and the bounds on what the agent takes in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::PoolName;

/// Default of `limits.body_max_bytes`: 32 MiB.
pub const BODY_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Default of `limits.inbound_max`.
pub const INBOUND_MAX: u32 = 8192;
/// Default of `limits.header_timeout_secs`.
pub const HEADER_TIMEOUT_SECS: f64 = 10.0;
/// Default of `limits.body_timeout_secs`.
pub const BODY_TIMEOUT_SECS: f64 = 30.0;
/// Default of `limits.body_total_secs`.
pub const BODY_TOTAL_SECS: f64 = 600.0;
/// Default of `limits.idle_timeout_secs`: longer than the minute after which load balancers give up.
pub const CALLER_IDLE_TIMEOUT_SECS: f64 = 75.0;
/// Default of `limits.bodies_max_bytes`: 256 MiB.
pub const BODIES_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Default of `limits.hops_max`: two gateways in a row on purpose stay possible.
pub const HOPS_MAX: u32 = 2;

/// A caller with a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Name of the caller.
    pub name: String,
    /// SHA-256 of the caller's key, 64 hexadecimal digits. Never the key itself.
    pub key_sha256: String,
    /// Pools and lanes the caller may use. Absent or null = all of them.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub pools: Option<Vec<PoolName>>,
    /// Most requests at a time. Null = unbounded.
    #[serde(default)]
    #[schemars(range(min = 1, max = super::COUNT_MAX))]
    pub max_concurrent: Option<u32>,
}

/// Bounds on what the agent takes in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest request body in bytes.
    #[schemars(range(min = 1, max = 1073741824))]
    pub body_max_bytes: u64,
    /// Most requests in the agent at a time.
    #[schemars(range(min = 1, max = 1000000))]
    pub inbound_max: u32,
    /// Seconds a caller has to send its headers.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub header_timeout_secs: f64,
    /// Seconds a kept connection of a caller may be idle between two requests.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub idle_timeout_secs: f64,
    /// Seconds of silence while a caller sends its body.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub body_timeout_secs: f64,
    /// Seconds a caller's whole body may take.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub body_total_secs: f64,
    /// Most bytes of request bodies in the agent at a time, over all requests.
    #[schemars(range(min = 1, max = 1099511627776u64))]
    pub bodies_max_bytes: u64,
    /// Most gateways of this kind that a request may have passed before this one.
    #[schemars(range(min = 0, max = 100))]
    pub hops_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_max_bytes: BODY_MAX_BYTES,
            inbound_max: INBOUND_MAX,
            header_timeout_secs: HEADER_TIMEOUT_SECS,
            idle_timeout_secs: CALLER_IDLE_TIMEOUT_SECS,
            body_timeout_secs: BODY_TIMEOUT_SECS,
            body_total_secs: BODY_TOTAL_SECS,
            bodies_max_bytes: BODIES_MAX_BYTES,
            hops_max: HOPS_MAX,
        }
    }
}
