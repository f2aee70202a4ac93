//! The settings of one control-plane process, and the refusal of those that would be unsafe.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lanekeeper_proto::limits;

use crate::Error;
use crate::enrolment::authority::{AuthorityFiles, is_server_name};

/// Default port of the gRPC listener.
pub const GRPC_PORT: u16 = 7400;
/// Default port of the ops listener.
pub const OPS_PORT: u16 = 7402;
/// How long an agent's certificate lasts unless told otherwise.
pub const CERTIFICATE_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long this server's certificate lasts unless told otherwise.
const SERVER_CERTIFICATE_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How often a cluster's keys are fetched unless told otherwise.
const KEYS_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Most names of a server.
const NAMES_MAX: usize = 64;

/// Settings of [`crate::run()`].
#[derive(Debug, Clone)]
pub struct Config {
    /// Where agents dial. Default 127.0.0.1:7400; port 0 picks a free one.
    pub grpc_listen: SocketAddr,
    /// Where `/livez`, `/readyz` and `/metrics` are served. Default 127.0.0.1:7402.
    pub ops_listen: SocketAddr,
    /// How the gRPC listener is protected.
    pub transport: Transport,
    /// Sessions open at once; more are sent away with a Goodbye. Default 20,000.
    pub sessions_max: usize,
    /// Connections open at once; more wait in the kernel's backlog. Default 20,000.
    pub connections_max: usize,
    /// The times everything goes by.
    pub timing: Timing,
}

/// How the gRPC listener is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// No encryption and no identity, so agents are believed: loopback addresses only.
    Plaintext,
    /// TLS on both sides: agents are asked for a certificate.
    MutualTls(ServerTls),
    /// TLS on both sides with an authority of our own: agents join with a token and get a
    /// certificate.
    Enrolment(Enrolment),
}

/// How agents join, and what they get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    /// The authority's files.
    pub authority: AuthorityFiles,
    /// Host names and addresses that agents reach this server by.
    pub names: Vec<String>,
    /// How long an agent's certificate lasts. Default 24 h.
    pub certificate_life: Duration,
    /// How long this server's own certificate lasts; it is renewed at half of that. Default 7 days.
    pub server_certificate_life: Duration,
    /// Pods that may join with a token of their service account; `None` for none.
    pub kubernetes: Option<Kubernetes>,
}

impl Enrolment {
    /// The usual lives, for an authority and the names of this server.
    #[must_use]
    pub fn new(authority: AuthorityFiles, names: Vec<String>) -> Self {
        Self {
            authority,
            names,
            certificate_life: CERTIFICATE_LIFE,
            server_certificate_life: SERVER_CERTIFICATE_LIFE,
            kubernetes: None,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |field, reason: String| Err(Error::Config { field, reason });
        if self.names.is_empty() || self.names.len() > NAMES_MAX {
            return refuse("transport.names", format!("must be 1 to {NAMES_MAX}"));
        }
        if let Some(name) = self.names.iter().find(|name| !is_server_name(name)) {
            let reason = format!("{name:?} is neither a host name nor an address");
            return refuse("transport.names", reason);
        }
        for (field, life) in [
            ("transport.certificate_life", self.certificate_life),
            (
                "transport.server_certificate_life",
                self.server_certificate_life,
            ),
        ] {
            if life < Duration::from_secs(1) || life > limits::CERTIFICATE_LIFE_MAX {
                return refuse(field, "must be 1 s to a year".to_owned());
            }
        }
        match &self.kubernetes {
            Some(Kubernetes {
                jwks: KeySource::Url(source),
                ..
            }) => source.check(),
            _ => Ok(()),
        }
    }
}

/// Which pods may join with a token of their service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    /// The cluster's public keys (a JSON Web Key Set).
    pub jwks: KeySource,
    /// The `iss` that tokens must have.
    pub issuer: String,
    /// The audience that tokens must be made for.
    pub audience: String,
    /// `NAMESPACE/SERVICE_ACCOUNT` to the gateway its pods may serve.
    pub gateways: BTreeMap<String, String>,
}

/// Where a cluster's public keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// In a file, read at each join.
    File(PathBuf),
    /// At a server, most often the cluster's own.
    Url(KeyUrl),
}

/// A server that publishes a cluster's keys. The last good ones are kept while it does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUrl {
    /// `https` only; redirects are not followed.
    pub url: String,
    /// The authority that the server's certificate must come from (PEM); `None` for the public ones.
    pub ca: Option<PathBuf>,
    /// A bearer token to show there; `None` for none.
    pub token_file: Option<PathBuf>,
    /// How often they are fetched, +-20 %, and besides for a token that names an unknown key.
    /// Default 5 minutes.
    pub interval: Duration,
}

impl KeyUrl {
    /// A server's usual interval, without authority and token.
    #[must_use]
    pub fn new(url: String) -> Self {
        Self {
            url,
            ca: None,
            token_file: None,
            interval: KEYS_INTERVAL,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |reason: &str| {
            Err(Error::Config {
                field: "transport.kubernetes.jwks",
                reason: reason.to_owned(),
            })
        };
        match self.url.parse::<http::Uri>() {
            Ok(uri) if uri.scheme_str() != Some("https") => refuse("the URL must be https"),
            Ok(_) if self.interval < Duration::from_secs(1) => refuse("must be 1 s apart or more"),
            Ok(_) => Ok(()),
            Err(_) => refuse("is not a URL"),
        }
    }
}

/// The files of a TLS server, all PEM, read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The server's certificate, with the chain behind it.
    pub cert: PathBuf,
    /// The key of that certificate.
    pub key: PathBuf,
    /// The authority that agents' certificates must come from.
    pub client_ca: PathBuf,
}

/// The times everything goes by.
#[derive(Debug, Clone)]
pub struct Timing {
    /// How often agents report. Default 10 s. Silence of three intervals ends a session.
    pub report_interval: Duration,
    /// A record without a report for this long is stale. Default 30 s.
    pub stale_after: Duration,
    /// How often the configuration database is asked for newer revisions, +-20 %. Default 1 s.
    pub poll_interval: Duration,
    /// How long a new connection may stay without HTTP/2, and a new stream without a Hello.
    /// Default 10 s.
    pub hello_timeout: Duration,
    /// How long a message may wait for an agent that does not read. Default 30 s.
    pub stall_timeout: Duration,
    /// How long farewells and open requests may take at the end. Default 5 s.
    pub shutdown_grace: Duration,
    /// The random share of the wait agents are asked for at the end, so that they do not return
    /// at one moment. Default 5 s.
    pub reconnect_jitter: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            report_interval: limits::REPORT_INTERVAL,
            stale_after: limits::STALE_AFTER,
            poll_interval: Duration::from_secs(1),
            hello_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(5),
            reconnect_jitter: Duration::from_secs(5),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grpc_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, GRPC_PORT)),
            ops_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, OPS_PORT)),
            transport: Transport::Plaintext,
            sessions_max: 20_000,
            connections_max: 20_000,
            timing: Timing::default(),
        }
    }
}

impl Config {
    /// Refuses what would be unsafe or could not work.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] naming the field.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.transport {
            Transport::Plaintext if !self.grpc_listen.ip().is_loopback() => {
                return Err(Error::Config {
                    field: "grpc_listen",
                    reason: format!(
                        "{} is not a loopback address, which needs TLS: give certificates",
                        self.grpc_listen
                    ),
                });
            }
            Transport::Plaintext | Transport::MutualTls(_) => {}
            Transport::Enrolment(enrolment) => enrolment.check()?,
        }
        for (field, value) in [
            ("sessions_max", self.sessions_max),
            ("connections_max", self.connections_max),
        ] {
            if value == 0 {
                return Err(Error::Config {
                    field,
                    reason: "must be at least 1".to_owned(),
                });
            }
        }
        for (field, value) in [
            ("timing.report_interval", self.timing.report_interval),
            ("timing.stale_after", self.timing.stale_after),
            ("timing.poll_interval", self.timing.poll_interval),
        ] {
            if value < Duration::from_millis(1) {
                return Err(Error::Config {
                    field,
                    reason: "must be at least 1 ms".to_owned(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plaintext_beyond_loopback_is_refused() {
        for listen in ["0.0.0.0:7400", "10.0.0.1:7400", "[::]:7400"] {
            let config = Config {
                grpc_listen: listen.parse().unwrap(),
                ..Config::default()
            };
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with("grpc_listen: "), "{error}");
        }
    }

    #[test]
    fn loopback_is_taken() {
        for listen in ["127.0.0.1:0", "[::1]:7400"] {
            let config = Config {
                grpc_listen: listen.parse().unwrap(),
                ..Config::default()
            };
            config.check().unwrap();
        }
    }
}
