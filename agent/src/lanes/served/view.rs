//! What is served, as reports, `/stats` and the metrics show it.

use super::Served;
use super::usability::usability_of;
use crate::clock;
use crate::lanes::snapshot::Applied;
use crate::lanes::stats::{self, LaneStats, PoolStats, Stats};
use lanekeeper_model::transition::{ShedTransitions, TransitionReport};
use lanekeeper_model::{CellReport, ProviderName};

/// Lines of one answer with journals: with some 150 bytes each they stay below 32 MiB.
const JOURNAL_LINES_MAX: usize = 200_000;

impl Served {
    /// The served revision.
    pub(crate) fn applied(&self) -> Option<Applied> {
        self.snapshot
            .load()
            .as_ref()
            .map(|snapshot| snapshot.applied.clone())
    }

    /// What keeps parts of the served revision from working here, as of now.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.snapshot
            .load()
            .as_ref()
            .map(|snapshot| snapshot.problems(clock::now()))
            .unwrap_or_default()
    }

    /// Every cell, closed ones included: providers' own first, then by pool, lane and endpoint.
    pub(crate) fn cells(&self) -> Vec<CellReport> {
        let now = clock::now();
        let snapshot = self.snapshot.load();
        let mut cells: Vec<CellReport> = Vec::new();
        for snapshot in snapshot.iter() {
            for lane in &snapshot.lanes {
                let of_lane = lane.cells.iter();
                cells.extend(of_lane.map(|cell| cell.report(&lane.provider.name, now)));
            }
            for provider in &snapshot.providers {
                let own = provider.own_cells();
                cells.extend(own.map(|cell| cell.report(&provider.name, now)));
            }
        }
        cells.sort_by(|a, b| (a.owner(), &a.endpoint).cmp(&(b.owner(), &b.endpoint)));
        cells
    }

    /// The latest outcomes of every cell, as a file has them: one JSON object a line.
    pub(crate) fn journal(&self) -> String {
        let (now, now_ms) = (clock::now(), clock::unix_now().as_millis());
        let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
        let snapshot = self.snapshot.load_full();
        let cells = snapshot.iter().flat_map(|snapshot| snapshot.cells());
        let mut text = String::new();
        for line in cells
            .flat_map(|cell| cell.journal(now, now_ms))
            .take(JOURNAL_LINES_MAX)
        {
            // Names and numbers always encode.
            if let Ok(line) = serde_json::to_string(&line) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }

    /// Changes of state that are not known to be stored; see [`Changes::pending`].
    ///
    /// [`Changes::pending`]: crate::lanes::cells::Changes::pending
    pub(crate) fn transitions(&self) -> (Vec<TransitionReport>, Option<ShedTransitions>) {
        let guard = self.snapshot.load();
        let provider_of = |lane: &str| {
            let lanes = guard.iter().flat_map(|snapshot| &snapshot.lanes);
            let mut named = lanes.filter(|it| **it.state.name() == *lane);
            named
                .next()
                .map_or_else(|| ProviderName::from(""), |lane| lane.provider.name.clone())
        };
        self.changed().pending(clock::now(), provider_of)
    }

    /// The `lanes`, `pools` and `providers` parts of `/stats`.
    pub(crate) fn stats(&self) -> Stats {
        let now = clock::now();
        let guard = self.snapshot.load();
        let Some(snapshot) = guard.as_ref() else {
            return Stats::default();
        };
        Stats {
            lanes: snapshot
                .lanes
                .iter()
                .map(|lane| LaneStats::of(lane, now))
                .collect(),
            pools: snapshot
                .pools
                .values()
                .map(|pool| PoolStats {
                    pool: pool.name.clone(),
                    queued: pool.state.queued(),
                    members: pool
                        .members
                        .iter()
                        .map(|member| member.lane.name().clone())
                        .collect(),
                })
                .collect(),
            providers: stats::of_providers(&snapshot.providers, now),
        }
    }

    /// True while some lane would take a request.
    pub(crate) fn any_lane_usable(&self) -> bool {
        let now = clock::now();
        self.snapshot
            .load()
            .iter()
            .flat_map(|snapshot| &snapshot.lanes)
            .any(|lane| stats::is_usable(lane, now))
    }

    /// True while some pool has a member that can be selected.
    pub(crate) fn has_usable_pool(&self) -> bool {
        self.snapshot
            .load()
            .iter()
            .flat_map(|snapshot| snapshot.pools.values())
            .flat_map(|pool| &pool.members)
            .any(|member| member.weight > 0.0 && !member.excluded)
    }

    /// Sets the gauges that are only worth their cost when somebody reads them.
    pub(crate) fn set_gauges(&self) {
        let metrics = &self.metrics;
        let now = clock::now();
        // A revision that is swapped in meanwhile must not find its dropped series set again.
        let _live = self.live.lock();
        for snapshot in self.snapshot.load().iter() {
            for lane in &snapshot.lanes {
                let view = lane.state.view();
                metrics.set_lane(lane.name(), view.inflight, view.permits_available);
                for cell in &lane.cells {
                    cell.show_state(now);
                }
            }
            let own = snapshot.providers.iter().flat_map(|it| it.own_cells());
            for cell in own {
                cell.show_state(now);
            }
            for pool in snapshot.pools.values() {
                metrics.set_queued(&pool.name, pool.state.queued());
            }
            for pool in usability_of(snapshot, now).filter(|it| !it.pool.is_direct()) {
                metrics.set_usable_members(&pool.pool, pool.usable);
                for member in snapshot
                    .pools
                    .get(&pool.pool)
                    .iter()
                    .flat_map(|it| &it.members)
                {
                    let lane = member.lane.name();
                    let usable = pool.unusable.iter().all(|it| it.lane != *lane);
                    metrics.set_lane_usable(&pool.pool, lane, usable);
                }
            }
        }
    }
}
