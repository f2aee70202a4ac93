//! What no breaker says: whether each member of each pool can serve, and if not, why; and what came
//! of the requests since that was last asked for a report.

use super::Served;
use crate::clock;
use crate::lanes::cells::CellSet;
use crate::lanes::pool::{Member, Pool, PoolState};
use crate::lanes::snapshot::Snapshot;
use lanekeeper_breaker::Selectable;
use lanekeeper_model::gateway::UpstreamCredentials;
use lanekeeper_model::{
    AttemptCounts, LaneName, LaneUsability, PoolName, PoolReport, PoolTotals, PoolTraffic,
    PoolUsability, Reasons, UnusableReason,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was reported of each pool so far: the next report carries what has come since. A count is
/// taken once; a report that is lost is not made up for.
pub(crate) struct Reported {
    at: Instant,
    pools: BTreeMap<PoolName, Counted>,
}

/// What a pool has counted since the process began.
#[derive(Default)]
struct Counted {
    totals: PoolTotals,
    attempts: BTreeMap<LaneName, AttemptCounts>,
}

impl Reported {
    /// Nothing yet, by a process that begins now.
    pub(crate) fn nothing(now: Instant) -> Self {
        Self {
            at: now,
            pools: BTreeMap::new(),
        }
    }

    /// What has come since the report before, which this takes the place of.
    fn since(&mut self, pool: &PoolName, now: Counted) -> PoolTraffic {
        let before = self.pools.remove(pool).unwrap_or_default();
        let attempts = now.attempts.iter().filter_map(|(lane, counts)| {
            let before = before.attempts.get(lane).copied().unwrap_or_default();
            let counts = counts.since(before);
            (counts.sum() > 0).then(|| (lane.clone(), counts))
        });
        let traffic = PoolTraffic {
            totals: now.totals.since(&before.totals),
            attempts: attempts.collect(),
        };
        self.pools.insert(pool.clone(), now);
        traffic
    }
}

/// The members of a pool, or all lanes for direct routes.
struct Members<'a> {
    state: &'a Arc<PoolState>,
    name: &'a PoolName,
    members: Vec<(&'a Pool, &'a Member)>,
}

impl Served {
    /// The pools of which there is anything to tell a control plane, and how long ago the report
    /// before was made. What came of requests is told once.
    pub(crate) fn report_pools(&self, reported: &mut Reported) -> (Vec<PoolReport>, Duration) {
        let now = clock::now();
        let over = now.saturating_duration_since(std::mem::replace(&mut reported.at, now));
        let guard = self.snapshot.load();
        let Some(snapshot) = guard.as_ref() else {
            return (Vec::new(), over);
        };
        let pools: Vec<Members<'_>> = pools_of(snapshot).collect();
        reported
            .pools
            .retain(|name, _| name.is_direct() || snapshot.pools.contains_key(name));
        let reports = pools.iter().map(|pool| {
            let traffic = reported.since(pool.name, pool.counted());
            let mut usability = pool.usability(now);
            let turned_away = traffic.totals.requests.exhausted > 0;
            usability.exhausted = usability.usable == 0 && (turned_away || !pool.is_busy(now));
            pool.state.note_reported(usability.exhausted || turned_away);
            PoolReport { usability, traffic }
        });
        (reports.filter(PoolReport::is_notable).collect(), over)
    }

    /// What each pool can serve with now, those that are wholly usable included.
    pub(crate) fn usability(&self) -> Vec<PoolUsability> {
        let now = clock::now();
        let guard = self.snapshot.load();
        let pools = guard
            .iter()
            .flat_map(|snapshot| usability_of(snapshot, now));
        pools.collect()
    }
}

/// What each pool of a snapshot can serve with.
pub(super) fn usability_of(
    snapshot: &Snapshot,
    now: Instant,
) -> impl Iterator<Item = PoolUsability> {
    pools_of(snapshot).map(move |pool| pool.usability(now))
}

/// Every pool of a snapshot; direct routes count as one without a name.
fn pools_of(snapshot: &Snapshot) -> impl Iterator<Item = Members<'_>> {
    let direct: Vec<(&Pool, &Member)> = { snapshot.lanes.iter() }
        .filter_map(|lane| snapshot.names.get(&**lane.name()))
        .filter(|pool| pool.name.is_direct())
        .filter_map(|pool| Some((&**pool, pool.members.first()?)))
        .collect();
    let direct = direct.first().map(|(pool, _)| Members {
        state: &pool.state,
        name: &pool.name,
        members: direct.clone(),
    });
    let named = snapshot.pools.values().map(|pool| Members {
        state: &pool.state,
        name: &pool.name,
        members: pool
            .members
            .iter()
            .map(|member| (&**pool, member))
            .collect(),
    });
    direct.into_iter().chain(named)
}

impl Members<'_> {
    fn usability(&self, now: Instant) -> PoolUsability {
        let unusable = self.members.iter().filter_map(|(pool, member)| {
            let reasons = reasons(pool, member, now);
            let lane = member.lane.name().clone();
            (!reasons.is_empty()).then_some(LaneUsability { lane, reasons })
        });
        let unusable: Vec<LaneUsability> = unusable.collect();
        let count = |members: usize| u32::try_from(members).unwrap_or(u32::MAX);
        PoolUsability {
            pool: self.name.clone(),
            members: count(self.members.len()),
            usable: count(self.members.len().saturating_sub(unusable.len())),
            exhausted: unusable.len() == self.members.len(),
            in_flight: self.state.serving(),
            queued: self.state.queued().into(),
            unusable,
        }
    }

    /// Some member lacks nothing but a permit, which comes back by itself: with a queue in front of
    /// it, or between two requests, that fails nobody.
    fn is_busy(&self, now: Instant) -> bool {
        let busy: Reasons = [UnusableReason::PermitsGone].into_iter().collect();
        let mut members = self.members.iter();
        members.any(|(pool, member)| reasons(pool, member, now) == busy)
    }

    fn counted(&self) -> Counted {
        let mut attempts = BTreeMap::new();
        for (_, member) in &self.members {
            let counts = attempts_on(&member.cells);
            if counts.sum() > 0 {
                attempts.insert(member.lane.name().clone(), counts);
            }
        }
        Counted {
            totals: self.state.totals(),
            attempts,
        }
    }
}

/// Why a member cannot serve; nothing when it can.
fn reasons(pool: &Pool, member: &Member, now: Instant) -> Reasons {
    let lane = &member.lane;
    let provider = &lane.provider;
    let passthrough = pool.upstream_credentials == UpstreamCredentials::Passthrough;
    let provider_passes = provider.cells.as_ref().is_none_or(|own| passes(own, now));
    let mut reasons = Reasons::NONE;
    reasons.add_if(!provider.has_key(passthrough), UnusableReason::MissingKey);
    reasons.add_if(provider.target.is_err(), UnusableReason::BadAddress);
    reasons.add_if(!lane.state.has_budget(), UnusableReason::BudgetSpent);
    reasons.add_if(member.weight <= 0.0, UnusableReason::WeightZero);
    reasons.add_if(member.excluded, UnusableReason::Excluded);
    reasons.add_if(!lane.state.has_permit(), UnusableReason::PermitsGone);
    reasons.add_if(!provider_passes, UnusableReason::ProviderOpen);
    reasons.add_if(!passes(&member.cells, now), UnusableReason::CellOpen);
    reasons
}

/// True when requests of some endpoint pass. A cell that would let one probe through does not: what
/// the probe finds is not known yet.
fn passes(cells: &CellSet, now: Instant) -> bool {
    cells.iter().any(|cell| {
        matches!(
            cell.view(now).selectable,
            Selectable::Yes | Selectable::SoftParked | Selectable::Advised
        )
    })
}

fn attempts_on(cells: &CellSet) -> AttemptCounts {
    let mut sum = AttemptCounts::default();
    for series in cells.iter().filter_map(|cell| cell.series()) {
        sum.add(series.attempts());
    }
    sum
}
