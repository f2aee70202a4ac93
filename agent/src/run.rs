//! Starts an agent, keeps its parts together, and ends them in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::config::{Config, Fault};
use crate::ops::{Ops, Pulse};
use crate::plane::{DrainSignal, Plane};
use crate::revision::file;
use crate::status::{Status, Topic};

mod source;
mod workers;

use source::Feed;
use workers::Workers;

/// Time without a crash after which a start counts as healthy.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// How much longer than the drain grace the proxy threads may take to end.
const WORKERS_SLACK: Duration = Duration::from_secs(5);
/// How long each of the other parts may take to end.
const PART_TIMEOUT: Duration = Duration::from_secs(5);

/// Why an agent could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are refused, all faults at once.
    #[error("the settings are refused:\n  {}", lines(.0))]
    Settings(Vec<Fault>),
    /// The document file is refused.
    #[error(transparent)]
    File(#[from] file::Error),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(io::Error),
    /// A proxy thread could not start or ended on its own.
    #[error("a proxy thread failed")]
    Worker(#[source] io::Error),
    /// The ops listener ended on its own.
    #[error("the ops listener failed")]
    Ops(#[source] io::Error),
}

fn lines(faults: &[Fault]) -> String {
    let lines: Vec<_> = faults.iter().map(Fault::to_string).collect();
    lines.join("\n  ")
}

/// Where a started agent listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The proxy listener.
    pub proxy: SocketAddr,
    /// The ops listener.
    pub ops: SocketAddr,
}

/// The two ways to end an agent. A plain token is the first of them.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Drain: finish what runs, within the grace.
    pub drain: CancellationToken,
    /// Stop waiting for anything, as after a second signal.
    pub immediate: CancellationToken,
}

impl From<CancellationToken> for Shutdown {
    fn from(drain: CancellationToken) -> Self {
        Self {
            drain,
            immediate: CancellationToken::new(),
        }
    }
}

/// Runs an agent until it is told to stop and has drained. `ready` is called once it listens.
///
/// Must run on a Tokio runtime with time and I/O; the proxy gets threads and runtimes of its own.
///
/// # Errors
///
/// When it cannot start, or a part that it cannot live without fails.
pub async fn run(
    config: Config,
    shutdown: impl Into<Shutdown>,
    ready: impl FnOnce(Addresses),
) -> Result<(), Error> {
    config.check().map_err(Error::Settings)?;
    let agent = Agent::start(config).await?;
    ready(agent.addresses);
    agent.live(shutdown.into()).await
}

/// A running agent.
struct Agent {
    addresses: Addresses,
    pause: Duration,
    status: Arc<Status>,
    workers: Workers,
    feed: Feed,
    ops: JoinHandle<io::Result<()>>,
    ops_stop: CancellationToken,
}

impl Agent {
    async fn start(config: Config) -> Result<Self, Error> {
        let status = Arc::new(Status::new(clock::now()));
        let plane = Plane::traced(config.tracer.clone());
        // Whatever is at hand is applied before anything listens or dials.
        let prepared = source::prepare(&config, &plane, &status).await?;

        let (listeners, proxy) =
            workers::bind(config.listen, config.workers).map_err(Error::Listen)?;
        let ops_listener =
            lanekeeper_serve::bind(config.ops_listen, false).map_err(Error::Listen)?;
        let ops_address = ops_listener.local_addr().map_err(Error::Listen)?;

        let pulse = Arc::new(Pulse::new(listeners.len(), clock::now()));
        let drain = DrainSignal {
            retiring: CancellationToken::new(),
            closing: CancellationToken::new(),
            grace: config.drain_grace,
        };
        let workers = Workers::start(listeners, &plane, drain, &pulse).map_err(Error::Worker)?;
        let ops = Ops {
            plane: plane.clone(),
            status: Arc::clone(&status),
            pulse,
        };
        let ops_stop = CancellationToken::new();
        let ops = tokio::spawn(ops.serve(ops_listener, ops_stop.clone()));
        status.set_listening(true);
        let feed = prepared.start(&config, plane, &status);
        Ok(Self {
            addresses: Addresses {
                proxy,
                ops: ops_address,
            },
            pause: config.drain_pause,
            status,
            workers,
            feed,
            ops,
            ops_stop,
        })
    }

    async fn live(mut self, shutdown: Shutdown) -> Result<(), Error> {
        let failure = self.wait(&shutdown).await.err();
        self.status.set_draining();
        if failure.is_none() {
            self.feed.healthy();
            tracing::info!("draining");
            self.feed.draining();
            self.workers.retire();
            tokio::select! {
                () = tokio::time::sleep(self.pause) => {}
                () = shutdown.immediate.cancelled() => {}
            }
        }
        self.status.set_listening(false);
        let grace = self.workers.grace() + WORKERS_SLACK;
        let ended = self.workers.end(grace, &shutdown.immediate).await;
        self.feed.end().await;
        self.ops_stop.cancel();
        if !self.ops.is_finished()
            && tokio::time::timeout(PART_TIMEOUT, &mut self.ops)
                .await
                .is_err()
        {
            tracing::warn!("the ops listener did not end in time");
            self.ops.abort();
        }
        tracing::info!("stopped");
        match failure {
            Some(failure) => Err(failure),
            None => ended.map_err(Error::Worker),
        }
    }

    /// Until the agent is told to stop or cannot go on.
    async fn wait(&mut self, shutdown: &Shutdown) -> Result<(), Error> {
        let mut healthy = std::pin::pin!(tokio::time::sleep(HEALTHY_AFTER));
        let (mut told, mut fed) = (false, true);
        loop {
            tokio::select! {
                biased;
                () = shutdown.drain.cancelled() => return Ok(()),
                () = shutdown.immediate.cancelled() => return Ok(()),
                error = self.workers.failed() => return Err(Error::Worker(error)),
                ended = &mut self.ops => {
                    let error = match ended {
                        Ok(Ok(())) => io::Error::other("it ended without being told to"),
                        Ok(Err(error)) => error,
                        Err(error) => io::Error::other(error),
                    };
                    return Err(Error::Ops(error));
                }
                () = self.feed.ended(), if fed => {
                    fed = false;
                    let problem = "the configuration source failed: only a restart brings it back";
                    tracing::error!("{problem}");
                    self.status.raise(Topic::Source, problem.to_owned());
                }
                () = healthy.as_mut(), if !told => {
                    told = true;
                    self.feed.healthy();
                }
            }
        }
    }
}
