//! The fleet view in its plainest form: every report read anew for every question. The index, which
//! answers in production, is held to it.

use std::collections::{BTreeMap, BTreeSet};

use crate::fleet::pool_view::{PoolCounts, UnusableView};
use crate::fleet::record::{AgentRecord, AgentState, FreshWindows, agent_state, reports_freshly};
use crate::fleet::summary::{AgentCounts, CellCounts, Summary, count_cells};
use crate::fleet::times::{rfc3339, secs};
use crate::fleet::view::{
    AdvisoryView, AgentCell, AgentCellState, CauseView, CellAgents, CellView, FleetAgents,
    FleetView, GatewayCells, OverrideView, Scope, ViewQuery, ViewState,
};
use crate::ids::{CellOwner, GatewayName, LaneName, PoolName, ProviderName};
use crate::report::{CellReport, CellState};
use crate::usability::{PoolUsability, Reasons, UnusableReason};

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
        } else {
            if agent_state(record, now_ms, windows) != AgentState::Gone {
                reports.silent.push(record);
            }
            if !record.left {
                reports.lost.push(record);
            }
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
        rebuilding: false,
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
    /// Those that have not said goodbye, however long they have been silent.
    lost: Vec<&'a AgentRecord>,
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
                let mut lost = self.lost.iter();
                let was_known = lost.any(|it| self.has_cell(it.applied_revision, &key.owner));
                let is_unknown = view.agents.reporting == 0 && was_known;
                let listed = !of_cell.is_empty() || view.unusable.agents > 0 || is_unknown;
                if !listed && !closed_too {
                    return None;
                }
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
        let touched = match agents.open + agents.half_open - agents.forced_open {
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
            unusable: self.unusable(&key.owner),
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
            advisory: match mentions.iter().filter(|it| it.cell.advisory).count() {
                0 => None,
                agents => Some(AdvisoryView {
                    active: true,
                    agents: agents as u64,
                    ..AdvisoryView::default()
                }),
            },
            by_agent: query
                .detail_agents
                .then(|| self.by_agent(key, mentions, now_ms)),
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
            agents.forced_open += u64::from(mention.cell.is_forced_open());
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

    fn unusable(&self, owner: &CellOwner) -> UnusableView {
        let mut all = Reasons::NONE;
        let mut agents = 0;
        for record in &self.fresh {
            let reasons = unusable_on(record, owner);
            agents += u64::from(!reasons.is_empty());
            all.add(reasons);
        }
        UnusableView::new(agents, all)
    }

    fn by_agent(&self, key: &Key<'_>, mentions: &[Mention<'_>], now_ms: u64) -> Vec<AgentCell> {
        let owner = &key.owner;
        let reported = self.fresh.iter().filter_map(|record| {
            let mut of_cell = mentions.iter();
            let mention = of_cell.find(|mention| std::ptr::eq(mention.record, *record));
            let unusable = match key.endpoint {
                None => unusable_on(record, owner),
                Some(_) => Reasons::NONE,
            };
            if mention.is_none() && unusable.is_empty() {
                return None;
            }
            Some(AgentCell {
                agent: record.name.clone(),
                instance: record.instance.clone(),
                state: match mention.map(|mention| mention.cell.state) {
                    None | Some(CellState::Closed) => AgentCellState::Closed,
                    Some(CellState::HalfOpen) => AgentCellState::HalfOpen,
                    Some(CellState::Open) => AgentCellState::Open,
                },
                age_secs: mention.map_or(0.0, |it| secs(it.age_ms(now_ms))),
                cooldown_remaining_secs: mention.map_or(0.0, |it| secs(it.cooldown_ms(now_ms))),
                unusable,
            })
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
                unusable: Reasons::NONE,
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

/// Why a lane cannot serve on an agent, beside its own cell.
fn unusable_on(record: &AgentRecord, owner: &CellOwner) -> Reasons {
    let lanes = record.pools.iter().flat_map(|pool| {
        let lanes = pool.unusable.iter();
        lanes.map(move |it| ((&pool.pool, &it.lane), it.reasons))
    });
    { lanes }
        .rfind(|(member, _)| owner.member() == Some(*member))
        .map_or(Reasons::NONE, |(_, reasons)| {
            reasons.without(UnusableReason::CellOpen)
        })
}

/// The pools of one gateway by what they can serve with.
fn pool_counts(
    name: &GatewayName,
    records: &[AgentRecord],
    gateways: &[GatewayCells],
    now_ms: u64,
    windows: FreshWindows,
) -> PoolCounts {
    let of_gateway = || gateways.iter().filter(|it| it.name == *name);
    let pools_of = |cells: &GatewayCells| -> BTreeSet<PoolName> {
        let members = cells
            .cells
            .iter()
            .filter(|cell| cell.lane != LaneName::none());
        members.map(|cell| cell.pool.clone()).collect()
    };
    let newest = of_gateway().map(|it| it.revision).max();
    // Of several lists for one revision the first is the current one.
    let current = of_gateway().find(|it| Some(it.revision) == newest);
    let fresh: Vec<&AgentRecord> = records
        .iter()
        .filter(|it| it.gateway == *name && reports_freshly(it, now_ms, windows))
        .collect();
    let listed = |record: &AgentRecord, pool: &PoolName| -> Option<PoolUsability> {
        let mut of_pool = record.pools.iter().rev();
        of_pool
            .find(|it| it.pool == *pool && it.is_notable())
            .cloned()
    };
    let mut names: BTreeSet<PoolName> = current.map(pools_of).unwrap_or_default();
    for record in &fresh {
        let exhausted = record
            .pools
            .iter()
            .map(|it| &it.pool)
            .filter(|pool| listed(record, pool).is_some_and(|it| it.exhausted));
        names.extend(exhausted.cloned());
    }
    if names.iter().any(|pool| !pool.is_direct()) {
        names.retain(|pool| !pool.is_direct());
    }
    let mut counts = PoolCounts::default();
    for pool in &names {
        let said: Vec<PoolUsability> = fresh.iter().filter_map(|it| listed(it, pool)).collect();
        let has = |record: &&&AgentRecord| {
            let mut known = of_gateway().filter(|it| it.revision == record.applied_revision);
            record.applied_revision != 0
                && (known.clone().next().is_none() || known.any(|it| pools_of(it).contains(pool)))
        };
        counts.total += 1;
        if said.iter().any(|it| it.exhausted) {
            counts.exhausted += 1;
        } else if said.iter().any(PoolUsability::is_amiss) {
            counts.impaired += 1;
        } else if said.is_empty() && fresh.iter().filter(has).count() == 0 {
            counts.unknown += 1;
        }
    }
    counts
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

    let mut summary = Summary {
        gateways: names.len() as u64,
        agents,
        cells,
        ..Summary::default()
    };
    let mut all: BTreeSet<GatewayName> = names.into_iter().map(GatewayName::from).collect();
    for name in &all {
        let of_gateway = || records.iter().filter(|it| it.gateway == *name);
        let live = of_gateway().any(|it| reports_freshly(it, now_ms, windows));
        summary.silent_gateways += u64::from(!live && of_gateway().any(|it| !it.left));
    }
    all.extend(records.iter().map(|it| it.gateway.clone()));
    for name in &all {
        let counts = pool_counts(name, records, gateways, now_ms, windows);
        summary.pools.total += counts.total;
        summary.pools.exhausted += counts.exhausted;
        summary.pools.impaired += counts.impaired;
        summary.pools.unknown += counts.unknown;
    }
    summary.incidents = summary.cells.open + summary.cells.half_open - summary.cells.forced_open
        + summary.pools.exhausted
        + summary.silent_gateways;
    summary
}
