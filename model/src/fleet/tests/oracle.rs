//! The fleet view in its plainest form: every report read anew for every question. The index, which
//! answers in production, is held to it.

use std::collections::{BTreeMap, BTreeSet};

use crate::fleet::record::{AgentRecord, AgentState, FreshWindows, agent_state, reports_freshly};
use crate::fleet::summary::{AgentCounts, CellCounts, Summary, count_cells};
use crate::fleet::times::{rfc3339, secs};
use crate::fleet::view::{
    AdvisoryView, AgentCell, AgentCellState, CauseView, CellAgents, CellView, FleetAgents,
    FleetView, GatewayCells, OverrideView, Scope, ViewQuery, ViewState,
};
use crate::ids::{CellOwner, GatewayName, ProviderName};
use crate::report::{CellReport, CellState};

/// Aggregates the latest reports of all agents.
///
/// Only agents that report freshly count for a cell. Reports are level-triggered, so a cell
/// that such an agent does not mention is closed there, provided that its revision has the cell.
/// Agents that are silent count as `stale`, and agents that are gone count nowhere.
pub(crate) fn fleet_view(
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    owner: CellOwner,
    endpoint: Option<&'a str>,
}

/// The configured cells of a revision.
type Configured = BTreeSet<CellOwner>;

/// All reports of one gateway.
#[derive(Default)]
struct GatewayReports<'a> {
    current: Option<&'a GatewayCells>,
    revisions: BTreeMap<u64, Configured>,
    fresh: Vec<&'a AgentRecord>,
    /// How many of the fresh agents serve each revision.
    fresh_by_revision: BTreeMap<u64, u64>,
    silent: Vec<&'a AgentRecord>,
}

impl<'a> GatewayReports<'a> {
    fn add_revision(&mut self, cells: &'a GatewayCells) {
        let configured = cells.cells.iter().map(|cell| cell.owner());
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
    fn has_cell(&self, revision: u64, owner: &CellOwner) -> bool {
        revision != 0
            && self
                .revisions
                .get(&revision)
                .is_none_or(|configured| configured.contains(owner))
    }

    /// Mentions by cell, one for each agent at most: of doubled cells in a report the worst stays.
    /// A plainly closed mention means no more than none, so dense and sparse reports count alike.
    fn mentions(&self) -> BTreeMap<Key<'a>, Vec<Mention<'a>>> {
        let mut mentions: BTreeMap<Key<'a>, Vec<Mention<'a>>> = BTreeMap::new();
        for record in &self.fresh {
            for cell in record.cells.iter().filter(|cell| cell.is_notable()) {
                let key = Key {
                    owner: cell.owner(),
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
        let mut providers: BTreeMap<CellOwner, &ProviderName> = BTreeMap::new();
        for cell in self.current.into_iter().flat_map(|current| &current.cells) {
            let owner = cell.owner();
            providers.insert(owner.clone(), &cell.provider);
            if closed_too {
                let key = Key {
                    owner: owner.clone(),
                    endpoint: None,
                };
                // A cell kept for each endpoint has no row without one.
                let by_endpoint = mentions
                    .range(key.clone()..)
                    .next()
                    .is_some_and(|(next, _)| next.owner == owner);
                if !by_endpoint {
                    mentions.insert(key, Vec::new());
                }
            }
        }

        mentions
            .into_iter()
            .filter_map(|(key, of_cell)| {
                let provider = match providers.get(&key.owner) {
                    Some(provider) => provider,
                    None => &of_cell.first()?.cell.provider,
                };
                let member = key.owner.member();
                let pool_wanted = query
                    .pool
                    .as_ref()
                    .is_none_or(|it| member.is_some_and(|(pool, _)| it == pool));
                let lane_wanted = query
                    .lane
                    .as_ref()
                    .is_none_or(|it| member.is_some_and(|(_, lane)| it == lane));
                let wanted = pool_wanted
                    && lane_wanted
                    && query.provider.as_ref().is_none_or(|it| it == provider);
                if !wanted {
                    return None;
                }
                let view = self.cell_view(gateway, &key, provider, &of_cell, query, now_ms);
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
        key: &Key<'a>,
        provider: &ProviderName,
        mentions: &[Mention<'a>],
        query: &ViewQuery,
        now_ms: u64,
    ) -> CellView {
        let agents = self.count(&key.owner, mentions, now_ms);
        let affected: Vec<Mention<'a>> = mentions
            .iter()
            .filter(|mention| mention.cell.state != CellState::Closed)
            .copied()
            .collect();
        let state = ViewState::worst(&agents);
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
            pool: key.owner.member().map(|(pool, _)| pool.clone()),
            lane: key.owner.member().map(|(_, lane)| lane.clone()),
            provider: provider.clone(),
            endpoint: key.endpoint.map(str::to_owned),
            state,
            scope: Scope::of(touched, self.fresh.len() as u64),
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
                .then(|| self.by_agent(&key.owner, mentions, now_ms)),
        }
    }

    fn count(&self, owner: &CellOwner, mentions: &[Mention<'_>], now_ms: u64) -> CellAgents {
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
            .filter(|(revision, _)| self.has_cell(**revision, owner))
            .map(|(_, agents)| *agents)
            .sum();
        let heard = mentions
            .iter()
            .filter(|mention| self.has_cell(mention.record.applied_revision, owner))
            .count() as u64;
        agents.closed += covered.saturating_sub(heard);
        agents.reporting = agents.closed + agents.half_open + agents.open;
        agents.stale = self.silent.len() as u64;
        agents
    }

    fn by_agent(&self, owner: &CellOwner, mentions: &[Mention<'_>], now_ms: u64) -> Vec<AgentCell> {
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
            .filter(|record| self.has_cell(record.applied_revision, owner))
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

/// What one agent reports of one cell. Ages grow and remainders shrink by the time since the
/// report.
#[derive(Clone, Copy)]
struct Mention<'a> {
    record: &'a AgentRecord,
    cell: &'a CellReport,
}

impl Mention<'_> {
    fn is_parked(&self, now_ms: u64) -> bool {
        self.cell.state == CellState::Closed
            && self.cell.parked_remaining_ms > self.since_report_ms(now_ms)
    }

    /// Milliseconds in the present state.
    fn age_ms(&self, now_ms: u64) -> u64 {
        self.cell
            .state_age_ms
            .saturating_add(self.since_report_ms(now_ms))
    }

    /// Milliseconds since the cell was last closed. An agent that does not report it knows the age
    /// of the state at least.
    fn open_age_ms(&self, now_ms: u64) -> u64 {
        self.cell
            .open_age_ms
            .saturating_add(self.since_report_ms(now_ms))
            .max(self.age_ms(now_ms))
    }

    /// Milliseconds until a probe may go.
    fn cooldown_ms(&self, now_ms: u64) -> u64 {
        self.cell
            .cooldown_remaining_ms
            .saturating_sub(self.since_report_ms(now_ms))
    }

    fn since_report_ms(&self, now_ms: u64) -> u64 {
        self.record.report_age_ms(now_ms).unwrap_or(0)
    }
}

/// The cause with the largest count over all agents. Kind and status decide a tie, so that replicas
/// agree.
fn cause(mentions: &[Mention<'_>]) -> Option<CauseView> {
    let mut counts: BTreeMap<(&str, Option<u16>), u64> = BTreeMap::new();
    for cause in mentions.iter().filter_map(|it| it.cell.cause.as_ref()) {
        let count = counts.entry((&cause.kind, cause.status)).or_default();
        *count = count.saturating_add(cause.count);
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|((kind, status), count)| CauseView {
            kind: kind.to_owned(),
            status,
            count,
        })
}

fn override_in_force(mentions: &[Mention<'_>]) -> Option<OverrideView> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for mention in mentions {
        if let Some(action) = &mention.cell.override_action {
            *counts.entry(action).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .max_by_key(|(_, agents)| *agents)
        .map(|(action, agents)| OverrideView {
            action: action.to_owned(),
            agents,
            ..OverrideView::default()
        })
}

/// Counts agents and cells.
pub(crate) fn summary(
    records: &[AgentRecord],
    gateways: &[GatewayCells],
    now_ms: u64,
    windows: FreshWindows,
) -> Summary {
    let mut names: Vec<&str> = gateways.iter().map(|cells| cells.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();

    let mut agents = AgentCounts::default();
    for record in records {
        let count = match agent_state(record, now_ms, windows) {
            AgentState::Live => &mut agents.live,
            AgentState::Draining => &mut agents.draining,
            AgentState::Stale => &mut agents.stale,
            AgentState::Gone => &mut agents.gone,
        };
        *count += 1;
    }

    let query = ViewQuery {
        include_closed: true,
        ..ViewQuery::default()
    };
    let mut cells = CellCounts::default();
    let view = fleet_view(records, gateways, &query, now_ms, windows);
    count_cells(&mut cells, view.cells.iter());

    Summary {
        gateways: names.len() as u64,
        agents,
        incidents: cells.open + cells.half_open,
        cells,
        partial: false,
    }
}
