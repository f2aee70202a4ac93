//! The settings of how agents prove who they are, and the refusal of those that would be unsafe.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lanekeeper_proto::limits;

use crate::Error;
use crate::enrolment::authority::{AuthorityFiles, is_server_name};

/// How long an agent's certificate lasts unless told otherwise.
pub const CERTIFICATE_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long this server's certificate lasts unless told otherwise.
const SERVER_CERTIFICATE_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How often a cluster's keys are fetched unless told otherwise.
const KEYS_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Most names of a server.
const NAMES_MAX: usize = 64;

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

    pub(crate) fn check(&self) -> Result<(), Error> {
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
    /// The authority that the server's certificate must come from (PEM); `None` for the public
    /// ones.
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
