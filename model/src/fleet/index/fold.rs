//! One pass over the packed mentions of all agents, and the finished rows that come of it.

use std::collections::{BTreeMap, BTreeSet};

use super::packed::{Causes, Mention, Names};
use super::{Agent, FleetIndex, GatewayIndex};
use crate::fleet::aggregate::{rfc3339, secs, worst};
use crate::fleet::mention::scope;
use crate::fleet::record::{AgentState, FreshWindows, agent_state, reports_freshly};
use crate::fleet::summary::{AgentCounts, Summary, count_cells};
use crate::fleet::view::{
    AdvisoryView, AgentCell, AgentCellState, CauseView, CellAgents, CellView, FleetAgents,
    FleetView, OverrideView, ViewQuery, ViewState,
};
use crate::ids::{GatewayName, ProviderName};
use crate::report::CellState;

/// The whole fleet at one moment: what every query without agents' details is answered from.
#[derive(Debug, Clone, Default)]
pub struct FoldedFleet {
    now_ms: u64,
    windows: FreshWindows,
    gateways: BTreeMap<GatewayName, FoldedGateway>,
}

#[derive(Debug, Clone, Default)]
struct FoldedGateway {
    is_configured: bool,
    agents: FleetAgents,
    states: AgentCounts,
    rows: Vec<Row>,
}

#[derive(Debug, Clone)]
struct Row {
    view: CellView,
    /// Some agent says something other than plainly closed.
    is_mentioned: bool,
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
                (row.is_mentioned || closed_too)
                    && query.pool.as_ref().is_none_or(|it| *it == cell.pool)
                    && query.lane.as_ref().is_none_or(|it| *it == cell.lane)
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
            agents,
            cells,
        }
    }

    /// The fleet in a few numbers.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for gateway in self.gateways.values() {
            summary.gateways += u64::from(gateway.is_configured);
            summary.agents.live += gateway.states.live;
            summary.agents.draining += gateway.states.draining;
            summary.agents.stale += gateway.states.stale;
            summary.agents.gone += gateway.states.gone;
            count_cells(&mut summary.cells, gateway.rows.iter().map(|row| &row.view));
        }
        summary.incidents = summary.cells.open + summary.cells.half_open;
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

    /// Adds each agent's own word to the cells of a view of `folded`.
    pub fn add_agents(&self, view: &mut FleetView, folded: &FoldedFleet) {
        let mut wanted: BTreeMap<GatewayName, BTreeMap<u32, Vec<AgentCell>>> = BTreeMap::new();
        for cell in &view.cells {
            let number = self.gateways.get(&cell.gateway).and_then(|gateway| {
                let cells = &gateway.cells;
                cells.find(&cell.pool, &cell.lane, cell.endpoint.as_deref())
            });
            if let Some(number) = number {
                let of_gateway = wanted.entry(cell.gateway.clone()).or_default();
                of_gateway.insert(number, Vec::new());
            }
        }
        for (name, rows) in &mut wanted {
            if let Some(gateway) = self.gateways.get(name) {
                gateway.add_mentions(rows, folded.now_ms, folded.windows);
            }
        }
        for cell in &mut view.cells {
            let Some(gateway) = self.gateways.get(&cell.gateway) else {
                cell.by_agent = Some(Vec::new());
                continue;
            };
            let number = gateway
                .cells
                .find(&cell.pool, &cell.lane, cell.endpoint.as_deref());
            let rows = wanted.get_mut(&cell.gateway);
            let mut agents = number
                .zip(rows)
                .and_then(|(number, rows)| rows.remove(&number))
                .unwrap_or_default();
            agents.extend(gateway.silent(number, folded.now_ms, folded.windows));
            cell.by_agent = Some(agents);
        }
    }

    /// The view as of now: what [`crate::fleet::fleet_view`] says of the same records.
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
        let mut fresh_by_revision: BTreeMap<u64, u64> = BTreeMap::new();
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
                continue;
            }
            folded.agents.live += 1;
            *fresh_by_revision
                .entry(record.applied_revision)
                .or_default() += 1;
            let has = self.has(record.applied_revision);
            let since_report_ms = record.report_age_ms(now_ms).unwrap_or(0);
            for mention in &agent.mentions {
                if let Some(sum) = sums.get_mut(mention.cell as usize) {
                    sum.add(mention, agent, since_report_ms, has.of(mention.cell));
                }
            }
        }
        folded.rows = self.rows(name, &sums, &folded.agents, &fresh_by_revision);
        folded
    }

    fn rows(
        &self,
        name: &GatewayName,
        sums: &[Sum<'_>],
        fleet: &FleetAgents,
        fresh_by_revision: &BTreeMap<u64, u64>,
    ) -> Vec<Row> {
        // A cell kept for each endpoint has no row without one.
        let by_endpoint: BTreeSet<(&str, &str)> = self
            .cells
            .keys()
            .iter()
            .zip(sums)
            .filter(|(_, sum)| sum.is_mentioned())
            .map(|(key, _)| (key.pool.as_str(), key.lane.as_str()))
            .collect();
        let mut rows = Vec::new();
        for (number, (key, sum)) in (0_u32..).zip(self.cells.keys().iter().zip(sums)) {
            let configured = self.configured.provider(&key.pool, &key.lane);
            let is_mentioned = sum.is_mentioned();
            let stands_alone = key.endpoint.is_none()
                && configured.is_some()
                && !by_endpoint.contains(&(key.pool.as_str(), key.lane.as_str()));
            if !is_mentioned && !stands_alone {
                continue;
            }
            let Some(provider) =
                configured.or(sum.provider(&key.pool, &key.lane, key.endpoint.as_deref()))
            else {
                continue;
            };
            let covered: u64 = fresh_by_revision
                .iter()
                .filter(|(revision, _)| self.has(**revision).of(number))
                .map(|(_, agents)| *agents)
                .sum();
            let mut agents = sum.agents;
            agents.closed += covered.saturating_sub(sum.heard);
            agents.reporting = agents.closed + agents.half_open + agents.open;
            agents.stale = fleet.stale;
            let touched = match agents.open + agents.half_open {
                0 => agents.parked,
                more => more,
            };
            rows.push(Row {
                is_mentioned,
                view: CellView {
                    gateway: name.clone(),
                    pool: key.pool.clone(),
                    lane: key.lane.clone(),
                    provider: provider.clone(),
                    endpoint: key.endpoint.clone(),
                    state: worst(&agents),
                    scope: scope(touched, fleet.live),
                    agents,
                    cause: sum.cause(&self.causes),
                    opened_for_secs: sum.longest_ms.map(secs),
                    flaps: sum.flaps,
                    next_probe_in_secs: sum.soonest_ms.map(secs),
                    trips: sum.trips,
                    override_: sum.override_in_force(&self.overrides),
                    advisory: sum.advisory.then_some(AdvisoryView {
                        active: true,
                        expires_in_secs: None,
                    }),
                    by_agent: None,
                },
            });
        }
        rows.sort_by(|a, b| {
            let (a, b) = (&a.view, &b.view);
            (&a.pool, &a.lane, &a.endpoint).cmp(&(&b.pool, &b.lane, &b.endpoint))
        });
        rows
    }

    fn has(&self, revision: u64) -> Has<'_> {
        if revision == 0 {
            Has::Nothing
        } else {
            match self.configured.revisions.contains_key(&revision) {
                true => Has::Listed(self.has.get(&revision).map_or(&[], Vec::as_slice)),
                false => Has::Everything,
            }
        }
    }

    /// Adds what fresh agents say of the cells in `rows`, in the agents' order.
    fn add_mentions(
        &self,
        rows: &mut BTreeMap<u32, Vec<AgentCell>>,
        now_ms: u64,
        windows: FreshWindows,
    ) {
        for agent in self.agents.values() {
            if !reports_freshly(&agent.record, now_ms, windows) {
                continue;
            }
            let since_report_ms = agent.record.report_age_ms(now_ms).unwrap_or(0);
            for mention in &agent.mentions {
                let Some(row) = rows.get_mut(&mention.cell) else {
                    continue;
                };
                row.push(AgentCell {
                    agent: agent.record.name.clone(),
                    instance: agent.record.instance.clone(),
                    state: match mention.state {
                        CellState::Closed => AgentCellState::Closed,
                        CellState::HalfOpen => AgentCellState::HalfOpen,
                        CellState::Open => AgentCellState::Open,
                    },
                    age_secs: secs(mention.age_ms(since_report_ms)),
                    cooldown_remaining_secs: secs(mention.cooldown_ms(since_report_ms)),
                });
            }
        }
    }

    /// The silent agents that have a cell, in the agents' order.
    fn silent(
        &self,
        cell: Option<u32>,
        now_ms: u64,
        windows: FreshWindows,
    ) -> impl Iterator<Item = AgentCell> {
        self.agents
            .values()
            .map(|agent| &agent.record)
            .filter(move |record| {
                !reports_freshly(record, now_ms, windows)
                    && agent_state(record, now_ms, windows) != AgentState::Gone
            })
            .filter(move |record| {
                let has = self.has(record.applied_revision);
                cell.is_some_and(|cell| has.of(cell))
            })
            .map(move |record| AgentCell {
                agent: record.name.clone(),
                instance: record.instance.clone(),
                state: AgentCellState::Stale,
                age_secs: secs(now_ms.saturating_sub(record.last_sign_ms())),
                cooldown_remaining_secs: 0.0,
            })
    }
}

/// Which cells a revision has, as far as it is known.
#[derive(Clone, Copy)]
enum Has<'a> {
    Nothing,
    Listed(&'a [bool]),
    Everything,
}

impl Has<'_> {
    fn of(self, cell: u32) -> bool {
        match self {
            Self::Nothing => false,
            Self::Listed(has) => has.get(cell as usize).copied().unwrap_or(false),
            Self::Everything => true,
        }
    }
}

/// What all fresh agents say about one cell.
#[derive(Default)]
struct Sum<'a> {
    /// But for those that do not mention it.
    agents: CellAgents,
    /// Agents that mention it and whose revision has it.
    heard: u64,
    trips: u64,
    flaps: u64,
    longest_ms: Option<u64>,
    soonest_ms: Option<u64>,
    advisory: bool,
    /// Causes of agents that have it open or half-open, and of the others.
    troubled: Counts,
    calm: Counts,
    overrides: Counts,
    /// The first agent in order that mentions it.
    first: Option<&'a Agent>,
}

/// How often by number.
#[derive(Default)]
struct Counts(Vec<(u32, u64)>);

impl Counts {
    fn add(&mut self, number: u32, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == number) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.0.push((number, count)),
        }
    }

    /// The most frequent one; its name decides a tie.
    fn most<N: Ord>(&self, name: impl Fn(u32) -> Option<N>) -> Option<(N, u64)> {
        self.0
            .iter()
            .filter_map(|(number, count)| Some((*count, name(*number)?)))
            .max()
            .map(|(count, name)| (name, count))
    }
}

impl<'a> Sum<'a> {
    fn is_mentioned(&self) -> bool {
        self.first.is_some()
    }

    fn add(&mut self, mention: &Mention, agent: &'a Agent, since_report_ms: u64, has: bool) {
        self.first.get_or_insert(agent);
        let is_troubled = mention.state != CellState::Closed;
        *match mention.state {
            CellState::Closed => &mut self.agents.closed,
            CellState::HalfOpen => &mut self.agents.half_open,
            CellState::Open => &mut self.agents.open,
        } += 1;
        self.agents.parked += u64::from(mention.is_parked(since_report_ms));
        self.agents.overridden += u64::from(mention.override_.is_some());
        self.heard += u64::from(has);
        self.trips = self.trips.saturating_add(mention.trips);
        self.advisory |= mention.advisory;
        if is_troubled {
            self.flaps = self.flaps.max(u64::from(mention.reopens));
            let age_ms = mention.not_closed_for_ms(since_report_ms);
            self.longest_ms = self.longest_ms.max(Some(age_ms));
        }
        if mention.state == CellState::Open {
            let left_ms = mention.cooldown_ms(since_report_ms);
            self.soonest_ms = Some(
                self.soonest_ms
                    .map_or(left_ms, |soonest| soonest.min(left_ms)),
            );
        }
        if let Some(cause) = mention.cause {
            let causes = if is_troubled {
                &mut self.troubled
            } else {
                &mut self.calm
            };
            causes.add(cause, mention.cause_count);
        }
        if let Some(action) = mention.override_ {
            self.overrides.add(action, 1);
        }
    }

    /// The provider that the first agent names; the cell is in no current revision.
    fn provider(&self, pool: &str, lane: &str, endpoint: Option<&str>) -> Option<&'a ProviderName> {
        let mut worst = None;
        for cell in &self.first?.record.cells {
            let is_it = *cell.pool == *pool
                && *cell.lane == *lane
                && cell.endpoint.as_deref() == endpoint
                && cell.is_notable();
            if is_it && worst.is_none_or(|(state, _)| cell.state > state) {
                worst = Some((cell.state, &cell.provider));
            }
        }
        worst.map(|(_, provider)| provider)
    }

    fn cause(&self, causes: &Causes) -> Option<CauseView> {
        let is_troubled = self.agents.open + self.agents.half_open > 0;
        let counts = if is_troubled {
            &self.troubled
        } else {
            &self.calm
        };
        counts
            .most(|number| causes.get(number))
            .map(|((kind, status), count)| CauseView {
                kind: kind.clone(),
                status: *status,
                count,
            })
    }

    fn override_in_force(&self, names: &Names) -> Option<OverrideView> {
        self.overrides
            .most(|number| names.get(number))
            .map(|(action, agents)| OverrideView {
                action: action.clone(),
                agents,
                ..OverrideView::default()
            })
    }
}
