//! A change of a breaker's state as an agent reports it, once for each: unlike the states of a
//! report, a lost one is not made good by the next report, so each has a number of its own.

use serde::{Deserialize, Serialize};

use super::CellState;
use crate::ids::{GatewayName, LaneName, PoolName, ProviderName};

/// Most changes of state that one report carries. The rest waits for the next one.
pub const TRANSITIONS_PER_REPORT_MAX: usize = 256;

/// One change of a cell's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransitionReport {
    /// Counts up within one process, from 1, whatever session it is reported in.
    pub sequence: u64,
    /// Milliseconds since it happened.
    pub age_ms: u64,
    /// The pool; empty for direct routes and for a provider's own cell.
    pub pool: PoolName,
    /// The lane; empty for a provider's own cell.
    pub lane: LaneName,
    /// The lane's provider, or the one whose own cell it is; empty when no served revision has the
    /// lane any more.
    pub provider: ProviderName,
    /// The endpoint, where a policy keeps a cell for each.
    pub endpoint: Option<String>,
    /// The state before.
    pub from: CellState,
    /// The state after.
    pub to: CellState,
    /// Which rule changed it, in snake case, for example `error_rate` or `probe_failed`.
    pub reason: String,
    /// Failures behind the decision.
    pub failures: u32,
    /// Outcomes in the window at the decision.
    pub samples: u32,
    /// What failed last, if anything did.
    pub cause: Option<TransitionCause>,
    /// How long the cell stays open at least, in milliseconds; 0 when it did not open.
    pub cooldown_ms: u64,
    /// The cell only observes: nothing was refused.
    pub observed: bool,
}

/// What failed last before a change of state.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub struct TransitionCause {
    /// Kind in snake case, for example `status`, `timeout`, `auth`.
    pub kind: String,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
}

/// Changes of state that an agent could not keep until they were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedTransitions {
    /// Number of the first.
    pub first: u64,
    /// Number of the last; all between them are gone too.
    pub last: u64,
    /// Milliseconds since the last of them happened.
    pub age_ms: u64,
}

impl ShedTransitions {
    /// How many they are.
    pub fn count(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// What an entry of the timeline is about.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A cell began to refuse.
    Opened,
    /// A cell began to probe.
    HalfOpened,
    /// A cell passes again.
    Closed,
    /// Changes of state are missing here: the agent could not keep them until they were stored.
    Shed,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Opened, Self::HalfOpened, Self::Closed, Self::Shed];

    /// The kind as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::HalfOpened => "half_opened",
            Self::Closed => "closed",
            Self::Shed => "shed",
        }
    }

    /// Reads the API's spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One entry of the timeline: a change of state that an agent reported, or that some are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineEntry {
    /// The gateway.
    pub gateway: GatewayName,
    /// The agent's instance.
    pub instance: String,
    /// Number of the change within the instance; of shed ones the first.
    pub sequence: u64,
    /// The agent's name.
    pub agent: String,
    /// When it happened, unix milliseconds by the server's clock.
    pub at_ms: u64,
    /// What it is about.
    pub kind: EntryKind,
    /// The pool; empty for direct routes, `None` for a provider's own cell and for shed ones.
    pub pool: Option<PoolName>,
    /// The lane; `None` for a provider's own cell and for shed ones.
    pub lane: Option<LaneName>,
    /// The lane's provider, or the one whose own cell it is; empty when that is not known.
    pub provider: ProviderName,
    /// The rest.
    pub detail: EntryDetail,
}

/// What an entry of the timeline has beside what it is found by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryDetail {
    /// The endpoint, where a policy keeps a cell for each.
    pub endpoint: Option<String>,
    /// The state before.
    pub from: Option<CellState>,
    /// The state after.
    pub to: Option<CellState>,
    /// Which rule changed it, in snake case.
    pub reason: String,
    /// Failures behind the decision.
    pub failures: u32,
    /// Outcomes in the window at the decision.
    pub samples: u32,
    /// What failed last, if anything did.
    pub cause: Option<TransitionCause>,
    /// How long the cell stays open at least, in milliseconds; 0 when it did not open.
    pub cooldown_ms: u64,
    /// The cell only observes: nothing was refused.
    pub observed: bool,
    /// Number of the last change that is missing, for shed ones; else 0.
    pub shed_through: u64,
}

impl TimelineEntry {
    /// How many changes of state are missing here; 0 for one that is not.
    pub fn shed(&self) -> u64 {
        match self.kind {
            EntryKind::Shed => {
                let span = self.detail.shed_through.saturating_sub(self.sequence);
                span.saturating_add(1)
            }
            EntryKind::Opened | EntryKind::HalfOpened | EntryKind::Closed => 0,
        }
    }

    /// The highest number that the entry accounts for.
    pub fn through(&self) -> u64 {
        self.sequence.max(self.detail.shed_through)
    }
}

/// Who reports changes of state, and when they came.
#[derive(Clone, Copy, Debug)]
pub struct Reporter<'a> {
    /// The gateway.
    pub gateway: &'a GatewayName,
    /// The agent's instance.
    pub instance: &'a str,
    /// The agent's name.
    pub agent: &'a str,
    /// When the report came, unix milliseconds by the server's clock.
    pub received_ms: u64,
}

impl Reporter<'_> {
    /// The entry for a change of state.
    pub fn entry(&self, transition: TransitionReport) -> TimelineEntry {
        let is_own = transition.lane.is_empty();
        TimelineEntry {
            sequence: transition.sequence,
            at_ms: self.received_ms.saturating_sub(transition.age_ms),
            kind: match transition.to {
                CellState::Open => EntryKind::Opened,
                CellState::HalfOpen => EntryKind::HalfOpened,
                CellState::Closed => EntryKind::Closed,
            },
            pool: (!is_own).then_some(transition.pool),
            lane: (!is_own).then_some(transition.lane),
            provider: transition.provider,
            detail: EntryDetail {
                endpoint: transition.endpoint,
                from: Some(transition.from),
                to: Some(transition.to),
                reason: transition.reason,
                failures: transition.failures,
                samples: transition.samples,
                cause: transition.cause,
                cooldown_ms: transition.cooldown_ms,
                observed: transition.observed,
                shed_through: 0,
            },
            ..self.blank()
        }
    }

    /// The entry for changes of state that are missing.
    pub fn shed(&self, shed: ShedTransitions) -> TimelineEntry {
        TimelineEntry {
            sequence: shed.first,
            at_ms: self.received_ms.saturating_sub(shed.age_ms),
            detail: EntryDetail {
                shed_through: shed.last,
                ..EntryDetail::default()
            },
            ..self.blank()
        }
    }

    fn blank(&self) -> TimelineEntry {
        TimelineEntry {
            gateway: self.gateway.clone(),
            instance: self.instance.to_owned(),
            sequence: 0,
            agent: self.agent.to_owned(),
            at_ms: self.received_ms,
            kind: EntryKind::Shed,
            pool: None,
            lane: None,
            provider: ProviderName::from(""),
            detail: EntryDetail::default(),
        }
    }
}
