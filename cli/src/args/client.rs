//! Flags of the commands that check documents or talk to the HTTP API.

use super::secs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Where the HTTP API is and who asks.
#[derive(Debug, Args)]
pub(crate) struct ApiArguments {
    /// Address of the HTTP API
    #[arg(long, env = "LANEKEEPER_URL", default_value = "http://127.0.0.1:7401")]
    pub(crate) url: String,
    /// API token; better given by the environment, where other users do not see it
    #[arg(long, env = "LANEKEEPER_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// File that holds the API token
    #[arg(long, env = "LANEKEEPER_TOKEN_FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
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
pub(crate) struct GetArguments {
    /// What to read
    pub(crate) resource: Resource,
    /// Gateway; a filter for gateways, agents and breakers, needed for the others
    pub(crate) gateway: Option<String>,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: GetFormat,
    /// List closed breakers too
    #[arg(long)]
    pub(crate) closed: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
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
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArguments {
    /// Gateway documents, YAML or JSON, several in a file where --- parts them; - reads standard
    /// input. May be given more than once
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Only let the server check it
    #[arg(long)]
    pub(crate) dry_run: bool,
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
