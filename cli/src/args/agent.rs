//! Flags of the agent.

use super::{TraceArguments, pair, secs};
use clap::Args;
use lanekeeper_agent::{ClientTls, Join};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Serve this gateway document and join no control plane
    #[arg(long, env = "LANEKEEPER_CONFIG", conflicts_with_all = ["control_plane", "gateway"],
        required_unless_present = "control_plane")]
    pub(crate) config: Option<PathBuf>,
    /// Control plane to join, https://host:port
    #[arg(long, env = "LANEKEEPER_CONTROL_PLANE", requires = "gateway")]
    pub(crate) control_plane: Option<String>,
    /// Gateway to serve
    #[arg(long, env = "LANEKEEPER_GATEWAY", requires = "control_plane")]
    pub(crate) gateway: Option<String>,
    /// Plaintext to the control plane; loopback addresses only
    #[arg(long, env = "LANEKEEPER_INSECURE", conflicts_with = "tls_cert")]
    pub(crate) insecure: bool,
    /// Name in the fleet view [default: the host's name]
    #[arg(long, env = "LANEKEEPER_NAME")]
    pub(crate) name: Option<String>,
    /// Label in the fleet view, key=value; may be given several times
    #[arg(long = "label", env = "LANEKEEPER_LABELS", value_delimiter = ',', value_parser = pair)]
    pub(crate) labels: Vec<(String, String)>,
    /// Address for callers; port 0 picks a free one
    #[arg(long, env = "LANEKEEPER_LISTEN", default_value = "127.0.0.1:7410")]
    pub(crate) listen: SocketAddr,
    /// Address for probes, statistics and metrics
    #[arg(long, env = "LANEKEEPER_OPS_LISTEN", default_value = "127.0.0.1:7411")]
    pub(crate) ops_listen: SocketAddr,
    /// Folder of the last-known-good configuration; without it a restart needs the control plane
    #[arg(long, env = "LANEKEEPER_CACHE_DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Time to keep serving after a stop signal, in seconds
    #[arg(long, env = "LANEKEEPER_DRAIN_PAUSE_SECS", default_value = "5", value_parser = secs)]
    pub(crate) drain_pause_secs: Duration,
    /// Time that running answers get after that, in seconds
    #[arg(long, env = "LANEKEEPER_DRAIN_GRACE_SECS", default_value = "600", value_parser = secs)]
    pub(crate) drain_grace_secs: Duration,
    /// Proxy threads [default: one per core]
    #[arg(long, env = "LANEKEEPER_WORKERS")]
    pub(crate) workers: Option<NonZeroUsize>,
    /// File with the token to join the control plane with: a join token, or a projected token of a
    /// Kubernetes service account
    #[arg(long, env = "LANEKEEPER_JOIN_TOKEN_FILE", requires = "control_plane",
        conflicts_with_all = ["insecure", "tls_cert"])]
    join_token_file: Option<PathBuf>,
    /// Authority that the control plane's certificate must come from (PEM); a join token names it
    #[arg(long, env = "LANEKEEPER_TLS_CA")]
    tls_ca: Option<PathBuf>,
    /// Certificate of this agent (PEM)
    #[arg(long, env = "LANEKEEPER_TLS_CERT", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, env = "LANEKEEPER_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) traces: TraceArguments,
}

impl AgentArguments {
    /// What to join with, when a token is given.
    pub(crate) fn join(&self) -> Option<Join> {
        Some(Join {
            token_file: self.join_token_file.clone()?,
            ca: self.tls_ca.clone(),
        })
    }

    /// The certificate files, when TLS is asked for.
    pub(crate) fn tls(&self) -> Option<ClientTls> {
        Some(ClientTls {
            ca: self.tls_ca.clone()?,
            cert: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
        })
    }
}
