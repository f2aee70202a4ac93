//! Providers: where requests go, in which protocol, with which credential.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BreakerSpec;

mod credential;

pub use credential::{ApiKeys, Auth, AuthKind, HeaderValue, SecretRef};

/// Default of `connect_timeout_secs`.
pub const CONNECT_TIMEOUT_SECS: f64 = 10.0;
/// Default of `health.interval_secs`.
pub const HEALTH_INTERVAL_SECS: f64 = 30.0;
/// Default of `health.timeout_secs`.
pub const HEALTH_TIMEOUT_SECS: f64 = 5.0;

/// The protocol a provider speaks.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// OpenAI chat completions, completions and embeddings, and servers compatible with them.
    Openai,
    /// OpenAI Responses.
    Responses,
    /// Anthropic messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Cohere chat, version 2.
    Cohere,
}

impl Protocol {
    /// The protocol as the document spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Cohere => "cohere",
        }
    }
}

/// The protocol a provider speaks, or several that are native there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Protocols {
    /// One.
    One(Protocol),
    /// Several, with one lane, budget and breaker. The first is what other protocols are translated to.
    Many(#[schemars(length(min = 1, max = 8))] Vec<Protocol>),
}

impl Protocols {
    /// The protocols in the order of the document.
    pub fn as_slice(&self) -> &[Protocol] {
        match self {
            Self::One(protocol) => std::slice::from_ref(protocol),
            Self::Many(protocols) => protocols,
        }
    }
}

/// The proxy that requests to a provider go through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Proxy {
    /// Its URL, such as `http://proxy:3128`, or `none` for never.
    Url(#[schemars(length(min = 1, max = 2048))] String),
    /// A proxy that wants a user and a password.
    WithCredentials(ProxyWithCredentials),
}

/// A proxy that wants a user and a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyWithCredentials {
    /// The proxy's URL.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Where `user:password` is found on the agent.
    pub credentials: SecretRef,
}

/// What a provider's error code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorMeaning {
    /// The credential is wrong: hard-down.
    Auth,
    /// No money or quota left: hard-down.
    Billing,
    /// Too many requests: transient.
    RateLimit,
    /// The provider is overloaded: transient.
    Overloaded,
    /// The request is too long for the model: no penalty, a larger member is tried.
    ContextLength,
    /// The caller's own mistake: relayed, nothing recorded.
    ClientFault,
    /// Any other passing failure.
    Transient,
}

/// Whether the agent probes lanes on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthMode {
    /// Never.
    #[default]
    None,
    /// Open and parked lanes only.
    Dead,
    /// All lanes.
    Active,
}

/// Active probes of a provider's lanes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Health {
    /// Which lanes are probed.
    pub mode: HealthMode,
    /// Seconds between probes, at least 0.1.
    #[schemars(range(min = 0.1, max = 86400.0))]
    pub interval_secs: f64,
    /// Seconds a probe may take, at least 0.1.
    #[schemars(range(min = 0.1, max = 86400.0))]
    pub timeout_secs: f64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            mode: HealthMode::default(),
            interval_secs: HEALTH_INTERVAL_SECS,
            timeout_secs: HEALTH_TIMEOUT_SECS,
        }
    }
}

/// What a well-formed answer without any content counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmptyAnswer {
    /// It proves nothing.
    #[default]
    Neutral,
    /// It is tried once more, then counts as a failure.
    RetryOnceThenFailure,
}

/// The version of HTTP that is spoken to a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HttpVersion {
    /// Over https what the provider chooses, HTTP/2 first; over http HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1 and nothing else.
    Http1,
    /// HTTP/2 and nothing else; over http without asking first.
    Http2,
}

/// An upstream API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The protocol it speaks, or a list of those that are native there; others are translated to the
    /// first.
    pub protocol: Protocols,
    /// Where it is: https, or http for loopback and for hosts in `allow_private_hosts`. `{model}` in the
    /// path stands for the lane's `upstream_model`.
    #[schemars(length(min = 1, max = 2048))]
    pub base_url: String,
    /// Parameters added to the query of every upstream request.
    #[serde(default)]
    pub query: BTreeMap<String, String>,
    /// Where its key is found, or a list of several keys among which requests are spread. Null sends
    /// none. Never the key itself.
    #[serde(default)]
    pub api_key: Option<ApiKeys>,
    /// How the agent authenticates.
    #[serde(default)]
    pub auth: Auth,
    /// The proxy that requests go through. Null = the one of the agent's environment (HTTPS_PROXY,
    /// NO_PROXY); `none` = never one.
    #[serde(default)]
    pub proxy: Option<Proxy>,
    /// The provider's own error codes and what they mean. Whole codes, never prose.
    #[serde(default)]
    pub error_map: BTreeMap<String, ErrorMeaning>,
    /// Active probes.
    #[serde(default)]
    pub health: Health,
    /// Headers added to every upstream request; a credential only by reference.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderValue>,
    /// Seconds a connection may take, TLS included.
    #[serde(default = "connect_timeout_secs")]
    #[schemars(range(min = 0.001, max = 86400.0))]
    pub connect_timeout_secs: f64,
    /// The version of HTTP that is spoken.
    #[serde(default)]
    pub http_version: HttpVersion,
    /// What an empty answer counts as.
    #[serde(default)]
    pub empty_answer: EmptyAnswer,
    /// Policy of a cell shared by all pools and lanes of this provider, checked beside the pool's.
    #[serde(default)]
    pub breaker: Option<BreakerSpec>,
}

fn connect_timeout_secs() -> f64 {
    CONNECT_TIMEOUT_SECS
}
