//! How a provider is reached and who the agent is there: references to secrets, keys, the form of
//! authentication, header values and the proxy. A document never holds a secret itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a secret is found on the agent. A document never holds the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretRef {
    /// Name of an environment variable of the agent.
    Env(String),
    /// Path of a file on the agent, re-read when it changes.
    File(String),
}

/// One key, or several among which requests are spread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ApiKeys {
    /// One key.
    One(SecretRef),
    /// Several keys; each has breaker cells of its own.
    Many(#[schemars(length(min = 1, max = 16))] Vec<SecretRef>),
}

impl ApiKeys {
    /// The keys in the order of the document.
    pub fn as_slice(&self) -> &[SecretRef] {
        match self {
            Self::One(key) => std::slice::from_ref(key),
            Self::Many(keys) => keys,
        }
    }
}

/// The value of a header: text, or where a secret is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HeaderValue {
    /// The value itself. Never a credential.
    Text(String),
    /// Where it is found on the agent.
    Secret(SecretRef),
}

/// Which form of authentication a provider takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    /// The protocol's own header.
    #[default]
    Protocol,
    /// The key in a header of another name.
    Header,
    /// Google's access tokens.
    Google,
    /// AWS signatures.
    Aws,
}

/// How the agent authenticates at a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// The form.
    pub kind: AuthKind,
    /// With `header`: the name of the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub name: Option<String>,
    /// With `header`: what stands before the key, such as `Bearer`. Null = the key alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub scheme: Option<String>,
    /// With `aws`: the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub region: Option<String>,
}
