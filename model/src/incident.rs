//! An incident: one outage of a lane, of a provider or of a pool as the whole fleet saw it, from the
//! first agent that met it until it has been over everywhere for a while.
//!
//! A plain value that is stored after every step, so that any replica of the control plane may take
//! the next one: what fresh reports say and the time go in, what people should hear of comes out.
//! Operators' overrides open no incident; an override upon an open one hides how the lane is, so
//! that it does not pass for recovered.

mod context;
mod sighting;
mod step;
mod view;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Scope;
use crate::ids::GatewayName;
use crate::report::Totals;
use crate::transition::TransitionCause;

pub use context::{Context, ContextKind, ContextMark, SUSPECT_WINDOW_MS};
pub use sighting::{AgentSighting, CellCauses, Sighting, Sightings, sightings};
pub use step::IncidentEvent;
pub use view::{
    IncidentAgentView, IncidentCause, IncidentContext, IncidentDetail, IncidentScope,
    IncidentState, IncidentView, StripAgent, StripSpan, StripState,
};

/// How long every fresh agent must have had the lane closed before an incident is over, unless the
/// operator of the control plane says otherwise: 60 s.
pub const INCIDENT_QUIET_SECS_DEFAULT: u64 = 60;
/// An incident of which no fresh agent could tell anything for this long ends, its end unknown:
/// 5 min.
pub const UNKNOWN_AFTER_MS: u64 = 300_000;
/// So many times must everything have been closed and opened again before an incident flaps.
pub const FLAPPING_AFTER: u64 = 3;
/// Most agents that an incident names; more are only counted.
pub const AGENTS_MAX: usize = 1_000;
/// Most changes of scope that an incident remembers; those in the middle are left out first.
pub const SCOPES_MAX: usize = 200;
/// Most different causes that an incident counts.
pub const CAUSES_MAX: usize = 32;
/// Most overrides, and most revisions and rollouts, that an incident names.
pub const CONTEXT_MAX: usize = 50;

/// What failed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A lane, in whichever pools it is a member.
    Lane,
    /// A provider, by its own cell.
    Provider,
    /// A pool of which no member was left.
    Pool,
}

impl SubjectKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Lane, Self::Provider, Self::Pool];

    /// The kind as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Provider => "provider",
            Self::Pool => "pool",
        }
    }

    /// Reads the API's spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What an incident is about, within a gateway.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Subject {
    /// What it is.
    pub kind: SubjectKind,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// How an incident ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every fresh agent has had it closed for the quiet time.
    Recovered,
    /// No agent was left that could tell.
    Unknown,
    /// The gateway was deleted.
    Removed,
}

/// One incident.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Incident {
    /// Names it; given by the store.
    pub id: String,
    /// The gateway.
    pub gateway: GatewayName,
    /// What failed.
    pub subject: Subject,
    /// The lane's provider, or the provider itself; empty for a pool.
    #[serde(default)]
    pub provider: String,
    /// The pools whose cells of the lane opened; the empty name for direct routes.
    #[serde(default)]
    pub pools: Vec<String>,
    /// When the first agent met it, unix milliseconds.
    pub opened_ms: u64,
    /// Since when it has been over on every fresh agent; `None` while it is not.
    #[serde(default)]
    pub quiet_since_ms: Option<u64>,
    /// Since when no fresh agent could tell; `None` while one can.
    #[serde(default)]
    pub unknown_since_ms: Option<u64>,
    /// When it was declared over, and how it ended; `None` while it goes on.
    #[serde(default)]
    pub closed: Option<Closed>,
    /// How far it reaches now; `None` while it is over everywhere.
    #[serde(default)]
    pub scope: Option<Scope>,
    /// The widest that it reached.
    pub widest: Scope,
    /// How its scope changed, the earliest first.
    #[serde(default)]
    pub scopes: Vec<ScopeChange>,
    /// Agents that had it at the same time at most, and how many were fresh then.
    #[serde(default)]
    pub peak: Share,
    /// How often it was over everywhere and came again.
    #[serde(default)]
    pub flaps: u64,
    /// Failures by cause, over all agents.
    #[serde(default)]
    pub causes: Vec<CountedCause>,
    /// The agents that met it, by instance, at most [`AGENTS_MAX`].
    #[serde(default)]
    pub agents: BTreeMap<String, AgentPart>,
    /// Agents that met it and are not among those for want of room; each time anew.
    #[serde(default)]
    pub agents_beyond: u64,
    /// What operators did in that time and shortly before.
    #[serde(default)]
    pub context: Vec<ContextMark>,
}

/// The end of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// When it was declared over, unix milliseconds.
    pub at_ms: u64,
    /// How it ended.
    pub ending: Ending,
}

/// A share of the fresh agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Those that had it.
    pub affected: u64,
    /// All that reported freshly.
    pub fresh: u64,
}

impl Share {
    /// True when a larger part of the fleet is affected than in `other`.
    fn exceeds(self, other: Self) -> bool {
        let mine = u128::from(self.affected) * u128::from(other.fresh.max(1));
        let others = u128::from(other.affected) * u128::from(self.fresh.max(1));
        mine > others || (mine == others && self.affected > other.affected)
    }
}

/// A change of scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeChange {
    /// When, unix milliseconds.
    pub at_ms: u64,
    /// The scope from then on; `None` = over everywhere.
    pub scope: Option<Scope>,
    /// How many agents that was.
    pub share: Share,
}

/// A cause with its failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedCause {
    /// The cause.
    #[serde(flatten)]
    pub cause: TransitionCause,
    /// Failures for it, over all agents.
    pub count: u64,
}

/// One agent's part in an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPart {
    /// The agent's name.
    pub agent: String,
    /// When it first met it, unix milliseconds.
    pub first_ms: u64,
    /// It has it now.
    pub affected: bool,
    /// When it was last seen to begin or to end there, unix milliseconds.
    pub changed_ms: u64,
    /// How often it began there.
    pub openings: u64,
    /// Most re-openings of one cell there since it was last closed.
    #[serde(default)]
    pub reopens: u64,
    /// Calls that moved to another lane while it had it.
    #[serde(default)]
    pub failovers: u64,
    /// Calls that ended in an error while it had it.
    #[serde(default)]
    pub failed: u64,
    /// The totals that these were last counted from.
    #[serde(default)]
    totals: Totals,
    /// The causes that were last counted from, by cell.
    #[serde(default)]
    counted: Vec<CellCauses>,
}

impl Incident {
    /// True while it goes on.
    pub fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// When it was over, unix milliseconds; `None` while it is not.
    pub fn ended_ms(&self) -> Option<u64> {
        let closed = self.closed?;
        Some(self.quiet_since_ms.unwrap_or(closed.at_ms))
    }

    /// Calls that moved to another lane and calls that ended in an error, on agents while they had
    /// it. Where several incidents share an agent's time, each counts all.
    pub fn calls(&self) -> (u64, u64) {
        self.agents.values().fold((0, 0), |(moved, failed), agent| {
            (moved + agent.failovers, failed + agent.failed)
        })
    }
}

#[cfg(test)]
mod tests;
