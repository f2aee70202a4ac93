//! Flags of the simulated fleet.

use super::secs;
use clap::Args;
use lanekeeper_fleet_sim::{ClientTls, Config};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct FleetSimArguments {
    /// Control plane to join, http://host:port with --insecure, otherwise https://
    #[arg(long, env = "LANEKEEPER_CONTROL_PLANE")]
    control_plane: String,
    /// Gateway that the agents serve
    #[arg(long, env = "LANEKEEPER_GATEWAY")]
    gateway: String,
    /// Agents
    #[arg(long, env = "LANEKEEPER_AGENTS", default_value_t = 100)]
    agents: usize,
    /// Cells of each agent: those of the gateway's document, then made-up ones
    #[arg(long, env = "LANEKEEPER_CELLS", default_value_t = 50)]
    cells: usize,
    /// Length of the run in seconds, the dialling included
    #[arg(long, env = "LANEKEEPER_SECONDS", default_value = "30", value_parser = secs)]
    seconds: Duration,
    /// Share this many connections [default: one for each agent]
    #[arg(long, env = "LANEKEEPER_CONNECTIONS")]
    connections: Option<NonZeroUsize>,
    /// Agents that dial for the first time in each second
    #[arg(long, env = "LANEKEEPER_DIALS_PER_SEC", default_value_t = 1000)]
    dials_per_sec: usize,
    /// Share of the cells that are not closed, 0 to 1
    #[arg(long, env = "LANEKEEPER_OPEN_SHARE", default_value_t = 0.02)]
    open_share: f64,
    /// Mean time between two transitions of one agent in seconds; 0 = none
    #[arg(long, env = "LANEKEEPER_TRANSITION_SECS", default_value = "120", value_parser = secs)]
    transition_secs: Duration,
    /// Decides what happens to the cells
    #[arg(long, env = "LANEKEEPER_SEED", default_value_t = 1)]
    seed: u64,
    /// Beginning of the agents' names
    #[arg(long, env = "LANEKEEPER_NAME", default_value = "sim")]
    name: String,
    /// Print one JSON object
    #[arg(long, env = "LANEKEEPER_JSON")]
    pub(crate) json: bool,
    /// Plaintext to the control plane; loopback addresses only
    #[arg(
        long,
        env = "LANEKEEPER_INSECURE",
        conflicts_with = "tls_cert",
        required_unless_present = "tls_cert"
    )]
    pub(crate) insecure: bool,
    /// Authority that the control plane's certificate must come from (PEM)
    #[arg(long, env = "LANEKEEPER_TLS_CA", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Certificate of the agents (PEM)
    #[arg(long, env = "LANEKEEPER_TLS_CERT", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, env = "LANEKEEPER_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl FleetSimArguments {
    /// The run that is asked for.
    pub(crate) fn config(self) -> Config {
        let tls = match (self.tls_ca, self.tls_cert, self.tls_key) {
            (Some(ca), Some(cert), Some(key)) => Some(ClientTls { ca, cert, key }),
            _ => None,
        };
        Config {
            tls,
            name: self.name,
            agents: self.agents,
            cells: self.cells,
            duration: self.seconds,
            connections: self.connections.map(NonZeroUsize::get),
            dials_per_sec: self.dials_per_sec,
            open_share: self.open_share,
            transition_interval: self.transition_secs,
            seed: self.seed,
            ..Config::new(self.control_plane, self.gateway)
        }
    }
}
