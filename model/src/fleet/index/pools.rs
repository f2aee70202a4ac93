//! Pools: what agents report of them, packed, and added up over a gateway's agents.

use std::collections::{BTreeMap, BTreeSet};

use super::folded::{PoolMember, PoolRow, Row};
use super::packed::Mention;
use super::{Agent, GatewayIndex};
use crate::fleet::pool_view::{PoolAgents, UnusableView, UsableMembers};
use crate::fleet::record::AgentRecord;
use crate::fleet::view::ViewState;
use crate::ids::{CellOwner, LaneName, PoolName, ProviderName};
use crate::usability::{Reasons, UnusableReason};

/// What one agent reports of one pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolMention {
    pool: u32,
    members: u32,
    usable: u32,
    in_flight: u64,
    queued: u64,
    exhausted: bool,
    amiss: bool,
    reasons: Reasons,
}

/// A member that cannot serve on one agent, by the number of its cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnusableMention {
    pub(super) cell: u32,
    pub(super) reasons: Reasons,
}

/// The pools of one agent.
#[derive(Debug, Default)]
pub(super) struct PackedPools {
    pools: Box<[PoolMention]>,
    pub(super) unusable: Box<[UnusableMention]>,
}

impl PackedPools {
    pub(super) fn len(&self) -> usize {
        self.pools.len() + self.unusable.len()
    }

    /// Why a lane cannot serve on the agent, beside its own cell.
    pub(super) fn unusable_beside_its_cell(&self) -> impl Iterator<Item = UnusableMention> {
        self.unusable.iter().filter_map(|mention| {
            let reasons = mention.reasons.without(UnusableReason::CellOpen);
            (!reasons.is_empty()).then_some(UnusableMention {
                reasons,
                ..*mention
            })
        })
    }
}

/// Agents on which a lane cannot serve in its pool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UnusableSum {
    /// For another reason than its own cell.
    agents: u64,
    /// Those reasons.
    reasons: Reasons,
    /// For any reason.
    any: u64,
}

impl UnusableSum {
    fn add(&mut self, reasons: Reasons) {
        self.any += 1;
        let beside = reasons.without(UnusableReason::CellOpen);
        self.agents += u64::from(!beside.is_empty());
        self.reasons.add(beside);
    }

    pub(super) fn view(&self) -> UnusableView {
        UnusableView::new(self.agents, self.reasons)
    }
}

/// What all fresh agents report of one pool.
#[derive(Debug, Clone, Copy, Default)]
struct PoolSum {
    listed: u64,
    listed_and_had: u64,
    exhausted_on: u64,
    impaired_on: u64,
    reasons: Reasons,
    usable: Option<UsableMembers>,
    in_flight: u64,
    queued: u64,
}

impl PoolSum {
    fn add(&mut self, mention: &PoolMention, had: bool) {
        self.listed += 1;
        self.listed_and_had += u64::from(had);
        self.exhausted_on += u64::from(mention.exhausted);
        self.impaired_on += u64::from(mention.amiss && !mention.exhausted);
        if mention.exhausted {
            self.reasons.add(mention.reasons);
            let is_empty = mention.members == 0;
            self.reasons.add_if(is_empty, UnusableReason::Empty);
        }
        self.count_usable(mention.usable);
        self.in_flight = self.in_flight.saturating_add(mention.in_flight);
        self.queued = self.queued.saturating_add(mention.queued);
    }

    fn count_usable(&mut self, usable: u32) {
        let known = self.usable.get_or_insert(UsableMembers {
            least: usable,
            most: usable,
        });
        known.least = known.least.min(usable);
        known.most = known.most.max(usable);
    }
}

/// Everything that fresh agents report of pools.
#[derive(Debug, Default)]
pub(super) struct PoolSums {
    pools: Vec<PoolSum>,
    /// By the number of the cell.
    pub(super) unusable: Vec<UnusableSum>,
}

impl PoolSums {
    pub(super) fn new(index: &GatewayIndex) -> Self {
        Self {
            pools: vec![PoolSum::default(); index.pools.len()],
            unusable: vec![UnusableSum::default(); index.cells.len()],
        }
    }

    /// Adds what a fresh agent reports.
    pub(super) fn add(&mut self, index: &GatewayIndex, agent: &Agent) {
        for mention in &agent.pools.pools {
            let name = index.pools.get(mention.pool);
            let revision = agent.record.applied_revision;
            let had = name.is_some_and(|name| index.configured.has_pool(revision, name));
            if let Some(sum) = self.pools.get_mut(mention.pool as usize) {
                sum.add(mention, had);
            }
        }
        for mention in &agent.pools.unusable {
            if let Some(sum) = self.unusable.get_mut(mention.cell as usize) {
                sum.add(mention.reasons);
            }
        }
    }
}

impl GatewayIndex {
    /// The pools of a record, each once: of doubled ones the last stays.
    pub(super) fn pack_pools(&mut self, record: &AgentRecord) -> PackedPools {
        let mut pools: BTreeMap<u32, PoolMention> = BTreeMap::new();
        let mut unusable: BTreeMap<u32, Reasons> = BTreeMap::new();
        for pool in record.pools.iter().filter(|pool| pool.is_notable()) {
            let number = self.pools.number(&pool.pool);
            let mention = PoolMention {
                pool: number,
                members: pool.members,
                usable: pool.usable,
                in_flight: pool.in_flight,
                queued: pool.queued,
                exhausted: pool.exhausted,
                amiss: pool.is_amiss(),
                reasons: pool.reasons(),
            };
            pools.insert(number, mention);
            for lane in pool.unusable.iter().filter(|it| !it.lane.is_empty()) {
                let owner = CellOwner::Member {
                    pool: pool.pool.clone(),
                    lane: lane.lane.clone(),
                };
                let cell = self.number(owner, None);
                unusable.insert(cell, lane.reasons);
            }
        }
        PackedPools {
            pools: pools.into_values().collect(),
            unusable: { unusable.into_iter() }
                .map(|(cell, reasons)| UnusableMention { cell, reasons })
                .collect(),
        }
    }

    /// One row for each configured pool, and for each other one that is exhausted somewhere.
    pub(super) fn pool_rows(
        &self,
        rows: &[Row],
        sums: &PoolSums,
        stale: u64,
        fresh_by_revision: &BTreeMap<u64, u64>,
    ) -> Vec<PoolRow> {
        let mut members: BTreeMap<&PoolName, BTreeMap<&LaneName, &ProviderName>> = BTreeMap::new();
        for (owner, provider) in &self.configured.providers {
            if let Some((pool, lane)) = owner.member() {
                members.entry(pool).or_default().insert(lane, provider);
            }
        }
        let mut states: BTreeMap<(&PoolName, &LaneName), (ViewState, u64)> = BTreeMap::new();
        for row in rows {
            if let (Some(pool), Some(lane)) = (&row.view.pool, &row.view.lane) {
                let state = states.entry((pool, lane)).or_insert((row.view.state, 0));
                state.0 = state.0.max(row.view.state);
                state.1 = state.1.max(row.view.agents.reporting);
            }
        }
        let exhausted: Vec<PoolName> = (0..)
            .zip(&sums.pools)
            .filter(|(_, sum)| sum.exhausted_on > 0)
            .filter_map(|(number, _)| self.pools.get(number))
            .map(|name| PoolName::from(name.as_str()))
            .collect();
        let names: BTreeSet<&PoolName> = members.keys().copied().chain(&exhausted).collect();
        let none = BTreeMap::new();
        let of_pool = |name: &PoolName| {
            let listed = self.pools.find(name);
            let mut sum = listed
                .and_then(|number| sums.pools.get(number as usize).copied())
                .unwrap_or_default();
            let members = members.get(name).unwrap_or(&none);
            let had: u64 = { fresh_by_revision.iter() }
                .filter(|(revision, _)| self.configured.has_pool(**revision, name))
                .map(|(_, agents)| *agents)
                .sum();
            let silent_about_it = had.saturating_sub(sum.listed_and_had);
            if silent_about_it > 0 {
                sum.count_usable(u32::try_from(members.len()).unwrap_or(u32::MAX));
            }
            let member = |(lane, provider): (&&LaneName, &&ProviderName)| {
                let (state, reporting) = states
                    .get(&(name, *lane))
                    .copied()
                    .unwrap_or((ViewState::Unknown, 0));
                let owner = CellOwner::Member {
                    pool: name.clone(),
                    lane: (*lane).clone(),
                };
                let unusable = self.unusable_of(&owner, sums);
                PoolMember {
                    lane: (*lane).clone(),
                    provider: (*provider).clone(),
                    state,
                    usable_on: reporting.saturating_sub(unusable.any),
                    unusable: unusable.view(),
                }
            };
            PoolRow {
                pool: name.clone(),
                agents: PoolAgents {
                    reporting: sum.listed + silent_about_it,
                    exhausted_on: sum.exhausted_on,
                    impaired_on: sum.impaired_on,
                    stale,
                },
                exhausted_reasons: sum.reasons,
                usable_members: sum.usable,
                members: members.iter().map(member).collect(),
                in_flight: sum.in_flight,
                queued: sum.queued,
            }
        };
        names.into_iter().map(of_pool).collect()
    }

    /// Agents on which a lane cannot serve in a pool.
    pub(super) fn unusable_of(&self, owner: &CellOwner, sums: &PoolSums) -> UnusableSum {
        let number = self.cells.find(owner, None);
        number
            .and_then(|number| sums.unusable.get(number as usize).copied())
            .unwrap_or_default()
    }
}

/// Whether an agent has any mention of a cell.
pub(super) fn mentions(cells: &[Mention], cell: u32) -> bool {
    cells.iter().any(|mention| mention.cell == cell)
}
