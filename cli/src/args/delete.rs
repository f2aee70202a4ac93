//! Flags of `delete`.

use super::client::ApiArguments;
use super::complete;
use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    /// What to delete
    pub(crate) resource: DeleteResource,
    /// Its name
    #[arg(add = complete::gateways())]
    pub(crate) name: String,
    /// Delete it although live agents serve it; they go on with what they have
    #[arg(long)]
    pub(crate) force: bool,
    /// Why, for the audit trail
    #[arg(short, long)]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeleteResource {
    /// A gateway; its history stays in the audit trail
    #[value(aliases = ["gateways", "gw"])]
    Gateway,
}
