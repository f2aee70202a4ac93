//! Flags of the server and of its two halves.

use super::{EnrolmentArguments, TlsFiles, TraceArguments};
use clap::Args;
use lanekeeper_model::incident::INCIDENT_QUIET_SECS_DEFAULT;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    #[command(flatten)]
    pub(crate) storage: EmbeddedOrServers,
    #[command(flatten)]
    pub(crate) grpc: GrpcArguments,
    #[command(flatten)]
    pub(crate) http: HttpArguments,
    #[command(flatten)]
    pub(crate) traces: TraceArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ControlPlaneArguments {
    #[command(flatten)]
    pub(crate) storage: Servers,
    #[command(flatten)]
    pub(crate) grpc: GrpcArguments,
    #[command(flatten)]
    pub(crate) traces: TraceArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DashboardApiArguments {
    #[command(flatten)]
    pub(crate) storage: Servers,
    #[command(flatten)]
    pub(crate) http: HttpArguments,
    #[command(flatten)]
    pub(crate) traces: TraceArguments,
}

/// Storage of a process that may live alone.
#[derive(Debug, Args)]
pub(crate) struct EmbeddedOrServers {
    /// Folder of the embedded database; not used with --database-url
    #[arg(long, env = "LANEKEEPER_DATA_DIR", default_value = "lanekeeper-data")]
    pub(crate) data_dir: PathBuf,
    /// PostgreSQL for configuration and audit, postgres://user@host/database
    #[arg(long, env = "LANEKEEPER_DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// Redis for the live fleet view, redis://host
    #[arg(long, env = "LANEKEEPER_REDIS_URL", hide_env_values = true)]
    pub(crate) redis_url: Option<String>,
}

/// Storage that several processes share.
#[derive(Debug, Args)]
pub(crate) struct Servers {
    /// PostgreSQL for configuration and audit, postgres://user@host/database
    #[arg(long, env = "LANEKEEPER_DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: String,
    /// Redis for the live fleet view, redis://host
    #[arg(long, env = "LANEKEEPER_REDIS_URL", hide_env_values = true)]
    pub(crate) redis_url: String,
}

/// Where agents dial.
#[derive(Debug, Args)]
pub(crate) struct GrpcArguments {
    /// Address for agents; port 0 picks a free one
    #[arg(long, env = "LANEKEEPER_GRPC_LISTEN", default_value = "127.0.0.1:7400")]
    pub(crate) grpc_listen: SocketAddr,
    /// Address for probes and metrics
    #[arg(long, env = "LANEKEEPER_OPS_LISTEN", default_value = "127.0.0.1:7402")]
    pub(crate) ops_listen: SocketAddr,
    /// Plaintext for agents; loopback addresses only
    #[arg(long, env = "LANEKEEPER_INSECURE", conflicts_with = "tls_cert")]
    pub(crate) insecure: bool,
    /// Certificate of this server (PEM)
    #[arg(long, env = "LANEKEEPER_TLS_CERT", requires_all = ["tls_key", "tls_client_ca"])]
    tls_cert: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, env = "LANEKEEPER_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authority that agents' certificates must come from (PEM)
    #[arg(long, env = "LANEKEEPER_TLS_CLIENT_CA", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Seconds for which every agent must have had a lane closed before its incident is over
    #[arg(
        long,
        env = "LANEKEEPER_INCIDENT_QUIET_SECS",
        default_value_t = INCIDENT_QUIET_SECS_DEFAULT,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub(crate) incident_quiet_secs: u64,
    #[command(flatten)]
    pub(crate) enrolment: EnrolmentArguments,
}

impl GrpcArguments {
    /// The certificate files, when TLS is asked for.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            ca: self.tls_client_ca.clone()?,
            cert: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
        })
    }
}

/// Where people and programs reach the API.
#[derive(Debug, Args)]
pub(crate) struct HttpArguments {
    /// Address of the HTTP API and the page; port 0 picks a free one
    #[arg(long, env = "LANEKEEPER_HTTP_LISTEN", default_value = "127.0.0.1:7401")]
    pub(crate) http_listen: SocketAddr,
    /// Folder of gateway documents: they are in force as they stand there, and the API refuses to
    /// change their gateways
    #[arg(long, env = "LANEKEEPER_DOCUMENTS", value_name = "DIR")]
    pub(crate) documents: Option<PathBuf>,
    /// On the first start, write the first admin token here instead of printing it
    #[arg(long, env = "LANEKEEPER_BOOTSTRAP_TOKEN_FILE")]
    pub(crate) bootstrap_token_file: Option<PathBuf>,
}
