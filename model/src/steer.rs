//! What operators and the fleet ask of agents about lanes.
//!
//! Both come as full sets with an end, not as commands: an agent that gets the set again changes
//! nothing, and what is no longer in it is over. Times are what is left, never clock times, because
//! agents' clocks differ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{LaneName, PoolName, ProviderName};

mod active;

pub use active::{ActiveOverride, emptied_pools};

/// What an override does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverrideAction {
    /// Refuse every attempt.
    ForceOpen,
    /// Admit every attempt and record without tripping.
    ForceClose,
    /// Let running attempts finish and admit no new one.
    Drain,
    /// Close the cell and forget its history; takes effect once for each id.
    Reset,
}

impl OverrideAction {
    /// Every action.
    pub const ALL: [Self; 4] = [Self::ForceOpen, Self::ForceClose, Self::Drain, Self::Reset];

    /// The action as the API spells it.
    pub fn as_str(self) -> &'static str {
        lanekeeper_breaker::OverrideAction::from(self).as_str()
    }

    /// Reads the API's spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

impl From<OverrideAction> for lanekeeper_breaker::OverrideAction {
    fn from(action: OverrideAction) -> Self {
        match action {
            OverrideAction::ForceOpen => Self::ForceOpen,
            OverrideAction::ForceClose => Self::ForceClose,
            OverrideAction::Drain => Self::Drain,
            OverrideAction::Reset => Self::Reset,
        }
    }
}

/// An operator's override of the cells of a lane, or of a provider's own cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// Identifies the override; a reset of an id that was seen before does nothing.
    pub id: String,
    /// The pool whose cells are meant, the empty name for direct routes; `None` = all of them.
    pub pool: Option<PoolName>,
    /// The lane; empty when a provider's own cell is meant.
    pub lane: LaneName,
    /// The provider whose own cell is meant; `None` = the lane's cells are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderName>,
    /// What to do.
    pub action: OverrideAction,
    /// Milliseconds until the override ends by itself. Not read for a reset.
    #[serde(default)]
    pub remaining_ms: u64,
}

/// The fleet's hint that a lane fails elsewhere: choose it only when no other can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advisory {
    /// The pool whose cells are meant; `None` = all of them.
    pub pool: Option<PoolName>,
    /// The lane.
    pub lane: LaneName,
    /// The endpoint whose cells are meant, where a policy keeps one for each; `None` = all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Milliseconds until the hint ends unless it is given again.
    pub remaining_ms: u64,
    /// Milliseconds since an agent last saw the lane fail. An agent with a success of its own since
    /// then knows better.
    #[serde(default)]
    pub evidence_age_ms: u64,
    /// Agents of the fleet, who share the canaries between them.
    #[serde(default)]
    pub agents: u32,
}
