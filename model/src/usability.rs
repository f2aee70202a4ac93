//! What a breaker does not say: whether a lane can serve in its pool on an agent, and if not, why.
//!
//! A lane may be closed everywhere and serve nobody: its key is missing, its budget is spent, its
//! weight is nothing. Agents report it with every report, whole each time, and only what is amiss.

use serde::{Deserialize, Serialize};

use crate::ids::{LaneName, PoolName};
use crate::traffic::PoolTraffic;

/// Why a lane cannot serve in its pool on an agent.
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
pub enum UnusableReason {
    /// The agent has no key for the provider, or one that no header can carry.
    MissingKey,
    /// The provider's address cannot be used from the agent.
    BadAddress,
    /// The lane's lifetime budget is spent.
    BudgetSpent,
    /// The member's weight is 0.
    WeightZero,
    /// The pool's failover excludes the lane.
    Excluded,
    /// Every permit of the lane is taken at this moment.
    PermitsGone,
    /// The provider's own cell does not pass.
    ProviderOpen,
    /// The lane's own cell in the pool does not pass. Its row says more.
    CellOpen,
    /// The pool has no members.
    Empty,
    /// A reason of a later release, which this one has no name for.
    Other,
}

impl UnusableReason {
    /// Every reason, in the order of the wire.
    pub const ALL: [Self; 10] = [
        Self::MissingKey,
        Self::BadAddress,
        Self::BudgetSpent,
        Self::WeightZero,
        Self::Excluded,
        Self::PermitsGone,
        Self::ProviderOpen,
        Self::CellOpen,
        Self::Empty,
        Self::Other,
    ];

    /// The reason as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingKey => "missing_key",
            Self::BadAddress => "bad_address",
            Self::BudgetSpent => "budget_spent",
            Self::WeightZero => "weight_zero",
            Self::Excluded => "excluded",
            Self::PermitsGone => "permits_gone",
            Self::ProviderOpen => "provider_open",
            Self::CellOpen => "cell_open",
            Self::Empty => "empty",
            Self::Other => "other",
        }
    }

    fn bit(self) -> u16 {
        match Self::ALL.iter().position(|it| *it == self) {
            Some(place) => 1 << place,
            None => 0,
        }
    }
}

/// A set of reasons in two bytes: a large fleet keeps one for each unusable member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<UnusableReason>", into = "Vec<UnusableReason>")]
pub struct Reasons(u16);

impl Reasons {
    /// No reason.
    pub const NONE: Self = Self(0);

    /// True when nothing is amiss.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// As [`Reasons::is_empty`], for serde.
    pub(crate) fn is_empty_ref(&self) -> bool {
        self.is_empty()
    }

    /// True when `reason` is among them.
    pub fn has(self, reason: UnusableReason) -> bool {
        self.0 & reason.bit() != 0
    }

    /// The reasons without `reason`.
    #[must_use]
    pub fn without(self, reason: UnusableReason) -> Self {
        Self(self.0 & !reason.bit())
    }

    /// Adds a reason where `holds`.
    pub fn add_if(&mut self, holds: bool, reason: UnusableReason) {
        if holds {
            self.0 |= reason.bit();
        }
    }

    /// Adds all of `others`.
    pub fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// The reasons in their order.
    pub fn iter(self) -> impl Iterator<Item = UnusableReason> {
        UnusableReason::ALL
            .into_iter()
            .filter(move |reason| self.has(*reason))
    }
}

impl FromIterator<UnusableReason> for Reasons {
    fn from_iter<T: IntoIterator<Item = UnusableReason>>(reasons: T) -> Self {
        let bits = reasons.into_iter().map(UnusableReason::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

impl From<Vec<UnusableReason>> for Reasons {
    fn from(reasons: Vec<UnusableReason>) -> Self {
        reasons.into_iter().collect()
    }
}

impl From<Reasons> for Vec<UnusableReason> {
    fn from(reasons: Reasons) -> Self {
        reasons.iter().collect()
    }
}

/// A pool on one agent, as its report carries it: what it can serve with now, and what came of the
/// requests since the report before. A pool that is not listed is wholly usable and was not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// What the pool can serve with now.
    pub usability: PoolUsability,
    /// What came of its requests since the report before.
    pub traffic: PoolTraffic,
}

/// What a pool can serve with on one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolUsability {
    /// The pool; the empty name for direct routes, whose members are all lanes.
    pub pool: PoolName,
    /// Members that the agent's revision has.
    pub members: u32,
    /// Those that can serve now.
    pub usable: u32,
    /// No member can serve. Where only permits are missing: and requests were turned away for it
    /// since the report before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
    /// Requests being served.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_flight: u64,
    /// Requests that wait for a permit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub queued: u64,
    /// The members that cannot serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<LaneUsability>,
}

/// A member that cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneUsability {
    /// The lane.
    pub lane: LaneName,
    /// Why not; never empty.
    pub reasons: Reasons,
}

impl Default for PoolUsability {
    fn default() -> Self {
        Self {
            pool: PoolName::direct(),
            members: 0,
            usable: 0,
            exhausted: false,
            in_flight: 0,
            queued: 0,
            unusable: Vec::new(),
        }
    }
}

impl PoolUsability {
    /// True when there is anything to keep of the pool beyond "usable and idle".
    pub fn is_notable(&self) -> bool {
        self.is_amiss() || self.in_flight > 0 || self.queued > 0
    }

    /// True when some member cannot serve, or there is none.
    pub fn is_amiss(&self) -> bool {
        self.exhausted || !self.unusable.is_empty()
    }

    /// Why the pool cannot serve with all it has: the reasons of all its members.
    pub fn reasons(&self) -> Reasons {
        let mut all = Reasons::NONE;
        all.add_if(self.members == 0, UnusableReason::Empty);
        for lane in &self.unusable {
            all.add(lane.reasons);
        }
        all
    }
}

impl PoolReport {
    /// True when the report must carry the pool.
    pub fn is_notable(&self) -> bool {
        self.usability.is_notable() || !self.traffic.is_empty()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_a_set_in_order() {
        let mut reasons: Reasons = [UnusableReason::CellOpen, UnusableReason::MissingKey]
            .into_iter()
            .collect();
        reasons.add_if(false, UnusableReason::BudgetSpent);
        assert_eq!(
            serde_json::to_value(reasons).unwrap(),
            serde_json::json!(["missing_key", "cell_open"])
        );
        assert!(reasons.has(UnusableReason::CellOpen));
        let rest = reasons.without(UnusableReason::CellOpen);
        assert_eq!(
            rest.iter().collect::<Vec<_>>(),
            [UnusableReason::MissingKey]
        );
        assert!(rest.without(UnusableReason::MissingKey).is_empty());
    }

    #[test]
    fn every_reason_has_a_bit_of_its_own_and_the_name_that_serde_gives_it() {
        let all: Reasons = UnusableReason::ALL.into_iter().collect();
        assert_eq!(all.iter().count(), UnusableReason::ALL.len());
        for reason in UnusableReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
