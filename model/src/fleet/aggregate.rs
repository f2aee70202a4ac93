//! The pure aggregation: reports, configured cells and now in, the fleet view out.

use std::collections::{BTreeMap, BTreeSet};

use super::mention::{Mention, cause, override_in_force, scope};
use super::record::{AgentRecord, AgentState, FreshWindows, agent_state, reports_freshly};
use super::view::{
    AdvisoryView, AgentCell, AgentCellState, CellAgents, CellView, FleetAgents, FleetView,
    GatewayCells, ViewQuery, ViewState,
};
use crate::ids::{CellName, GatewayName, LaneName, PoolName, ProviderName};
use crate::report::CellState;

/// Aggregates the latest reports of all agents.
///
/// Only agents that report freshly say anything about a cell. Reports are level-triggered, so a cell
/// that such an agent does not mention is closed there, provided that its revision has the cell.
/// Agents that are silent count as `stale`, and agents that are gone count nowhere.
pub fn fleet_view(
    records: &[AgentRecord],
    gateways: &[GatewayCells],
    query: &ViewQuery,
    now_ms: u64,
    windows: FreshWindows,
) -> FleetView {
    let mut views: BTreeMap<&GatewayName, GatewayReports<'_>> = BTreeMap::new();
    for cells in gateways {
        views.entry(&cells.name).or_default().add_revision(cells);
    }
    for record in records {
        let reports = views.entry(&record.gateway).or_default();
        if reports_freshly(record, now_ms, windows) {
            *reports
                .fresh_by_revision
                .entry(record.applied_revision)
                .or_default() += 1;
            reports.fresh.push(record);
        } else if agent_state(record, now_ms, windows) != AgentState::Gone {
            reports.silent.push(record);
        }
    }
    if let Some(only) = &query.gateway {
        views.retain(|name, _| *name == only);
    }

    let mut agents = FleetAgents::default();
    let mut cells = Vec::new();
    for (name, reports) in &mut views {
        reports.sort();
        agents.live += reports.fresh.len() as u64;
        agents.stale += reports.silent.len() as u64;
        cells.extend(reports.cell_views(name, query, now_ms));
    }
    FleetView {
        generated_at: rfc3339(now_ms),
        fresh_window_secs: windows.stale_after_ms / 1000,
        partial: false,
        agents,
        cells,
    }
}

/// Names one cell within a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    pool: &'a PoolName,
    lane: &'a LaneName,
    endpoint: Option<&'a str>,
}

/// The configured cells of a revision, by pool and lane.
type Configured<'a> = BTreeSet<(&'a PoolName, &'a LaneName)>;

/// All reports of one gateway.
#[derive(Default)]
struct GatewayReports<'a> {
    current: Option<&'a GatewayCells>,
    revisions: BTreeMap<u64, Configured<'a>>,
    fresh: Vec<&'a AgentRecord>,
    /// How many of the fresh agents serve each revision.
    fresh_by_revision: BTreeMap<u64, u64>,
    silent: Vec<&'a AgentRecord>,
}

impl<'a> GatewayReports<'a> {
    fn add_revision(&mut self, cells: &'a GatewayCells) {
        let configured = cells.cells.iter().map(|cell| (&cell.pool, &cell.lane));
        self.revisions
            .entry(cells.revision)
            .or_default()
            .extend(configured);
        if self.current.is_none_or(|it| it.revision < cells.revision) {
            self.current = Some(cells);
        }
    }

    /// Makes the result independent of the order the records came in.
    fn sort(&mut self) {
        let by_name = |a: &&AgentRecord, b: &&AgentRecord| {
            (&a.name, &a.instance, a.session_epoch).cmp(&(&b.name, &b.instance, b.session_epoch))
        };
        self.fresh.sort_by(by_name);
        self.silent.sort_by(by_name);
    }

    /// True when agents on a revision have the cell, as far as the revision is known.
    fn has_cell(&self, revision: u64, key: Key<'_>) -> bool {
        revision != 0
            && self
                .revisions
                .get(&revision)
                .is_none_or(|configured| configured.contains(&(key.pool, key.lane)))
    }

    /// Mentions by cell, one for each agent at most: of doubled cells in a report the worst stays.
    /// A plainly closed mention says no more than none, so dense and sparse reports count alike.
    fn mentions(&self) -> BTreeMap<Key<'a>, Vec<Mention<'a>>> {
        let mut mentions: BTreeMap<Key<'a>, Vec<Mention<'a>>> = BTreeMap::new();
        for record in &self.fresh {
            for cell in record.cells.iter().filter(|cell| cell.is_notable()) {
                let key = Key {
                    pool: &cell.pool,
                    lane: &cell.lane,
                    endpoint: cell.endpoint.as_deref(),
                };
                let of_cell = mentions.entry(key).or_default();
                match of_cell.last_mut() {
                    Some(last) if std::ptr::eq(last.record, *record) => {
                        if cell.state > last.cell.state {
                            last.cell = cell;
                        }
                    }
                    Some(_) | None => of_cell.push(Mention { record, cell }),
                }
            }
        }
        mentions
    }

    fn cell_views(&self, gateway: &GatewayName, query: &ViewQuery, now_ms: u64) -> Vec<CellView> {
        let mut mentions = self.mentions();
        let closed_too = query.include_closed
            || matches!(query.state, Some(ViewState::Closed | ViewState::Unknown));
        let mut providers: BTreeMap<(&PoolName, &LaneName), &ProviderName> = BTreeMap::new();
        for cell in self.current.into_iter().flat_map(|current| &current.cells) {
            let CellName {
                pool,
                lane,
                provider,
            } = cell;
            providers.insert((pool, lane), provider);
            if closed_too {
                let key = Key {
                    pool,
                    lane,
                    endpoint: None,
                };
                // A cell kept for each endpoint has no row without one.
                let by_endpoint = mentions
                    .range(key..)
                    .next()
                    .is_some_and(|(next, _)| next.pool == pool && next.lane == lane);
                if !by_endpoint {
                    mentions.insert(key, Vec::new());
                }
            }
        }

        mentions
            .into_iter()
            .filter_map(|(key, of_cell)| {
                let provider = match providers.get(&(key.pool, key.lane)) {
                    Some(provider) => provider,
                    None => &of_cell.first()?.cell.provider,
                };
                let wanted = query.pool.as_ref().is_none_or(|it| it == key.pool)
                    && query.lane.as_ref().is_none_or(|it| it == key.lane)
                    && query.provider.as_ref().is_none_or(|it| it == provider);
                if !wanted {
                    return None;
                }
                let view = self.cell_view(gateway, key, provider, &of_cell, query, now_ms);
                query
                    .state
                    .is_none_or(|state| state == view.state)
                    .then_some(view)
            })
            .collect()
    }

    fn cell_view(
        &self,
        gateway: &GatewayName,
        key: Key<'a>,
        provider: &ProviderName,
        mentions: &[Mention<'a>],
        query: &ViewQuery,
        now_ms: u64,
    ) -> CellView {
        let agents = self.count(key, mentions, now_ms);
        let affected: Vec<Mention<'a>> = mentions
            .iter()
            .filter(|mention| mention.cell.state != CellState::Closed)
            .copied()
            .collect();
        let state = worst(&agents);
        let touched = match agents.open + agents.half_open {
            0 => agents.parked,
            more => more,
        };
        let longest_ms = affected
            .iter()
            .map(|mention| mention.open_age_ms(now_ms))
            .max();
        let soonest_ms = affected
            .iter()
            .filter(|mention| mention.cell.state == CellState::Open)
            .map(|mention| mention.cooldown_ms(now_ms))
            .min();
        CellView {
            gateway: gateway.clone(),
            pool: key.pool.clone(),
            lane: key.lane.clone(),
            provider: provider.clone(),
            endpoint: key.endpoint.map(str::to_owned),
            state,
            scope: scope(touched, self.fresh.len() as u64),
            agents,
            cause: cause(if affected.is_empty() {
                mentions
            } else {
                &affected
            }),
            opened_for_secs: longest_ms.map(secs),
            flaps: affected
                .iter()
                .map(|mention| u64::from(mention.cell.reopens))
                .max()
                .unwrap_or(0),
            next_probe_in_secs: soonest_ms.map(secs),
            trips: mentions
                .iter()
                .fold(0, |sum, mention| mention.cell.trips.saturating_add(sum)),
            override_: override_in_force(mentions),
            advisory: mentions
                .iter()
                .any(|mention| mention.cell.advisory)
                .then_some(AdvisoryView {
                    active: true,
                    expires_in_secs: None,
                }),
            by_agent: query
                .detail_agents
                .then(|| self.by_agent(key, mentions, now_ms)),
        }
    }

    fn count(&self, key: Key<'_>, mentions: &[Mention<'_>], now_ms: u64) -> CellAgents {
        let mut agents = CellAgents::default();
        for mention in mentions {
            match mention.cell.state {
                CellState::Closed => agents.closed += 1,
                CellState::HalfOpen => agents.half_open += 1,
                CellState::Open => agents.open += 1,
            }
            agents.parked += u64::from(mention.is_parked(now_ms));
            agents.overridden += u64::from(mention.cell.override_action.is_some());
        }
        let covered: u64 = self
            .fresh_by_revision
            .iter()
            .filter(|(revision, _)| self.has_cell(**revision, key))
            .map(|(_, agents)| *agents)
            .sum();
        let heard = mentions
            .iter()
            .filter(|mention| self.has_cell(mention.record.applied_revision, key))
            .count() as u64;
        agents.closed += covered.saturating_sub(heard);
        agents.reporting = agents.closed + agents.half_open + agents.open;
        agents.stale = self.silent.len() as u64;
        agents
    }

    fn by_agent(&self, key: Key<'_>, mentions: &[Mention<'_>], now_ms: u64) -> Vec<AgentCell> {
        let reported = mentions.iter().map(|mention| AgentCell {
            agent: mention.record.name.clone(),
            instance: mention.record.instance.clone(),
            state: match mention.cell.state {
                CellState::Closed => AgentCellState::Closed,
                CellState::HalfOpen => AgentCellState::HalfOpen,
                CellState::Open => AgentCellState::Open,
            },
            age_secs: secs(mention.age_ms(now_ms)),
            cooldown_remaining_secs: secs(mention.cooldown_ms(now_ms)),
        });
        let silent = self
            .silent
            .iter()
            .filter(|record| self.has_cell(record.applied_revision, key))
            .map(|record| AgentCell {
                agent: record.name.clone(),
                instance: record.instance.clone(),
                state: AgentCellState::Stale,
                age_secs: secs(now_ms.saturating_sub(record.last_sign_ms())),
                cooldown_remaining_secs: 0.0,
            });
        reported.chain(silent).collect()
    }
}

/// The worst state over the agents that were counted.
pub(super) fn worst(agents: &CellAgents) -> ViewState {
    match (agents.reporting, agents.open, agents.half_open) {
        (_, 1.., _) => ViewState::Open,
        (_, 0, 1..) => ViewState::HalfOpen,
        (1.., 0, 0) => ViewState::Closed,
        (0, 0, 0) => ViewState::Unknown,
    }
}

/// Milliseconds as the API's seconds.
pub(super) fn secs(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// Unix milliseconds as RFC 3339 in UTC; a time past the calendar's end is the end of year 9999.
pub(super) fn rfc3339(unix_ms: u64) -> String {
    use time::format_description::well_known::Rfc3339;

    let nanos = i128::from(unix_ms).saturating_mul(1_000_000);
    time::OffsetDateTime::from_unix_timestamp_nanos(nanos)
        .ok()
        .and_then(|moment| moment.format(&Rfc3339).ok())
        .unwrap_or_else(|| "9999-12-31T23:59:59Z".to_owned())
}
