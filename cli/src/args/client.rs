//! Flags of the commands that check documents or talk to the HTTP API.

use super::{complete, secs};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Where a server on this machine listens.
const DEFAULT_URL: &str = "http://127.0.0.1:7401";

/// Where the HTTP API is and who asks.
#[derive(Debug, Args)]
pub(crate) struct ApiArguments {
    /// Address of the HTTP API
    #[arg(long, env = "LANEKEEPER_URL", default_value = DEFAULT_URL)]
    pub(crate) url: String,
    /// Authority that the API's certificate must come from (PEM), beside the system's own
    #[arg(long, env = "LANEKEEPER_CACERT", value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,
    /// API token; better given by the environment, where other users do not see it
    #[arg(long, env = "LANEKEEPER_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// File that holds the API token
    #[arg(long, env = "LANEKEEPER_TOKEN_FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
}

impl ApiArguments {
    /// Whether somebody said where the API is or who asks.
    pub(crate) fn is_named(&self) -> bool {
        self.token.is_some() || self.token_file.is_some() || self.url != DEFAULT_URL
    }
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For people with wide terminals: more columns where there are more
    Wide,
    /// As the API answers
    Json,
    /// The same as YAML
    Yaml,
}

/// How what was read is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetFormat {
    /// For people
    Table,
    /// For people with wide terminals: more columns where there are more
    Wide,
    /// As the API answers
    Json,
    /// The same as YAML
    Yaml,
    /// Names alone, one a line, for other commands: ids of agents and overrides, numbers of
    /// revisions and rollouts
    Name,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Gateway documents, YAML or JSON, several where --- parts them; - reads standard input
    pub(crate) file: PathBuf,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// A journal, one JSON object a line, as an agent's ops listener has it under /journal; - reads
    /// standard input
    pub(crate) file: PathBuf,
    /// Try this breaker block, YAML or JSON, as a document writes it; without it the default policy
    #[arg(long, value_name = "FILE", conflicts_with = "document")]
    pub(crate) breaker: Option<PathBuf>,
    /// Try the policies that this gateway document gives its pools
    #[arg(long, value_name = "FILE")]
    pub(crate) document: Option<PathBuf>,
    /// Only this pool; "" is the direct route
    #[arg(long)]
    pub(crate) pool: Option<String>,
    /// Only this lane
    #[arg(long)]
    pub(crate) lane: Option<String>,
    /// Search for better thresholds too
    #[arg(long)]
    pub(crate) suggest: bool,
    /// Draw the trade-off of all thresholds of one cell into an SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct GetArguments {
    /// What to read
    pub(crate) resource: Resource,
    /// Gateway; a filter for gateways, agents, breakers, pools and incidents, needed for what belongs
    /// to one
    #[arg(add = complete::gateways())]
    pub(crate) gateway: Option<String>,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: GetFormat,
    /// List closed breakers, or past incidents, too
    #[arg(long)]
    pub(crate) closed: bool,
    /// The config or the revision of this number, in place of the current one
    #[arg(long, value_name = "NUMBER")]
    pub(crate) revision: Option<u64>,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
    /// Print it again whenever it changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// Which entries of a list are shown, and in which order.
#[derive(Debug, Default, Args)]
pub(crate) struct FilterArguments {
    /// Only entries with this label, key=value; may be given several times, and all must hold
    #[arg(short = 'l', long = "label", value_parser = super::pair, value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<(String, String)>,
    /// Only entries in this state, such as open, live or active
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Only entries of this pool
    #[arg(long, add = complete::pools())]
    pub(crate) pool: Option<String>,
    /// Only entries of this lane
    #[arg(long, add = complete::lanes())]
    pub(crate) lane: Option<String>,
    /// Only entries of this provider
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Column to sort by, as its heading says, or a JSON pointer; with - before it from the end
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub(crate) sort_by: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resource {
    /// The gateways and their current revisions
    #[value(aliases = ["gateway", "gw"])]
    Gateways,
    /// The agents, what they applied and whether they report
    #[value(alias = "agent")]
    Agents,
    /// The fleet's breakers
    #[value(aliases = ["breaker", "breaker-state"])]
    Breakers,
    /// The pools: what they can serve with, and what came of their callers' requests
    #[value(alias = "pool")]
    Pools,
    /// Outages as the whole fleet saw them, those that go on
    #[value(alias = "incident")]
    Incidents,
    /// A gateway's document
    Config,
    /// A gateway's history
    #[value(alias = "revision")]
    Revisions,
    /// A gateway's rollouts, the latest first
    #[value(alias = "rollout")]
    Rollouts,
    /// A gateway's active overrides
    #[value(alias = "override")]
    Overrides,
    /// The plan by which a gateway's revisions reach its agents
    #[value(aliases = ["rollout-plan", "plans"])]
    Plan,
    /// Who did or tried what, the latest first
    Audit,
    /// The agents' identities and how they joined
    #[value(alias = "identity")]
    Identities,
    /// The authorities of agents' certificates
    #[value(alias = "authority")]
    Authorities,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArguments {
    /// Gateway documents, YAML or JSON, several in a file where --- parts them; a folder stands for
    /// its files; - reads standard input. May be given more than once
    #[arg(short, long = "file", value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Only let the server check it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Why, for the history and the audit trail
    #[arg(short, long)]
    pub(crate) message: Option<String>,
    /// Only over this revision: another one means that somebody else wrote meanwhile, and ends with
    /// exit code 5. 0 = only if the gateway does not exist
    #[arg(long, value_name = "NUMBER")]
    pub(crate) if_revision: Option<u64>,
    /// Delete the gateways that are in none of the files; those with live agents are refused
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) prune: bool,
    /// Take it also when it leaves a gateway that serves without any usable pool
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Wait until every live agent has applied it
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest wait, in seconds
    #[arg(long, default_value = "60", value_parser = secs, requires = "wait")]
    pub(crate) timeout_secs: Duration,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}
