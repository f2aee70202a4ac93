//! Flags of the commands that people manage a fleet with.

use super::client::{ApiArguments, FilterArguments, Format};
use super::complete;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// Gateway documents, YAML or JSON, several in a file where --- parts them; a folder stands for
    /// its files; - reads standard input. May be given more than once
    #[arg(
        short,
        long = "file",
        value_name = "FILE|DIR",
        required_unless_present = "gateway",
        conflicts_with = "gateway"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// Compare two revisions of this gateway in place of files
    #[arg(requires = "from", add = complete::gateways())]
    pub(crate) gateway: Option<String>,
    /// The earlier revision
    pub(crate) from: Option<u64>,
    /// The later one; left out = the current one
    pub(crate) to: Option<u64>,
    /// End with exit code 8 when there are differences
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    /// Only this gateway
    #[arg(add = complete::gateways())]
    pub(crate) gateway: Option<String>,
    /// Only this pool
    #[arg(long, add = complete::pools())]
    pub(crate) pool: Option<String>,
    /// Only this lane
    #[arg(long)]
    pub(crate) lane: Option<String>,
    /// List closed breakers too
    #[arg(long)]
    pub(crate) closed: bool,
    /// How it is printed: a table that is redrawn, or with json one event per line
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// Only this gateway
    #[arg(add = complete::gateways())]
    pub(crate) gateway: Option<String>,
    /// Show it once; without a terminal it is shown once anyway
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two looks
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..3600))]
    pub(crate) interval_secs: u64,
    /// How it is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// List the tokens that are not revoked
    List {
        /// How the result is printed
        #[arg(short, long, default_value = "table")]
        output: Format,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Create a token and print it; it is shown this once
    Create {
        /// Whom or what it is for
        name: String,
        /// What it may do
        #[arg(long, default_value = "viewer")]
        role: TokenRole,
        /// How long it is valid, such as 12h or 30d; left out = until it is revoked
        #[arg(long, value_parser = super::span)]
        ttl: Option<u64>,
        /// How the result is printed
        #[arg(short, long, default_value = "table")]
        output: Format,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Revoke a token; it is invalid everywhere within five seconds
    Revoke {
        /// The token's id, as `token list` shows it
        id: String,
        #[command(flatten)]
        api: ApiArguments,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenRole {
    /// Read
    Viewer,
    /// Override and drain as well
    Operator,
    /// Configure and manage tokens as well
    Admin,
}

impl TokenRole {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AgentsArguments {
    #[command(subcommand)]
    pub(crate) action: AgentsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsAction {
    /// List the agents, what they applied and whether they report
    List {
        /// Only this gateway
        #[arg(add = complete::gateways())]
        gateway: Option<String>,
        #[command(flatten)]
        filter: FilterArguments,
        /// How the result is printed
        #[arg(short, long, default_value = "table")]
        output: Format,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Show one agent
    Show {
        /// The agent's name, or its id, as `agents list -o wide` shows it, where several have the name
        #[arg(add = complete::agents())]
        id: String,
        /// How the result is printed; a table is printed as YAML
        #[arg(short, long, default_value = "yaml")]
        output: Format,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Drain an agent: take it out of its load balancer; running requests finish
    Drain {
        /// The agent's name, or its id where several have the name
        #[arg(add = complete::agents())]
        id: String,
        /// Undrain it
        #[arg(long)]
        undo: bool,
        /// Why, for the audit trail
        #[arg(long)]
        message: Option<String>,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Forget an agent and revoke its certificate; one that runs without a certificate
    /// returns with its next report
    Delete {
        /// The agent's name, or its id where several have the name
        #[arg(add = complete::agents())]
        id: String,
        /// Why, for the audit trail
        #[arg(long)]
        message: Option<String>,
        #[command(flatten)]
        api: ApiArguments,
    },
}
