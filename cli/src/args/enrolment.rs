//! Flags of how agents join: of the server's side, and of the authority's files.

use clap::{Args, Subcommand};
use lanekeeper_control_plane::{AuthorityFiles, Enrolment, KeySource, KeyUrl, Kubernetes};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files' names inside the data folder.
const CERT_FILE: &str = "ca.crt";
const KEY_FILE: &str = "ca.key";

/// Agents join with tokens and get certificates, unless certificates come from files.
#[derive(Debug, Args)]
pub(crate) struct EnrolmentArguments {
    /// Certificate of the authority that signs agents' certificates (PEM); server makes one in its
    /// data folder unless told otherwise
    #[arg(
        long,
        env = "LANEKEEPER_CA_CERT",
        requires = "ca_key",
        conflicts_with = "tls_cert"
    )]
    ca_cert: Option<PathBuf>,
    /// Key of that authority (PEM)
    #[arg(long, env = "LANEKEEPER_CA_KEY", requires = "ca_cert")]
    ca_key: Option<PathBuf>,
    /// Host name or address that agents reach this server by; may be given several times
    #[arg(long = "tls-name", env = "LANEKEEPER_TLS_NAMES", value_delimiter = ',',
        default_values = ["localhost", "127.0.0.1", "::1"])]
    tls_names: Vec<String>,
    /// How long an agent's certificate lasts, in seconds; agents renew after three fifths of it
    #[arg(long, env = "LANEKEEPER_CERTIFICATE_SECS", default_value = "86400", value_parser = super::secs)]
    certificate_secs: Duration,
    /// Public keys of a Kubernetes cluster (a JSON Web Key Set) whose pods may join: a file, or the
    /// https:// URL where the cluster publishes them
    #[arg(long, env = "LANEKEEPER_KUBERNETES_JWKS", value_name = "FILE|URL",
        requires_all = ["kubernetes_issuer", "kubernetes_gateways"])]
    kubernetes_jwks: Option<String>,
    /// Authority that the certificate at that URL must come from (PEM) [default: the public ones]
    #[arg(long, env = "LANEKEEPER_KUBERNETES_CA", requires = "kubernetes_jwks")]
    kubernetes_ca: Option<PathBuf>,
    /// File with the bearer token to show at that URL
    #[arg(
        long,
        env = "LANEKEEPER_KUBERNETES_TOKEN_FILE",
        requires = "kubernetes_jwks"
    )]
    kubernetes_token_file: Option<PathBuf>,
    /// Issuer of that cluster's tokens
    #[arg(
        long,
        env = "LANEKEEPER_KUBERNETES_ISSUER",
        requires = "kubernetes_jwks"
    )]
    kubernetes_issuer: Option<String>,
    /// Audience that the tokens are made for
    #[arg(
        long,
        env = "LANEKEEPER_KUBERNETES_AUDIENCE",
        default_value = "lanekeeper"
    )]
    kubernetes_audience: String,
    /// Gateway that a service account's pods may serve, NAMESPACE/SERVICE_ACCOUNT=GATEWAY; may be
    /// given several times
    #[arg(long = "kubernetes-gateway", env = "LANEKEEPER_KUBERNETES_GATEWAYS", requires = "kubernetes_jwks",
        value_delimiter = ',', value_parser = super::pair)]
    kubernetes_gateways: Vec<(String, String)>,
}

impl EnrolmentArguments {
    /// How agents join; `None` without an authority. One in the data folder is made when missing.
    pub(crate) fn settings(&self, data_dir: Option<&Path>) -> Option<Enrolment> {
        let authority = match (&self.ca_cert, &self.ca_key) {
            (Some(cert), Some(key)) => AuthorityFiles {
                cert: cert.clone(),
                key: key.clone(),
                create: false,
            },
            _ => in_folder(data_dir?),
        };
        let mut settings = Enrolment::new(authority, self.tls_names.clone());
        settings.certificate_life = self.certificate_secs;
        if let (Some(jwks), Some(issuer)) = (&self.kubernetes_jwks, &self.kubernetes_issuer) {
            settings.kubernetes = Some(Kubernetes {
                jwks: self.key_source(jwks),
                issuer: issuer.clone(),
                audience: self.kubernetes_audience.clone(),
                gateways: self.kubernetes_gateways.iter().cloned().collect(),
            });
        }
        Some(settings)
    }

    fn key_source(&self, jwks: &str) -> KeySource {
        if !jwks.contains("://") {
            return KeySource::File(PathBuf::from(jwks));
        }
        KeySource::Url(KeyUrl {
            ca: self.kubernetes_ca.clone(),
            token_file: self.kubernetes_token_file.clone(),
            ..KeyUrl::new(jwks.to_owned())
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct CaArguments {
    #[command(subcommand)]
    pub(crate) action: CaAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaAction {
    /// Put a new authority in front of those in the files; a running server takes it up by itself
    Rotate(CaFiles),
}

/// Where the authority is.
#[derive(Debug, Args)]
pub(crate) struct CaFiles {
    /// The server's data folder
    #[arg(long, env = "LANEKEEPER_DATA_DIR", default_value = "lanekeeper-data")]
    data_dir: PathBuf,
    /// Certificates of the authority, outside of a data folder; made when missing
    #[arg(long, env = "LANEKEEPER_CA_CERT", requires = "ca_key")]
    ca_cert: Option<PathBuf>,
    /// Keys of the authority
    #[arg(long, env = "LANEKEEPER_CA_KEY", requires = "ca_cert")]
    ca_key: Option<PathBuf>,
}

impl CaFiles {
    pub(crate) fn files(&self) -> AuthorityFiles {
        match (&self.ca_cert, &self.ca_key) {
            (Some(cert), Some(key)) => AuthorityFiles {
                cert: cert.clone(),
                key: key.clone(),
                // The first files for several replicas are made by a rotation.
                create: false,
            },
            _ => in_folder(&self.data_dir),
        }
    }
}

fn in_folder(folder: &Path) -> AuthorityFiles {
    AuthorityFiles {
        cert: folder.join(CERT_FILE),
        key: folder.join(KEY_FILE),
        create: true,
    }
}
