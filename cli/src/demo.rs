//! `lanekeeper demo`: a whole fleet in one process, for a first look without keys or servers.

mod gateway;
mod readiness;
mod traffic;
mod welcome;

use crate::args::DemoArguments;
use crate::exit::Failure;
use crate::storage::Storage;
use crate::{clock, output, shutdown};
use lanekeeper_agent::{Shutdown as AgentShutdown, Source};
use lanekeeper_model::{check_json, content_hash};
use lanekeeper_store::{Change, ExposeSecret};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Agents of the demonstration.
const AGENTS: u16 = 3;
/// A person who ends the demonstration does not want to wait for streams.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Where everything listens, counted from the first port.
#[derive(Debug, Clone, Copy)]
struct Ports {
    base: u16,
}

impl Ports {
    fn at(self, offset: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.base.saturating_add(offset)))
    }

    fn grpc(self) -> SocketAddr {
        self.at(0)
    }

    fn http(self) -> SocketAddr {
        self.at(1)
    }

    fn server_ops(self) -> SocketAddr {
        self.at(2)
    }

    fn proxy(self, agent: u16) -> SocketAddr {
        self.at(10 * (agent + 1))
    }

    fn agent_ops(self, agent: u16) -> SocketAddr {
        self.at(10 * (agent + 1) + 1)
    }

    fn provider(self) -> SocketAddr {
        self.at(100)
    }
}

pub(crate) async fn run(arguments: DemoArguments) -> Result<(), Failure> {
    let signals = shutdown::on_signals()?;
    let stop = signals.orderly;
    let ports = Ports {
        base: arguments.port_base,
    };
    let folder = tempfile::tempdir().map_err(Failure::other)?;
    let mut parts = JoinSet::new();
    let outcome = start(ports, folder.path(), &mut parts, &stop).await;
    let outcome = match outcome {
        Ok(token) => {
            welcome::print(ports, &token);
            if !arguments.no_traffic {
                let proxies = (0..AGENTS).map(|agent| ports.proxy(agent)).collect();
                traffic::start(proxies, &stop);
            }
            ended(&mut parts).await
        }
        Err(failure) => Err(failure),
    };
    stop.cancel();
    while let Some(part) = parts.join_next().await {
        if let Ok(Err(failure)) = part {
            tracing::debug!(%failure, "a component failed");
        }
    }
    outcome
}

/// Waits for the first part to end: in order after a signal, else with its failure.
async fn ended(parts: &mut JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    match parts.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(Failure::other(error)),
        None => Ok(()),
    }
}

/// Starts all parts and returns the admin token.
async fn start(
    ports: Ports,
    folder: &Path,
    parts: &mut JoinSet<Result<(), Failure>>,
    stop: &CancellationToken,
) -> Result<String, Failure> {
    let config = lanekeeper_sim_provider::Config {
        listen: ports.provider(),
        latency: Duration::from_millis(40),
        frame_interval: Duration::from_millis(30),
        ..lanekeeper_sim_provider::Config::default()
    };
    let token = stop.clone();
    started(parts, |ready| async move {
        let ready = |_| _ = ready.send(());
        lanekeeper_sim_provider::run(config, token, ready)
            .await
            .map_err(Failure::other)
    })
    .await?;

    let storage = Storage::embedded(&folder.join("data")).await?;
    let token = storage.new_token().await?;
    let token = token
        .map(|token| token.expose_secret().to_owned())
        .unwrap_or_default();
    create_gateway(&storage, ports).await?;
    start_server(ports, &storage, parts, stop).await?;
    for agent in 0..AGENTS {
        start_agent(agent, ports, folder, parts, stop).await?;
    }
    for agent in 0..AGENTS {
        readiness::wait(ports.agent_ops(agent)).await?;
    }
    Ok(token)
}

/// Spawns a part and waits until it says that it is ready, or ends before.
async fn started<F>(
    parts: &mut JoinSet<Result<(), Failure>>,
    part: impl FnOnce(oneshot::Sender<()>) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let (ready, is_ready) = oneshot::channel();
    parts.spawn(part(ready));
    match is_ready.await {
        Ok(()) => Ok(()),
        Err(_) => ended(parts).await,
    }
}

async fn create_gateway(storage: &Storage, ports: Ports) -> Result<(), Failure> {
    let document = gateway::document(ports.provider());
    if let Err(problems) = check_json(&document) {
        return Err(Failure::other(anyhow::anyhow!(
            "the demonstration's gateway: {problems:?}"
        )));
    }
    let hash = content_hash(&document);
    let change = Change {
        actor: "demo".to_owned(),
        actor_id: String::new(),
        message: String::new(),
        now_ms: clock::unix_ms(),
        idempotency: None,
    };
    let created = storage
        .config
        .create_gateway(gateway::NAME, &document, &hash, &change)
        .await;
    created.map(drop).map_err(Failure::other)
}

async fn start_server(
    ports: Ports,
    storage: &Storage,
    parts: &mut JoinSet<Result<(), Failure>>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let config = lanekeeper_control_plane::Config {
        grpc_listen: ports.grpc(),
        ops_listen: ports.server_ops(),
        transport: lanekeeper_control_plane::Transport::Plaintext,
        ..lanekeeper_control_plane::Config::default()
    };
    let (own, token) = (storage.clone(), stop.clone());
    started(parts, |ready| async move {
        let ready = |_| _ = ready.send(());
        lanekeeper_control_plane::run(config, own.config, own.live, token, ready)
            .await
            .map_err(Failure::other)
    })
    .await?;
    let config = lanekeeper_dashboard_api::Config {
        http_listen: ports.http(),
        ..lanekeeper_dashboard_api::Config::default()
    };
    let (own, token) = (storage.clone(), stop.clone());
    started(parts, |ready| async move {
        let ready = |_| _ = ready.send(());
        lanekeeper_dashboard_api::run(config, own.config, own.live, token, ready)
            .await
            .map_err(Failure::other)
    })
    .await
}

async fn start_agent(
    agent: u16,
    ports: Ports,
    folder: &Path,
    parts: &mut JoinSet<Result<(), Failure>>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let mut config = lanekeeper_agent::Config::new(Source::Joined {
        control_plane: format!("http://{}", ports.grpc()),
        gateway: gateway::NAME.to_owned(),
        insecure: true,
        tls: None,
    });
    config.name = format!("agent-{}", agent + 1);
    config.listen = ports.proxy(agent);
    config.ops_listen = ports.agent_ops(agent);
    config.cache_dir = Some(folder.join(&config.name));
    config.drain_pause = Duration::ZERO;
    config.drain_grace = DRAIN_GRACE;
    output::hint(&format!("starting {}", config.name));
    let token = stop.clone();
    started(parts, |ready| async move {
        let ready = |_| _ = ready.send(());
        let shutdown = AgentShutdown::from(token);
        lanekeeper_agent::run(config, shutdown, ready)
            .await
            .map_err(Failure::other)
    })
    .await
}
