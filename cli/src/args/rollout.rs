//! Flags of the commands that bring configuration to agents in steps, or take it back.

use super::client::{ApiArguments, Format};
use super::complete;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RolloutArguments {
    #[command(subcommand)]
    pub(crate) command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Show the status of a rollout: its stages, and agents that are pending or refused it
    Status(RolloutTarget),
    /// Pause a rollout; agents keep their revision
    Pause(RolloutOrder),
    /// Resume a paused or stopped rollout
    Resume(RolloutOrder),
    /// Abort a rollout and restore the old content
    Abort {
        /// Only stop it; agents keep their revision
        #[arg(long)]
        no_rollback: bool,
        #[command(flatten)]
        order: RolloutOrder,
    },
    /// Show the plan by which a gateway's revisions reach its agents, or set it from a file
    Plan(PlanArguments),
    /// Roll out a document, or the content of an earlier revision
    Start(StartArguments),
}

/// Which rollout is meant.
#[derive(Debug, Args)]
pub(crate) struct RolloutTarget {
    /// The gateway
    pub(crate) gateway: String,
    /// The revision that is rolled out; left out = the newest rollout
    pub(crate) revision: Option<u64>,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// The gateway
    #[arg(add = complete::gateways())]
    pub(crate) gateway: String,
    /// The new plan, YAML or JSON; - reads standard input. Left out = the plan is shown
    #[arg(short, long)]
    pub(crate) file: Option<PathBuf>,
    /// Why, for the audit trail
    #[arg(short, long, requires = "file")]
    pub(crate) message: Option<String>,
    /// How the result is printed; a table is printed as YAML
    #[arg(short, long, default_value = "yaml")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutOrder {
    #[command(flatten)]
    pub(crate) target: RolloutTarget,
    /// Why, for the audit trail
    #[arg(long)]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StartArguments {
    /// The gateway
    pub(crate) gateway: String,
    /// The gateway document, YAML or JSON; - reads standard input
    #[arg(short, long, required_unless_present = "revision")]
    pub(crate) file: Option<PathBuf>,
    /// The earlier revision whose content is rolled out, in place of a file
    #[arg(long, conflicts_with = "file")]
    pub(crate) revision: Option<u64>,
    /// The plan, YAML or JSON; left out = the gateway's own
    #[arg(long)]
    pub(crate) plan: Option<PathBuf>,
    /// In stages by the default plan: 10 % of the agents, then all
    #[arg(long, conflicts_with = "plan")]
    pub(crate) staged: bool,
    /// Take it also when it leaves a gateway that serves without any usable pool
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Why, for the audit trail
    #[arg(long)]
    pub(crate) message: Option<String>,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArguments {
    /// The gateway
    pub(crate) gateway: String,
    /// The revision whose content is restored, as a new revision
    pub(crate) revision: u64,
    /// Take it also when it leaves a gateway that serves without any usable pool
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Why, for the audit trail
    #[arg(long)]
    pub(crate) message: Option<String>,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}
