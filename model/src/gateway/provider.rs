//! Validated providers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_breaker::Policy;

use super::AddressGuard;
use crate::ids::ProviderName;
use crate::spec::{EmptyAnswer, ErrorMeaning, HealthMode, HttpVersion, Protocol, SecretRef};

/// An upstream API.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its name.
    pub name: ProviderName,
    /// The protocol it speaks.
    pub protocol: Protocol,
    /// Where it is.
    pub base_url: BaseUrl,
    /// Which resolved addresses may be connected to.
    pub address_guard: AddressGuard,
    /// Where its key is found; `None` = no key is sent.
    pub api_key: Option<SecretRef>,
    /// Its own error codes.
    pub error_map: BTreeMap<String, ErrorMeaning>,
    /// Active probes.
    pub health: Health,
    /// Headers added to every request: lower-case names, valid values.
    pub headers: Vec<(String, String)>,
    /// Bound on connecting, TLS included.
    pub connect_timeout: Duration,
    /// The version of HTTP that is spoken.
    pub http_version: HttpVersion,
    /// What an empty answer counts as.
    pub empty_answer: EmptyAnswer,
    /// Policy of the provider's own cell; `None` = it has none.
    pub breaker: Option<Arc<Policy>>,
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
    /// Path before the endpoint's own: empty, or with a leading and without a trailing slash.
    pub path_prefix: String,
}

impl BaseUrl {
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
