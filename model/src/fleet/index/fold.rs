//! One pass over the packed mentions of all agents, and the finished rows that come of it.

use std::collections::{BTreeMap, BTreeSet};

use super::folded::{FoldedFleet, FoldedGateway, Row};
use super::pools::PoolSums;
use super::sum::Sum;
use super::{FleetIndex, GatewayIndex};
use crate::fleet::record::{AgentState, FreshWindows, agent_state, reports_freshly};
use crate::fleet::times::secs;
use crate::fleet::view::{
    AdvisoryView, CellView, FleetAgents, FleetView, Scope, ViewQuery, ViewState,
};
use crate::ids::{CellOwner, GatewayName};

impl FleetIndex {
    /// Puts the fleet together as of now.
    pub fn fold(&self, now_ms: u64, windows: FreshWindows) -> FoldedFleet {
        self.fold_only(None, now_ms, windows)
    }

    fn fold_only(
        &self,
        only: Option<&GatewayName>,
        now_ms: u64,
        windows: FreshWindows,
    ) -> FoldedFleet {
        FoldedFleet {
            now_ms,
            windows,
            gateways: self
                .gateways
                .iter()
                .filter(|(name, _)| only.is_none_or(|only| *name == only))
                .map(|(name, gateway)| (name.clone(), gateway.fold(name, now_ms, windows)))
                .collect(),
        }
    }

    /// The view as of now: the fold of the gateways asked for, with agents' details when they are wanted.
    pub fn view(&self, query: &ViewQuery, now_ms: u64, windows: FreshWindows) -> FleetView {
        let folded = self.fold_only(query.gateway.as_ref(), now_ms, windows);
        let mut view = folded.view(query);
        if query.detail_agents {
            self.add_agents(&mut view, &folded);
        }
        view
    }
}

impl GatewayIndex {
    fn fold(&self, name: &GatewayName, now_ms: u64, windows: FreshWindows) -> FoldedGateway {
        let mut folded = FoldedGateway {
            is_configured: self.configured.current.is_some(),
            ..FoldedGateway::default()
        };
        let mut sums: Vec<Sum<'_>> = Vec::new();
        sums.resize_with(self.cells.len(), Sum::default);
        let mut pool_sums = PoolSums::new(self);
        let mut by_revision = ByRevision::default();
        for agent in self.agents.values() {
            let record = &*agent.record;
            let state = agent_state(record, now_ms, windows);
            *match state {
                AgentState::Live => &mut folded.states.live,
                AgentState::Draining => &mut folded.states.draining,
                AgentState::Stale => &mut folded.states.stale,
                AgentState::Gone => &mut folded.states.gone,
            } += 1;
            if !reports_freshly(record, now_ms, windows) {
                folded.agents.stale += u64::from(state != AgentState::Gone);
                if !record.left {
                    *by_revision.lost.entry(record.applied_revision).or_default() += 1;
                }
                continue;
            }
            folded.agents.live += 1;
            *by_revision
                .fresh
                .entry(record.applied_revision)
                .or_default() += 1;
            let has = self.has(record.applied_revision);
            let since_report_ms = record.report_age_ms(now_ms).unwrap_or(0);
            for mention in &agent.mentions {
                if let Some(sum) = sums.get_mut(mention.cell as usize) {
                    sum.add(mention, agent, since_report_ms, has.of(mention.cell));
                }
            }
            pool_sums.add(self, agent);
        }
        folded.lost = by_revision.lost.values().sum();
        folded.rows = self.rows(name, &sums, &pool_sums, &folded.agents, &by_revision);
        self.add_advice(&mut folded.rows, now_ms, windows);
        let stale = folded.agents.stale;
        folded.pools = self.pool_rows(&folded.rows, &pool_sums, stale, &by_revision.fresh);
        folded
    }

    fn rows(
        &self,
        name: &GatewayName,
        sums: &[Sum<'_>],
        pools: &PoolSums,
        fleet: &FleetAgents,
        by_revision: &ByRevision,
    ) -> Vec<Row> {
        // A cell kept for each endpoint has no row without one.
        let by_endpoint: BTreeSet<&CellOwner> = self
            .cells
            .keys()
            .iter()
            .zip(sums)
            .filter(|(_, sum)| sum.is_mentioned())
            .map(|(key, _)| &key.owner)
            .collect();
        let mut rows = Vec::new();
        for (number, (key, sum)) in (0_u32..).zip(self.cells.keys().iter().zip(sums)) {
            let configured = self.configured.providers.get(&key.owner);
            let is_mentioned = sum.is_mentioned();
            let stands_alone =
                key.endpoint.is_none() && configured.is_some() && !by_endpoint.contains(&key.owner);
            if !is_mentioned && !stands_alone {
                continue;
            }
            let Some(provider) = configured.or(sum.provider(&key.owner, key.endpoint.as_deref()))
            else {
                continue;
            };
            let having = |agents: &BTreeMap<u64, u64>| -> u64 {
                { agents.iter() }
                    .filter(|(revision, _)| self.has(**revision).of(number))
                    .map(|(_, agents)| *agents)
                    .sum()
            };
            let covered = having(&by_revision.fresh);
            let mut agents = sum.agents;
            agents.closed += covered.saturating_sub(sum.heard);
            agents.reporting = agents.closed + agents.half_open + agents.open;
            agents.stale = fleet.stale;
            let unusable = self.unusable_of(&key.owner, pools).view();
            let is_unknown = agents.reporting == 0 && having(&by_revision.lost) > 0;
            let touched = match (agents.open + agents.half_open).saturating_sub(agents.forced_open)
            {
                0 => agents.parked,
                more => more,
            };
            let member = key.owner.member();
            rows.push(Row {
                is_listed: is_mentioned || unusable.agents > 0 || is_unknown,
                view: CellView {
                    gateway: name.clone(),
                    pool: member.map(|(pool, _)| pool.clone()),
                    lane: member.map(|(_, lane)| lane.clone()),
                    provider: provider.clone(),
                    endpoint: key.endpoint.clone(),
                    state: ViewState::worst(&agents),
                    scope: Scope::of(touched, fleet.live),
                    agents,
                    unusable,
                    cause: sum.cause(&self.causes),
                    opened_for_secs: sum.longest_ms.map(secs),
                    flaps: sum.flaps,
                    next_probe_in_secs: sum.soonest_ms.map(secs),
                    trips: sum.trips,
                    override_: sum.override_in_force(&self.overrides),
                    advisory: (sum.advised > 0).then_some(AdvisoryView {
                        active: true,
                        agents: sum.advised,
                        spared_attempts: sum.spared,
                        ..AdvisoryView::default()
                    }),
                    by_agent: None,
                },
            });
        }
        rows.sort_by(|a, b| {
            let own = |it: &CellView| it.lane.is_none().then(|| it.provider.clone());
            let (a, b) = (&a.view, &b.view);
            (&a.pool, &a.lane, own(a), &a.endpoint).cmp(&(&b.pool, &b.lane, own(b), &b.endpoint))
        });
        rows
    }

    pub(super) fn has(&self, revision: u64) -> Has<'_> {
        if revision == 0 {
            Has::Nothing
        } else {
            match self.configured.revisions.contains_key(&revision) {
                true => Has::Listed(self.has.get(&revision).map_or(&[], Vec::as_slice)),
                false => Has::Everything,
            }
        }
    }
}

/// How many agents serve each revision.
#[derive(Debug, Default)]
struct ByRevision {
    /// Agents that report freshly.
    fresh: BTreeMap<u64, u64>,
    /// Agents that should and do not.
    lost: BTreeMap<u64, u64>,
}

/// Which cells a revision has, as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum Has<'a> {
    Nothing,
    Listed(&'a [bool]),
    Everything,
}

impl Has<'_> {
    pub(super) fn of(self, cell: u32) -> bool {
        match self {
            Self::Nothing => false,
            Self::Listed(has) => has.get(cell as usize).copied().unwrap_or(false),
            Self::Everything => true,
        }
    }
}
