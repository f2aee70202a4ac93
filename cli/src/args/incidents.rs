//! Flags of the commands that tell what happened.

use super::client::{ApiArguments, Format};
use super::span;
use clap::{Args, ValueEnum};

/// Most entries that a command reads of a list; more are paged through the API.
const ENTRIES_MAX: u32 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct IncidentsArguments {
    /// Show this incident in full, by its id; left out = list them
    pub(crate) id: Option<String>,
    /// Only this gateway
    #[arg(long)]
    pub(crate) gateway: Option<String>,
    /// Which ones
    #[arg(long, default_value = "all")]
    pub(crate) state: IncidentsState,
    /// Only what began within this time, such as 12h or 7d
    #[arg(long, value_parser = span)]
    pub(crate) since: Option<u64>,
    /// Most incidents that are listed, the latest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(ENTRIES_MAX)))]
    pub(crate) limit: u32,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IncidentsState {
    /// Those that go on, and past ones
    All,
    /// Those that go on
    Open,
    /// Past ones
    Closed,
}

#[derive(Debug, Args)]
pub(crate) struct TimelineArguments {
    /// Only this gateway
    pub(crate) gateway: Option<String>,
    /// Only this pool; "" for direct routes
    #[arg(long)]
    pub(crate) pool: Option<String>,
    /// Only this lane
    #[arg(long)]
    pub(crate) lane: Option<String>,
    /// Only lanes of this provider, and its own breaker
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Only agents with this name or instance
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only changes of this kind
    #[arg(long)]
    pub(crate) kind: Option<TimelineKind>,
    /// Only changes of this incident, by its id
    #[arg(long)]
    pub(crate) incident: Option<String>,
    /// Only what happened within this time, such as 15m or 2d
    #[arg(long, value_parser = span, conflicts_with = "from")]
    pub(crate) since: Option<u64>,
    /// Not earlier than this time, such as 2026-11-30T10:00:00Z
    #[arg(long)]
    pub(crate) from: Option<String>,
    /// Earlier than this time
    #[arg(long)]
    pub(crate) until: Option<String>,
    /// Most changes that are listed, the latest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(ENTRIES_MAX)))]
    pub(crate) limit: u32,
    /// How the result is printed
    #[arg(short, long, default_value = "table")]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimelineKind {
    /// A breaker began to refuse
    Opened,
    /// A breaker began to probe
    HalfOpened,
    /// A breaker passes again
    Closed,
    /// Changes are missing
    Shed,
}

impl TimelineKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::HalfOpened => "half_opened",
            Self::Closed => "closed",
            Self::Shed => "shed",
        }
    }
}
