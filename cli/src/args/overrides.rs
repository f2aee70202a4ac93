//! Flags of `lanekeeper override`.

use super::client::{ApiArguments, Format};
use super::{pair, secs, span};
use clap::{Args, Subcommand};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct OverrideArguments {
    #[command(subcommand)]
    pub(crate) action: OverrideCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OverrideCommand {
    /// Send no attempt to a lane or a provider
    ForceOpen {
        #[command(flatten)]
        lasting: LastingArguments,
        /// Do it even if that leaves a pool without a usable member
        #[arg(long)]
        allow_empty: bool,
    },
    /// Allow every attempt to a lane or a provider, whatever the state of its breaker
    ForceClose {
        #[command(flatten)]
        lasting: LastingArguments,
    },
    /// Finish running responses of a lane or a provider and start no new ones
    Drain {
        #[command(flatten)]
        lasting: LastingArguments,
        /// Do it even if that leaves a pool without a usable member
        #[arg(long)]
        allow_empty: bool,
    },
    /// Close the breakers of a lane or a provider and forget their history, once
    Reset {
        #[command(flatten)]
        order: OrderArguments,
        /// How long it is kept for agents that are not connected, such as 90s; a minute if not
        /// given
        #[arg(long, value_parser = span)]
        ttl: Option<u64>,
    },
    /// List the active overrides of a gateway
    List {
        /// The gateway
        #[arg(short, long, env = "LANEKEEPER_GATEWAY")]
        gateway: String,
        /// List released and expired ones too
        #[arg(long)]
        all: bool,
        /// How the result is printed
        #[arg(short, long, default_value = "table")]
        output: Format,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Show one override with each agent's acknowledgement
    Show {
        /// The override's id, as `override list` shows it
        id: String,
        /// The gateway
        #[arg(short, long, env = "LANEKEEPER_GATEWAY")]
        gateway: String,
        /// How the result is printed
        #[arg(short, long, default_value = "table")]
        output: Format,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Release an override before it expires
    Release {
        /// The override's id, as `override list` shows it
        id: String,
        /// The gateway
        #[arg(short, long, env = "LANEKEEPER_GATEWAY")]
        gateway: String,
        /// Why, for the audit trail
        #[arg(long)]
        message: Option<String>,
        #[command(flatten)]
        waiting: WaitArguments,
        #[command(flatten)]
        api: ApiArguments,
    },
}

/// Whom an order is for, and why.
#[derive(Debug, Args)]
pub(crate) struct OrderArguments {
    /// The gateway
    #[arg(short, long, env = "LANEKEEPER_GATEWAY")]
    pub(crate) gateway: String,
    /// The lane
    #[arg(short, long, required_unless_present = "provider")]
    pub(crate) lane: Option<String>,
    /// Only the lane's breakers in this pool; "" for its direct route; all of them if not given
    #[arg(short, long)]
    pub(crate) pool: Option<String>,
    /// The provider whose own breaker is meant, in place of a lane's
    #[arg(long, conflicts_with_all = ["lane", "pool"])]
    pub(crate) provider: Option<String>,
    /// Only on agents with this label, as key=value; may be given several times
    #[arg(long, value_parser = pair)]
    pub(crate) label: Vec<(String, String)>,
    /// Why
    #[arg(long)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) waiting: WaitArguments,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

/// An order with an end.
#[derive(Debug, Args)]
pub(crate) struct LastingArguments {
    #[command(flatten)]
    pub(crate) order: OrderArguments,
    /// How long it lasts, such as 90s, 15m, 12h or 7d; a week at most
    #[arg(long, value_parser = span)]
    pub(crate) ttl: u64,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArguments {
    /// Wait until it has taken effect on every agent that is connected
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest wait, in seconds
    #[arg(long, default_value = "30", value_parser = secs, requires = "wait")]
    pub(crate) timeout_secs: Duration,
}
