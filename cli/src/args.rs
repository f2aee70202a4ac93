//! The command line. Every flag has an environment variable; help texts say defaults and units.

mod agent;
mod client;
mod complete;
mod delete;
#[cfg(test)]
mod documented;
mod enrolment;
mod fleet_sim;
mod import;
mod incidents;
mod join_token;
mod manage;
mod overrides;
mod precedence;
mod rollout;
mod server;
mod traces;

pub(crate) use agent::AgentArguments;
pub(crate) use client::{
    ApiArguments, ApplyArguments, CheckArguments, FilterArguments, Format, GetArguments, GetFormat,
    ReplayArguments, Resource,
};
pub(crate) use delete::{DeleteArguments, DeleteResource};
pub(crate) use enrolment::{CaAction, CaArguments, EnrolmentArguments};
pub(crate) use fleet_sim::FleetSimArguments;
pub(crate) use import::{ForeignSystem, ImportArguments, ImportFormat};
pub(crate) use incidents::{IncidentsArguments, IncidentsState, TimelineArguments};
pub(crate) use join_token::{JoinTokenAction, JoinTokenArguments};
pub(crate) use manage::{
    AgentsAction, AgentsArguments, DiffArguments, TokenAction, TokenArguments, TopArguments,
    WatchArguments,
};
pub(crate) use overrides::{
    LastingArguments, OrderArguments, OverrideArguments, OverrideCommand, WaitArguments,
};
pub(crate) use precedence::parse;
pub(crate) use rollout::{
    PlanArguments, RollbackArguments, RolloutArguments, RolloutCommand, RolloutOrder,
    RolloutTarget, StartArguments,
};
pub(crate) use server::{
    ControlPlaneArguments, DashboardApiArguments, EmbeddedOrServers, GrpcArguments, HttpArguments,
    ServerArguments, Servers,
};
pub(crate) use traces::{OtlpProtocol, TraceArguments};

use crate::exit;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The release, and in one that was packaged its commit.
pub(crate) const VERSION: &str = match option_env!("LANEKEEPER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// A fleet of LLM gateways that keeps every lane honest.
#[derive(Debug, Parser)]
#[command(name = "lanekeeper", version = VERSION, after_help = exit::HELP, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) log: LogArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// What is logged to standard error: error, warn, info, debug, trace, or filters by target
    #[arg(long, global = true, env = "LANEKEEPER_LOG", default_value = "info")]
    pub(crate) log: String,
    /// How a log line looks
    #[arg(
        long,
        global = true,
        env = "LANEKEEPER_LOG_FORMAT",
        default_value = "text"
    )]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Everything on this machine: control plane, API and page, three agents, simulated providers
    Demo(DemoArguments),
    /// Control plane and HTTP API in one process
    Server(ServerArguments),
    /// The control plane alone, for several replicas; needs PostgreSQL and Redis
    ControlPlane(ControlPlaneArguments),
    /// The HTTP API alone, for several replicas; needs PostgreSQL and Redis
    DashboardApi(DashboardApiArguments),
    /// The data plane: proxies model traffic over pools of lanes
    Agent(AgentArguments),
    /// A provider that answers like the real ones and fails on command
    SimProvider(SimProviderArguments),
    /// Thousands of synthetic agents, to measure a control plane with
    FleetSim(FleetSimArguments),
    /// Check a gateway document without sending it anywhere
    Check(CheckArguments),
    /// Make a gateway document of another gateway's configuration, and say what became of each entry
    Import(ImportArguments),
    /// Try a breaker policy on the recorded outcomes of an agent's /journal
    Replay(ReplayArguments),
    /// Read gateways, agents, breakers, incidents, configuration, revisions, rollouts, overrides or
    /// the audit trail
    Get(GetArguments),
    /// Create a gateway or change its configuration
    Apply(ApplyArguments),
    /// Show what apply would change, or what changed between two revisions
    Diff(DiffArguments),
    /// Delete a gateway
    Delete(DeleteArguments),
    /// Override the breakers of a lane or a provider for a time: force open, force close, drain, reset
    Override(OverrideArguments),
    /// Make the content of an earlier revision current again, as a new revision
    Rollback(RollbackArguments),
    /// Show, start, pause, resume or abort a rollout
    Rollout(RolloutArguments),
    /// Show whether callers are served, pool by pool and lane by lane, again and again
    Top(TopArguments),
    /// List outages as the whole fleet saw them, those that go on and past ones, or show one
    Incidents(IncidentsArguments),
    /// List changes of breakers' states, agent by agent, the latest first
    Timeline(TimelineArguments),
    /// Follow the fleet's breakers as they change
    Watch(WatchArguments),
    /// List agents, take one out of its load balancer, forget one
    Agents(AgentsArguments),
    /// List, create and revoke API tokens
    Token(TokenArguments),
    /// List, create and revoke the tokens that agents join with
    JoinToken(JoinTokenArguments),
    /// Replace the authority that signs agents' certificates
    Ca(CaArguments),
    /// Look at everything between you and an answer, and say what is wrong and what to do
    Doctor(DoctorArguments),
    /// Ask a process of this machine whether it is ready; for health checks
    Ready(ReadyArguments),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(ManArguments),
    /// Create folders and give them to a user; for the init container of mounted volumes
    OwnFolder(OwnFolderArguments),
    /// Print a shell completion script for this command
    Completion(CompletionArguments),
}

impl Command {
    /// Where a service sends its spans, and its name there; the other commands make none.
    pub(crate) fn traces(&self) -> Option<(&TraceArguments, &'static str)> {
        match self {
            Self::Agent(agent) => Some((&agent.traces, "lanekeeper-agent")),
            Self::Server(server) => Some((&server.traces, "lanekeeper-server")),
            Self::ControlPlane(server) => Some((&server.traces, "lanekeeper-control-plane")),
            Self::DashboardApi(server) => Some((&server.traces, "lanekeeper-dashboard-api")),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell, whose startup file may say: source <(lanekeeper completion bash). Names of gateways,
    /// agents, pools and lanes are asked of the server at LANEKEEPER_URL
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct OwnFolderArguments {
    /// The folders; made when they are missing
    #[arg(required = true)]
    pub(crate) folders: Vec<PathBuf>,
    /// Whose they become, as numbers: USER:GROUP
    #[arg(long, env = "LANEKEEPER_OWNER", value_parser = owner)]
    pub(crate) owner: (u32, u32),
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Look at this document's providers and keys too, as this machine and user see them
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ReadyArguments {
    /// Its ops listener
    #[arg(
        long,
        env = "LANEKEEPER_OPS_URL",
        default_value = "http://127.0.0.1:7411"
    )]
    pub(crate) ops_url: String,
}

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The folder; made when it is missing
    pub(crate) folder: PathBuf,
}

/// `USER:GROUP`, both numbers.
fn owner(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once(':');
    let ids = parts.and_then(|(user, group)| Some((user.parse().ok()?, group.parse().ok()?)));
    ids.ok_or_else(|| "must be USER:GROUP, both numbers, such as 65532:65532".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// First port: gRPC, then HTTP and ops behind it, agents at +10, +20, +30, provider at +100
    #[arg(long, env = "LANEKEEPER_PORT_BASE", default_value_t = 7400,
        value_parser = clap::value_parser!(u16).range(1024..65_000))]
    pub(crate) port_base: u16,
    /// Send no traffic by itself
    #[arg(long, env = "LANEKEEPER_NO_TRAFFIC")]
    pub(crate) no_traffic: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SimProviderArguments {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, env = "LANEKEEPER_LISTEN", default_value = "127.0.0.1:7500")]
    pub(crate) listen: SocketAddr,
    /// Words of an answer, and so frames of a stream
    #[arg(long, env = "LANEKEEPER_WORDS", default_value_t = 8)]
    pub(crate) words: usize,
    /// Pause before the headers of an answer, in milliseconds
    #[arg(long, env = "LANEKEEPER_LATENCY_MS", default_value = "0", value_parser = millis)]
    pub(crate) latency_ms: Duration,
    /// Pause between the frames of a stream, in milliseconds
    #[arg(long, env = "LANEKEEPER_FRAME_INTERVAL_MS", default_value = "0", value_parser = millis)]
    pub(crate) frame_interval_ms: Duration,
    /// File of scripted turns with tool calls, for callers that offer those tools
    #[arg(long, env = "LANEKEEPER_SCRIPT")]
    pub(crate) script: Option<PathBuf>,
}

/// Longest span a flag may say, in seconds: ten years, as the API has it.
const MAX_SPAN_SECS: u64 = 10 * 365 * 24 * 60 * 60;
/// Largest number of seconds a flag may say: one year.
const MAX_SECS: f64 = 31_536_000.0;

fn millis(text: &str) -> Result<Duration, String> {
    text.parse()
        .map(Duration::from_millis)
        .map_err(|error| format!("not milliseconds: {error}"))
}

/// Seconds with fractions.
fn secs(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(secs) if (0.0..=MAX_SECS).contains(&secs) => Ok(Duration::from_secs_f64(secs)),
        Ok(_) => Err(format!("must be from 0 to {MAX_SECS}")),
        Err(error) => Err(format!("not seconds: {error}")),
    }
}

/// A span of time in whole seconds: 90, 90s, 15m, 12h or 30d.
fn span(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(end) => text.split_at(end),
        None => (text, "s"),
    };
    let unit_secs = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err("must be a whole number and s, m, h or d, such as 15m".to_owned()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit_secs))
        .filter(|secs| (1..=MAX_SPAN_SECS).contains(secs))
        .ok_or_else(|| "must be from 1 second to 10 years".to_owned())
}

/// `key=value`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be key=value".to_owned()),
    }
}

/// Certificate files of one side of mutual TLS.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsFiles {
    pub(crate) ca: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}
