//! Thousands of synthetic agents over real sockets, to measure a control plane with.
//!
//! Each agent keeps the protocol with a real agent's link: a connection of its own, Welcome and
//! phase, level-triggered reports, an answer to every push, patience for acknowledgements, jittered
//! waits between sessions, a Bye at the end. What it lacks is a data plane: its cells follow a script that
//! a seed decides, so that two runs see the same fleet.

mod agent;
mod clock;
mod ended;
mod life;
mod link;
mod phase;
mod revisions;
mod script;
mod session;
mod tally;

pub use link::ClientTls;
pub use phase::Phase;
pub use tally::{Outcome, PushedRevision, Spread};

use agent::Agent;
use lanekeeper_proto::limits::STREAMS_PER_CONNECTION_MAX;
use link::Links;
use revisions::Revisions;
use std::sync::Arc;
use std::time::Duration;
use tally::Tally;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most agents of one run: above it one address runs out of ports.
pub const AGENTS_MAX: usize = 28_000;
/// Most cells of one agent, the bound of a report.
pub const CELLS_MAX: usize = lanekeeper_proto::limits::REPORT_CELLS_MAX;
/// How long agents get at the end to say goodbye.
const GOODBYE_TIME: Duration = Duration::from_secs(5);

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Config {
    /// `http://` or `https://`, host and port.
    pub control_plane: String,
    /// Certificates, for `https://`; all agents share them.
    pub tls: Option<ClientTls>,
    /// The gateway that the agents serve.
    pub gateway: String,
    /// Beginning of the agents' names. Default `sim`.
    pub name: String,
    /// How many agents.
    pub agents: usize,
    /// Cells of each: those of the pushed document, and made-up ones if it has fewer.
    pub cells: usize,
    /// Length of the run, the time of dialling included.
    pub duration: Duration,
    /// Connections to share; `None` = one for each agent, as real agents have.
    pub connections: Option<usize>,
    /// Agents that dial for the first time in each second. Default 1,000.
    pub dials_per_sec: usize,
    /// Share of the cells that are not closed, 0 to 1. Default 0.02.
    pub open_share: f64,
    /// Mean time between two transitions of one agent; zero = none. Default 120 s.
    pub transition_interval: Duration,
    /// Decides the script. Default 1.
    pub seed: u64,
}

impl Config {
    /// A run with the defaults for all that is not an argument.
    #[must_use]
    pub fn new(control_plane: String, gateway: String) -> Self {
        Self {
            control_plane,
            tls: None,
            gateway,
            name: "sim".to_owned(),
            agents: 1,
            cells: 10,
            duration: Duration::from_secs(30),
            connections: None,
            dials_per_sec: 1_000,
            open_share: 0.02,
            transition_interval: Duration::from_secs(120),
            seed: 1,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let streams = STREAMS_PER_CONNECTION_MAX as usize;
        let refuse = |field, reason: String| Err(Error::Config { field, reason });
        if !(1..=AGENTS_MAX).contains(&self.agents) {
            return refuse("agents", format!("must be from 1 to {AGENTS_MAX}"));
        }
        if self.cells > CELLS_MAX {
            return refuse("cells", format!("must be at most {CELLS_MAX}"));
        }
        if self.dials_per_sec == 0 {
            return refuse("dials_per_sec", "must be at least 1".to_owned());
        }
        if !(0.0..=1.0).contains(&self.open_share) {
            return refuse("open_share", "must be from 0 to 1".to_owned());
        }
        match self.connections {
            Some(shared) if shared.saturating_mul(streams) < self.agents => refuse(
                "connections",
                format!("a connection carries {streams} agents at most"),
            ),
            Some(_) | None => Ok(()),
        }
    }
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used.
    #[error("{field}: {reason}")]
    Config {
        /// The field of [`Config`].
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The address or the certificates cannot be used.
    #[error("the control plane's address or the certificates cannot be used")]
    Address(#[source] tonic::transport::Error),
    /// A certificate file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

/// What all agents of a run share.
pub(crate) struct Swarm {
    pub(crate) config: Config,
    pub(crate) links: Links,
    pub(crate) revisions: Revisions,
    pub(crate) tally: Tally,
    pub(crate) stop: CancellationToken,
}

/// Runs the agents for [`Config::duration`], or until `shutdown`, and returns how they fared.
///
/// # Errors
///
/// [`Error`] before anything is dialled. A control plane that is away is no error: it is measured.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<Outcome, Error> {
    config.check()?;
    let began = clock::now();
    let swarm = Arc::new(Swarm {
        links: Links::new(&config).await?,
        revisions: Revisions::new(config.cells),
        tally: Tally::new(config.agents),
        stop: shutdown.child_token(),
        config,
    });
    let agents = TaskTracker::new();
    for number in 0..swarm.config.agents {
        agents.spawn(Agent::new(Arc::clone(&swarm), number).live());
    }
    agents.close();
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(swarm.config.duration) => {}
    }
    let lasted = clock::now().saturating_duration_since(began);
    let outcome = swarm.tally.outcome(&swarm.config, lasted);
    swarm.stop.cancel();
    if tokio::time::timeout(GOODBYE_TIME, agents.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            agents = agents.len(),
            "some agents could not say goodbye in time"
        );
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::new("http://127.0.0.1:1".to_owned(), "edge".to_owned());
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn settings_out_of_bounds_are_refused_by_name() {
        assert!(refused(|config| config.agents = 0).starts_with("agents: "));
        assert!(refused(|config| config.cells = CELLS_MAX + 1).starts_with("cells: "));
        assert!(refused(|config| config.open_share = 1.5).starts_with("open_share: "));
        assert!(refused(|config| config.dials_per_sec = 0).starts_with("dials_per_sec: "));
    }

    #[test]
    fn a_connection_is_not_shared_by_more_agents_than_it_has_streams() {
        let text = refused(|config| {
            config.agents = 65;
            config.connections = Some(1);
        });
        assert!(text.starts_with("connections: "), "{text}");
    }
}
