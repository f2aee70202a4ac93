//! The whole fleet at one moment, and the answers that need no agent's details.

use std::collections::BTreeMap;

use crate::fleet::pool_view::{
    PoolAgents, PoolCounts, PoolMemberView, PoolTrafficView, PoolView, UnusableView, UsableMembers,
};
use crate::fleet::record::FreshWindows;
use crate::fleet::summary::{AgentCounts, Summary, count_cells};
use crate::fleet::times::rfc3339;
use crate::fleet::view::{CellView, FleetAgents, FleetView, ViewQuery, ViewState};
use crate::ids::{GatewayName, LaneName, PoolName, ProviderName};
use crate::traffic::{AttemptCounts, PoolTraffic, ReplicaTraffic};
use crate::usability::Reasons;

/// The whole fleet at one moment: what every query without agents' details is answered from.
#[derive(Debug, Clone, Default)]
pub struct FoldedFleet {
    pub(super) now_ms: u64,
    pub(super) windows: FreshWindows,
    pub(super) gateways: BTreeMap<GatewayName, FoldedGateway>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct FoldedGateway {
    pub(super) is_configured: bool,
    pub(super) agents: FleetAgents,
    pub(super) states: AgentCounts,
    /// Agents that should report and do not, however long they have been silent.
    pub(super) lost: u64,
    pub(super) rows: Vec<Row>,
    pub(super) pools: Vec<PoolRow>,
}

impl FoldedGateway {
    /// Whoever knew something of the gateway is silent.
    fn is_silent(&self) -> bool {
        self.is_configured && self.agents.live == 0 && self.lost > 0
    }
}

/// A pool without its traffic.
#[derive(Debug, Clone)]
pub(super) struct PoolRow {
    pub(super) pool: PoolName,
    pub(super) agents: PoolAgents,
    pub(super) exhausted_reasons: Reasons,
    pub(super) usable_members: Option<UsableMembers>,
    pub(super) members: Vec<PoolMember>,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
}

/// A member of a pool without its traffic.
#[derive(Debug, Clone)]
pub(super) struct PoolMember {
    pub(super) lane: LaneName,
    pub(super) provider: ProviderName,
    pub(super) state: ViewState,
    pub(super) usable_on: u64,
    pub(super) unusable: UnusableView,
}

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) view: CellView,
    /// It is not known to be closed and usable on every agent that should report.
    pub(super) is_listed: bool,
}

impl FoldedFleet {
    /// The view as of the moment of folding, without agents' details.
    pub fn view(&self, query: &ViewQuery) -> FleetView {
        let closed_too = query.include_closed
            || matches!(query.state, Some(ViewState::Closed | ViewState::Unknown));
        let shown = self
            .gateways
            .iter()
            .filter(|(name, _)| query.gateway.as_ref().is_none_or(|only| *name == only));
        let mut agents = FleetAgents::default();
        let mut cells = Vec::new();
        for (_, gateway) in shown {
            agents.live += gateway.agents.live;
            agents.stale += gateway.agents.stale;
            let chosen = gateway.rows.iter().filter(|row| {
                let cell = &row.view;
                (row.is_listed || closed_too)
                    && is_wanted(query.pool.as_ref(), cell.pool.as_ref())
                    && is_wanted(query.lane.as_ref(), cell.lane.as_ref())
                    && query
                        .provider
                        .as_ref()
                        .is_none_or(|it| *it == cell.provider)
                    && query.state.is_none_or(|state| state == cell.state)
            });
            cells.extend(chosen.map(|row| row.view.clone()));
        }
        FleetView {
            generated_at: rfc3339(self.now_ms),
            fresh_window_secs: self.windows.stale_after_ms / 1000,
            partial: false,
            rebuilding: false,
            agents,
            cells,
        }
    }

    /// The pools of one gateway or of all, with the traffic that `heard` tells of. Direct routes are
    /// among them where they serve, and where there is nothing else.
    pub fn pools(&self, only: Option<&GatewayName>, heard: &ReplicaTraffic) -> Vec<PoolView> {
        let none = (PoolTraffic::default(), PoolTraffic::default());
        let mut views = Vec::new();
        for (gateway, folded) in self.chosen(only) {
            let traffic = heard.gateways.get(gateway);
            let has_named = folded.pools.iter().any(|row| !row.pool.is_direct());
            for row in &folded.pools {
                let windows = traffic.and_then(|pools| pools.get(&row.pool));
                let is_used = row.in_flight > 0 || windows.is_some();
                if row.pool.is_direct() && has_named && !is_used {
                    continue;
                }
                let (minute, ten_minutes) = match windows {
                    Some(windows) => (&windows.minute, &windows.ten_minutes),
                    None => (&none.0, &none.1),
                };
                views.push(PoolView {
                    gateway: gateway.clone(),
                    pool: row.pool.clone(),
                    agents: row.agents,
                    exhausted_reasons: row.exhausted_reasons.iter().collect(),
                    usable_members: row.usable_members,
                    members: { row.members.iter() }
                        .map(|member| member.view(minute, ten_minutes))
                        .collect(),
                    in_flight: row.in_flight,
                    queued: row.queued,
                    last_minute: PoolTrafficView::new(minute, heard.minute_ms),
                    last_ten_minutes: PoolTrafficView::new(ten_minutes, heard.ten_minutes_ms),
                });
            }
        }
        views
    }

    fn chosen<'a>(
        &'a self,
        only: Option<&'a GatewayName>,
    ) -> impl Iterator<Item = (&'a GatewayName, &'a FoldedGateway)> {
        self.gateways
            .iter()
            .filter(move |(name, _)| only.is_none_or(|only| *name == only))
    }

    /// One gateway, or the whole fleet, in a few numbers.
    pub fn summary(&self, only: Option<&GatewayName>) -> Summary {
        let mut summary = Summary::default();
        for (_, gateway) in self.chosen(only) {
            summary.gateways += u64::from(gateway.is_configured);
            summary.agents.live += gateway.states.live;
            summary.agents.draining += gateway.states.draining;
            summary.agents.stale += gateway.states.stale;
            summary.agents.gone += gateway.states.gone;
            count_cells(&mut summary.cells, gateway.rows.iter().map(|row| &row.view));
            count_pools(&mut summary.pools, &gateway.pools);
            summary.silent_gateways += u64::from(gateway.is_silent());
        }
        summary.count_incidents();
        summary
    }

    /// Agents of one gateway by state.
    pub fn agents(&self, gateway: &str) -> AgentCounts {
        self.gateways
            .get(gateway)
            .map(|gateway| gateway.states)
            .unwrap_or_default()
    }
}

impl PoolMember {
    fn view(&self, minute: &PoolTraffic, ten_minutes: &PoolTraffic) -> PoolMemberView {
        let of = |traffic: &PoolTraffic| {
            let mut attempts = traffic.attempts.iter();
            let found = attempts.find(|(lane, _)| *lane == self.lane);
            found.map_or(AttemptCounts::default(), |(_, counts)| *counts)
        };
        let all: u64 = { minute.attempts.iter() }
            .map(|(_, counts)| counts.sum())
            .fold(0, u64::saturating_add);
        let last_minute = of(minute);
        PoolMemberView {
            lane: self.lane.clone(),
            provider: self.provider.clone(),
            state: self.state,
            usable_on: self.usable_on,
            unusable: self.unusable.clone(),
            traffic_share: (all > 0).then(|| last_minute.sum() as f64 / all as f64),
            last_minute,
            last_ten_minutes: of(ten_minutes),
        }
    }
}

fn count_pools(counts: &mut PoolCounts, pools: &[PoolRow]) {
    // Where there are no pools, callers address lanes, and all of them together count as one.
    let has_named = pools.iter().any(|row| !row.pool.is_direct());
    let counted = pools
        .iter()
        .filter(|row| !has_named || !row.pool.is_direct());
    for row in counted {
        counts.total += 1;
        match row.agents {
            PoolAgents {
                exhausted_on: 1.., ..
            } => counts.exhausted += 1,
            PoolAgents {
                impaired_on: 1.., ..
            } => counts.impaired += 1,
            PoolAgents { reporting: 0, .. } => counts.unknown += 1,
            PoolAgents { .. } => {}
        }
    }
}

/// True when nothing is asked for, or what the cell has: a provider's own cell has neither pool nor
/// lane.
fn is_wanted<T: PartialEq>(asked: Option<&T>, has: Option<&T>) -> bool {
    asked.is_none() || asked == has
}
