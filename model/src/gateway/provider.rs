//! Validated providers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_breaker::Policy;

use super::AddressGuard;
use crate::ids::ProviderName;
use crate::spec::{
    EmptyAnswer, ErrorMeaning, HeaderValue, HealthMode, HttpVersion, Protocol, SecretRef,
};

/// An upstream API.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its name.
    pub name: ProviderName,
    /// The protocols that are native there.
    pub protocols: Protocols,
    /// Where it is.
    pub base_url: BaseUrl,
    /// Which resolved addresses may be connected to.
    pub address_guard: AddressGuard,
    /// Parameters added to every request's query: valid names and values, not yet encoded.
    pub query: Vec<(String, String)>,
    /// Where its keys are found; empty = none is sent.
    pub api_keys: Vec<SecretRef>,
    /// How the agent authenticates.
    pub auth: Auth,
    /// The proxy that requests go through.
    pub proxy: Proxy,
    /// Its own error codes.
    pub error_map: BTreeMap<String, ErrorMeaning>,
    /// Active probes.
    pub health: Health,
    /// Headers added to every request: lower-case names, valid values or where they are found.
    pub headers: Vec<(String, HeaderValue)>,
    /// Bound on connecting, TLS included.
    pub connect_timeout: Duration,
    /// The version of HTTP that is spoken.
    pub http_version: HttpVersion,
    /// What an empty answer counts as.
    pub empty_answer: EmptyAnswer,
    /// Policy of the provider's own cell; `None` = it has none.
    pub breaker: Option<Arc<Policy>>,
}

/// The protocols that are native at a provider, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocols {
    primary: Protocol,
    others: Vec<Protocol>,
}

impl Protocols {
    /// A provider that speaks `primary`, which others are translated to, and `others` natively.
    pub fn new(primary: Protocol, others: Vec<Protocol>) -> Self {
        Self { primary, others }
    }

    /// The one that other protocols are translated to.
    pub fn primary(&self) -> Protocol {
        self.primary
    }

    /// Whether a protocol is native there.
    pub fn speaks(&self, protocol: Protocol) -> bool {
        self.iter().any(|it| it == protocol)
    }

    /// Every native protocol, the primary one first.
    pub fn iter(&self) -> impl Iterator<Item = Protocol> {
        std::iter::once(self.primary).chain(self.others.iter().copied())
    }
}

/// How the agent authenticates at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The key in the protocol's own header.
    Protocol,
    /// The key in a header of another name.
    Header {
        /// The header, in lower case.
        name: String,
        /// What stands before the key; `None` = the key alone.
        scheme: Option<String>,
    },
    /// Google's access tokens.
    Google,
    /// AWS signatures.
    Aws {
        /// The region that is signed for.
        region: String,
    },
}

/// The proxy that requests to a provider go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// The one of the agent's environment, if any.
    Environment,
    /// Never one.
    Never,
    /// This one.
    Through {
        /// Host name or address in lower case; an IPv6 address without brackets.
        host: String,
        /// Port.
        port: u16,
        /// Where `user:password` is found; `None` = it wants none.
        credentials: Option<SecretRef>,
    },
}

/// Active probes of a provider's lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Which lanes.
    pub mode: HealthMode,
    /// Time between probes.
    pub interval: Duration,
    /// Bound on one probe.
    pub timeout: Duration,
}

/// http or https.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain text.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// The scheme as in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The parts of a provider's base URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BaseUrl {
    /// http or https.
    pub scheme: Scheme,
    /// Host name or address in lower case; an IPv6 address without brackets.
    pub host: String,
    /// Port, the scheme's own when the URL names none.
    pub port: u16,
    /// Path before the endpoint's own: empty, or with a leading and without a trailing slash. Holds
    /// [`MODEL_PLACEHOLDER`](Self::MODEL_PLACEHOLDER) where the lane's model belongs.
    pub path_prefix: String,
}

impl BaseUrl {
    /// What stands for the lane's `upstream_model` in the path.
    pub const MODEL_PLACEHOLDER: &'static str = "{model}";

    /// Whether the lane's model is part of the path.
    pub fn names_model(&self) -> bool {
        self.path_prefix.contains(Self::MODEL_PLACEHOLDER)
    }

    /// Host and port as the `Host` header wants them: the scheme's own port is left out.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match (self.scheme, self.port) {
            (Scheme::Http, 80) | (Scheme::Https, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}{}",
            self.scheme.as_str(),
            self.authority(),
            self.path_prefix
        )
    }
}
