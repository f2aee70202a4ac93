//! What an agent reports about itself. Times are ages, never clock times, because agents' clocks
//! differ.
//!
//! Reading is lenient: unknown fields are skipped and absent ones take their zero, so that agents
//! and servers of neighbouring releases understand each other.

pub mod transition;

use serde::{Deserialize, Serialize};

use self::transition::{ShedTransitions, TransitionReport};
use crate::ids::{CellOwner, LaneName, PoolName, ProviderName};
use crate::usability::PoolReport;

/// State of a cell as reported. Closed = passing, open = refusing.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Passing.
    #[default]
    Closed,
    /// One probe at a time.
    HalfOpen,
    /// Refusing.
    Open,
}

impl CellState {
    /// The state as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

impl From<lanekeeper_breaker::State> for CellState {
    fn from(state: lanekeeper_breaker::State) -> Self {
        match state {
            lanekeeper_breaker::State::Closed => Self::Closed,
            lanekeeper_breaker::State::HalfOpen => Self::HalfOpen,
            lanekeeper_breaker::State::Open => Self::Open,
        }
    }
}

/// The latest cause a cell failed for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CauseReport {
    /// Kind in snake case, for example `status`, `timeout`, `auth`.
    pub kind: String,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
    /// How often this cause was seen since the cell was last closed.
    pub count: u64,
}

/// One cell as one agent sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellReport {
    /// The pool, or the empty name for direct routes and for a provider's own cell.
    pub pool: PoolName,
    /// The lane, or the empty name for a provider's own cell.
    pub lane: LaneName,
    /// The lane's provider, or the one whose own cell it is.
    pub provider: ProviderName,
    /// The endpoint, where a policy keeps a cell for each.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The state.
    pub state: CellState,
    /// Milliseconds in this state.
    #[serde(default)]
    pub state_age_ms: u64,
    /// Milliseconds since the cell was last closed, through failed probes; 0 while it is closed.
    #[serde(default)]
    pub open_age_ms: u64,
    /// Milliseconds until a probe may go; 0 when closed or due.
    #[serde(default)]
    pub cooldown_remaining_ms: u64,
    /// Milliseconds the lane stays parked; 0 when it is not.
    #[serde(default)]
    pub parked_remaining_ms: u64,
    /// Failures in a row.
    #[serde(default)]
    pub streak: u32,
    /// How often the cell opened since the agent started.
    #[serde(default)]
    pub trips: u64,
    /// Re-openings since the cell was last closed.
    #[serde(default)]
    pub reopens: u32,
    /// Successes in the window.
    #[serde(default)]
    pub window_ok: u64,
    /// Failures in the window.
    #[serde(default)]
    pub window_failed: u64,
    /// The latest cause, if the cell failed.
    #[serde(default)]
    pub cause: Option<CauseReport>,
    /// The active override: `force_open`, `force_close` or `drain`.
    #[serde(default)]
    pub override_action: Option<String>,
    /// True while an advisory of the fleet is in force here.
    #[serde(default)]
    pub advisory: bool,
    /// Attempts that advisories have kept from this cell since the agent started.
    #[serde(default)]
    pub advisory_spared: u64,
}

impl CellReport {
    /// Whose breaker the cell is.
    pub fn owner(&self) -> CellOwner {
        CellOwner::new(&self.pool, &self.lane, &self.provider)
    }

    /// True for a provider's own cell.
    pub fn is_of_provider(&self) -> bool {
        self.lane.is_empty()
    }

    /// True while the cell refuses because an operator said so, and for nothing that it has seen.
    pub fn is_forced_open(&self) -> bool {
        let refuses = ["force_open", "drain"];
        let action = self.override_action.as_deref();
        self.state != CellState::Closed && action.is_some_and(|action| refuses.contains(&action))
    }

    /// True when there is anything to report of the cell beyond "closed". Level-triggered reports
    /// carry every such cell each time.
    pub fn is_notable(&self) -> bool {
        self.state != CellState::Closed
            || self.parked_remaining_ms > 0
            || self.override_action.is_some()
            || self.advisory
    }
}

/// Where an agent has its configuration from.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ConfigSource {
    /// Pushed by the control plane.
    #[default]
    Live,
    /// The last-known-good file.
    Disk,
    /// A local document given by the operator.
    File,
}

impl ConfigSource {
    /// The source as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Disk => "disk",
            Self::File => "file",
        }
    }
}

/// Requests since the agent started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default)]
pub struct Totals {
    /// Requests taken.
    pub requests: u64,
    /// Requests answered well.
    pub ok: u64,
    /// Requests that ended in an error.
    pub failed: u64,
    /// Further attempts on another member.
    pub failovers: u64,
    /// Requests for which no member was left.
    pub exhausted: u64,
    /// Requests in flight now.
    pub inflight: u64,
}

/// One report of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Grows by one with each report of a session.
    pub seq: u64,
    /// True when `cells` holds all cells, false when only those that are not plainly closed.
    pub dense: bool,
    /// The cells.
    pub cells: Vec<CellReport>,
    /// Requests since start.
    pub totals: Totals,
    /// The revision the agent serves.
    pub revision: u64,
    /// What is wrong on this agent without preventing the revision, such as a missing variable.
    pub problems: Vec<String>,
    /// True while the agent drains.
    pub draining: bool,
    /// [`digest`] of the cells that are not plainly closed, listed or not: what is missing in
    /// `cells` shows. `None` from agents of an older release.
    pub digest: Option<u64>,
    /// The pools of which there is anything to tell: those that lack a member, and those that were
    /// used since the report before.
    #[serde(skip)]
    pub pools: Vec<PoolReport>,
    /// How long ago the report before was made, whose counts `pools` continue, in milliseconds.
    #[serde(skip)]
    pub pools_over_ms: u64,
    /// Changes of state that the server has not said to be stored yet, the earliest first, at most
    /// [`TRANSITIONS_PER_REPORT_MAX`](crate::transition::TRANSITIONS_PER_REPORT_MAX).
    pub transitions: Vec<TransitionReport>,
    /// Earlier ones that the agent could not keep until then.
    pub shed_transitions: Option<ShedTransitions>,
}

/// Distinguishes one set of notable cells and their states from another, whatever their order.
/// Plainly closed cells do not count, so a list that leaves them out has the same digest.
pub fn digest(cells: &[CellReport]) -> u64 {
    let notable = cells.iter().filter(|cell| cell.is_notable());
    notable.fold(0, |sum, cell| sum.wrapping_add(digest_of(cell)))
}

/// FNV-1a over what makes a cell notable. Texts end with a byte that is not in UTF-8.
fn digest_of(cell: &CellReport) -> u64 {
    const TEXT_END: u8 = 0xff;
    let texts = [
        cell.pool.as_str(),
        cell.lane.as_str(),
        cell.endpoint.as_deref().unwrap_or_default(),
        cell.state.as_str(),
        cell.override_action.as_deref().unwrap_or_default(),
    ];
    let flags = [
        u8::from(cell.parked_remaining_ms > 0),
        u8::from(cell.advisory),
    ];
    // Only a provider's own cell has no lane to be known by.
    let provider = cell.is_of_provider().then_some(cell.provider.as_str());
    let bytes = texts
        .into_iter()
        .chain(provider)
        .flat_map(|text| text.bytes().chain([TEXT_END]))
        .chain(flags);
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(lane: &str, state: CellState) -> CellReport {
        let text = serde_json::json!({"pool": "", "lane": lane, "provider": "p", "state": state});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn digest_tells_which_cells_are_notable_and_nothing_else() {
        let open = cell("a", CellState::Open);
        let half = cell("b", CellState::HalfOpen);
        let closed = cell("c", CellState::Closed);
        let both = digest(&[open.clone(), half.clone()]);
        assert_eq!(both, digest(&[half.clone(), closed.clone(), open.clone()]));
        let older = CellReport {
            state_age_ms: 99,
            ..open.clone()
        };
        assert_eq!(
            both,
            digest(&[older, half.clone()]),
            "ages change all the time"
        );
        assert_ne!(both, digest(std::slice::from_ref(&open)));
        assert_ne!(both, digest(&[open, cell("b", CellState::Open)]));
        assert_eq!(digest(&[closed]), 0);
        let parked = CellReport {
            parked_remaining_ms: 5,
            ..cell("c", CellState::Closed)
        };
        assert_ne!(digest(&[parked]), 0);
    }

    #[test]
    fn digest_tells_providers_own_cells_apart() {
        let own = |provider: &str| CellReport {
            provider: provider.into(),
            ..cell("", CellState::Open)
        };
        assert_ne!(digest(&[own("p")]), digest(&[own("q")]));
        let lane = |provider: &str| CellReport {
            provider: provider.into(),
            ..cell("a", CellState::Open)
        };
        assert_eq!(digest(&[lane("p")]), digest(&[lane("q")]), "as ever");
    }
}
