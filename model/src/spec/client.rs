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
    /// Seconds a caller has to send its body.
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub body_timeout_secs: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_max_bytes: BODY_MAX_BYTES,
            inbound_max: INBOUND_MAX,
            header_timeout_secs: HEADER_TIMEOUT_SECS,
            body_timeout_secs: BODY_TIMEOUT_SECS,
        }
    }
}
