//! The operators' orders and the fleet's hints that are in force here, and how they reach cells.
//!
//! Both arrive as whole sets. They are kept so that cells of a later revision get them too.

use crate::cells::CellSlot;
use lanekeeper_model::{Advisory, LaneName, Override, OverrideAction, PoolName};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most orders, and most hints, that are kept: an agent has no more lanes than this.
const ORDERS_MAX: usize = 10_000;

/// The cells an order is about: those of a lane in one pool, or in all.
type Scope = (Option<PoolName>, LaneName);

/// Everything in force.
#[derive(Default)]
pub(crate) struct Orders {
    standing: HashMap<Scope, Standing>,
    advised: HashMap<Scope, Instant>,
    /// Ids of the resets in the set that have been carried out.
    resets_done: HashSet<String>,
}

#[derive(Clone, Copy)]
struct Standing {
    action: OverrideAction,
    until: Instant,
}

impl Orders {
    /// Takes the operators' whole set. Of two orders on the same cells the later one holds; one
    /// that names a pool holds before one for all. Returns the resets to be carried out now.
    pub(crate) fn set_overrides(&mut self, overrides: &[Override], now: Instant) -> Vec<Scope> {
        self.standing.clear();
        let mut resets = Vec::new();
        let mut seen = HashSet::new();
        for order in bounded(overrides, "overrides") {
            let scope = (order.pool.clone(), order.lane.clone());
            if order.action == OverrideAction::Reset {
                if !self.resets_done.contains(&order.id) {
                    resets.push(scope);
                }
                seen.insert(order.id.clone());
            } else if let Some(until) = end(order.remaining_ms, now) {
                let standing = Standing {
                    action: order.action,
                    until,
                };
                self.standing.insert(scope, standing);
            }
        }
        self.resets_done = seen;
        resets
    }

    /// Takes the fleet's whole set of hints.
    pub(crate) fn set_advisories(&mut self, advisories: &[Advisory], now: Instant) {
        self.advised = bounded(advisories, "advisories")
            .filter_map(|advisory| {
                let scope = (advisory.pool.clone(), advisory.lane.clone());
                Some((scope, end(advisory.remaining_ms, now)?))
            })
            .collect();
    }

    /// Makes `cells` obey what is in force, and nothing else.
    pub(crate) fn reach<'a>(&self, cells: impl Iterator<Item = &'a Arc<CellSlot>>, now: Instant) {
        for cell in cells {
            let order = find(&self.standing, cell).map(|standing| lanekeeper_breaker::Override {
                action: standing.action.into(),
                until: standing.until,
            });
            cell.apply_override(order, now);
            cell.apply_advisory(find(&self.advised, cell), now);
        }
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
    if set.len() > ORDERS_MAX {
        tracing::warn!(
            left_out = set.len() - ORDERS_MAX,
            "more {what} than an agent keeps"
        );
    }
    set.iter().take(ORDERS_MAX)
}
