//! Flags of `join-token`.

use super::client::{ApiArguments, Format};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct JoinTokenArguments {
    #[command(subcommand)]
    pub(crate) action: JoinTokenAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JoinTokenAction {
    /// List the join tokens that are not revoked
    List {
        /// How the result is printed
        #[arg(short, long, default_value = "table")]
        output: Format,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Create a join token and print it; it is shown this once
    Create {
        /// The gateway that agents may join with it
        gateway: String,
        /// How long it is valid, such as 15m or 2d
        #[arg(long, value_parser = super::span, default_value = "1h")]
        ttl: u64,
        /// How many agents may join with it
        #[arg(long, default_value_t = 1)]
        max_uses: u64,
        /// Keep it in this file, of mode 0600, in place of printing it; nothing is made while the
        /// file is there
        #[arg(long, value_name = "FILE")]
        keep_in: Option<PathBuf>,
        /// How the result is printed
        #[arg(short, long, default_value = "table")]
        output: Format,
        #[command(flatten)]
        api: ApiArguments,
    },
    /// Revoke a join token
    Revoke {
        /// The join token's id
        id: String,
        /// Also revoke the certificates of the agents that joined with it
        #[arg(long)]
        agents: bool,
        #[command(flatten)]
        api: ApiArguments,
    },
}
