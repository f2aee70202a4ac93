//! Names that callers use and nobody declared, and the pages that may call from a browser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::PoolName;

/// A pattern of model names and the pool that serves them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The pattern: `*` stands for any run of characters, `*` alone matches every name.
    #[serde(rename = "match")]
    #[schemars(length(min = 1, max = 256))]
    pub pattern: String,
    /// The pool.
    pub pool: PoolName,
}

/// Which pages may call from a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cors {
    /// Origins such as `https://app.example.com`, or `*` alone for every one. Empty = none.
    pub origins: Vec<String>,
}
