//! The operators' overrides and the fleet's advisories that are in force here, and how cells come
//! to obey them.
//!
//! Both arrive as whole sets. They are kept so that cells of a later revision get them too.

use crate::lanes::cells::CellSlot;
use lanekeeper_model::{Advisory, LaneName, Override, OverrideAction, PoolName};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most overrides, and most advisories, that are kept: an agent has no more lanes than this.
const OVERRIDES_MAX: usize = 10_000;
/// How long the id of a reset is remembered after it was last in the set: a set of a replica that
/// lags behind must not make the next one carry it out again.
const RESET_KEPT: Duration = Duration::from_secs(600);

/// The cells an override is about: those of a lane in one pool, or in all.
type Scope = (Option<PoolName>, LaneName);

/// Everything in force.
#[derive(Default)]
pub(crate) struct ActiveOverrides {
    /// Overrides that last, by lane, the earliest first. One that is superseded by a later one
    /// waits here for its end.
    active: HashMap<LaneName, Vec<Active>>,
    advised: HashMap<Scope, Instant>,
    /// Ids and scopes of the whole set.
    ids: Vec<(String, Scope)>,
    /// Ids of the resets that have been carried out, and when each was last in the set.
    resets_done: HashMap<String, Instant>,
}

struct Active {
    pool: Option<PoolName>,
    action: OverrideAction,
    until: Instant,
}

impl ActiveOverrides {
    /// Takes the operators' whole set, the earliest first. Of two overrides on the same cells the
    /// later one holds; one that names a pool holds before one for all. Returns the resets to be
    /// carried out now.
    pub(crate) fn set_overrides(&mut self, overrides: &[Override], now: Instant) -> Vec<Scope> {
        self.active.clear();
        self.ids.clear();
        let mut resets = Vec::new();
        for one in bounded(overrides, "overrides") {
            let scope = (one.pool.clone(), one.lane.clone());
            self.ids.push((one.id.clone(), scope.clone()));
            if one.action == OverrideAction::Reset {
                if self.resets_done.insert(one.id.clone(), now).is_none() {
                    resets.push(scope);
                }
            } else if let Some(until) = end(one.remaining_ms, now) {
                let of_lane = self.active.entry(one.lane.clone()).or_default();
                of_lane.push(Active {
                    pool: one.pool.clone(),
                    action: one.action,
                    until,
                });
            }
        }
        self.resets_done
            .retain(|_, seen| now.saturating_duration_since(*seen) < RESET_KEPT);
        if self.resets_done.len() > OVERRIDES_MAX {
            self.resets_done.retain(|_, seen| *seen == now);
        }
        resets
    }

    /// Drops the overrides whose time is over; true when there were any, so that what they hid has
    /// to reach its cells.
    pub(crate) fn end_expired(&mut self, now: Instant) -> bool {
        let mut ended = false;
        self.active.retain(|_, of_lane| {
            let before = of_lane.len();
            of_lane.retain(|active| active.until > now);
            ended |= of_lane.len() != before;
            !of_lane.is_empty()
        });
        ended
    }

    /// The ids of the set that concern none of these cells.
    pub(crate) fn unmet<'a>(&self, cells: impl Iterator<Item = &'a Arc<CellSlot>>) -> Vec<String> {
        if self.ids.is_empty() {
            return Vec::new();
        }
        let mut pools: HashMap<&LaneName, HashSet<&PoolName>> = HashMap::new();
        for (pool, lane) in cells.filter_map(|cell| cell.names()) {
            pools.entry(lane).or_default().insert(pool);
        }
        let is_met = |(pool, lane): &Scope| match (pools.get(lane), pool) {
            (Some(of_lane), Some(pool)) => of_lane.contains(pool),
            (Some(_), None) => true,
            (None, _) => false,
        };
        self.ids
            .iter()
            .filter(|(_, scope)| !is_met(scope))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Takes the fleet's whole set of advisories.
    pub(crate) fn set_advisories(&mut self, advisories: &[Advisory], now: Instant) {
        self.advised = bounded(advisories, "advisories")
            .filter_map(|advisory| {
                let scope = (advisory.pool.clone(), advisory.lane.clone());
                Some((scope, end(advisory.remaining_ms, now)?))
            })
            .collect();
    }

    /// Makes `cells` obey what is in force, and nothing else.
    pub(crate) fn apply_to<'a>(
        &self,
        cells: impl Iterator<Item = &'a Arc<CellSlot>>,
        now: Instant,
    ) {
        for cell in cells {
            let active = self.active_on(cell, now);
            cell.apply_override(active, now);
            cell.apply_advisory(find(&self.advised, cell), now);
        }
    }

    /// The override that a cell obeys.
    fn active_on(&self, cell: &CellSlot, now: Instant) -> Option<lanekeeper_breaker::Override> {
        if self.active.is_empty() {
            return None;
        }
        let (pool, lane) = cell.names()?;
        let of_lane = self.active.get(lane)?;
        let latest = |wanted: Option<&PoolName>| {
            let meant = |it: &&Active| it.until > now && it.pool.as_ref() == wanted;
            of_lane.iter().rev().find(meant)
        };
        let active = latest(Some(pool)).or_else(|| latest(None))?;
        Some(lanekeeper_breaker::Override {
            action: active.action.into(),
            until: active.until,
        })
    }
}

/// True when a cell is one of those `scope` means.
pub(crate) fn concerns(scope: &Scope, cell: &CellSlot) -> bool {
    cell.names().is_some_and(|(pool, lane)| {
        *lane == scope.1 && scope.0.as_ref().is_none_or(|wanted| wanted == pool)
    })
}

fn find<T: Copy>(set: &HashMap<Scope, T>, cell: &CellSlot) -> Option<T> {
    if set.is_empty() {
        return None;
    }
    let (pool, lane) = cell.names()?;
    set.get(&(Some(pool.clone()), lane.clone()))
        .or_else(|| set.get(&(None, lane.clone())))
        .copied()
}

fn end(remaining_ms: u64, now: Instant) -> Option<Instant> {
    (remaining_ms > 0)
        .then(|| now.checked_add(Duration::from_millis(remaining_ms)))
        .flatten()
}

fn bounded<'a, T>(set: &'a [T], what: &str) -> impl Iterator<Item = &'a T> {
    if set.len() > OVERRIDES_MAX {
        tracing::warn!(
            left_out = set.len() - OVERRIDES_MAX,
            "more {what} than an agent keeps"
        );
    }
    set.iter().take(OVERRIDES_MAX)
}
