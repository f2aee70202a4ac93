//! The operators' overrides and the fleet's advisories that are in force here, and how cells come
//! to obey them.
//!
//! Both arrive as whole sets. They are kept so that cells of a later revision get them too.

use crate::lanes::cells::{Advice, CellSlot, Label};
use lanekeeper_model::{Advisory, LaneName, Override, OverrideAction, PoolName, ProviderName};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most overrides, and most advisories, that are kept: an agent has no more lanes than this.
const OVERRIDES_MAX: usize = 10_000;
/// How long the id of a reset is remembered after it was last in the set: a set of a replica that
/// lags behind must not make the next one carry it out again.
const RESET_KEPT: Duration = Duration::from_secs(600);

/// The cells an override is about.
#[derive(Clone)]
pub(crate) enum Scope {
    /// Those of a lane in one pool, or in all.
    Lane(Option<PoolName>, LaneName),
    /// A provider's own.
    Provider(ProviderName),
}

impl Scope {
    fn of(one: &Override) -> Self {
        match &one.provider {
            Some(provider) => Self::Provider(provider.clone()),
            None => Self::Lane(one.pool.clone(), one.lane.clone()),
        }
    }

    /// True when a cell of this label is meant.
    pub(crate) fn concerns(&self, label: &Label) -> bool {
        match (self, label) {
            (Self::Lane(wanted, of), Label::Member { pool, lane }) => {
                lane == of && wanted.as_ref().is_none_or(|wanted| wanted == pool)
            }
            (Self::Provider(of), Label::Provider(provider)) => provider == of,
            (Self::Lane(..), Label::Provider(_)) | (Self::Provider(_), Label::Member { .. }) => {
                false
            }
        }
    }
}

/// Everything in force.
#[derive(Default)]
pub(crate) struct ActiveOverrides {
    /// Overrides that last, by lane, the earliest first. One that is superseded by a later one
    /// waits here for its end.
    active: HashMap<LaneName, Vec<Active>>,
    /// Those on providers' own cells, likewise.
    on_providers: HashMap<ProviderName, Vec<Active>>,
    advised: HashMap<LaneName, Vec<Advised>>,
    /// Ids and scopes of the whole set.
    ids: Vec<(String, Scope)>,
    /// Ids of the resets that have been carried out, and when each was last in the set.
    resets_done: HashMap<String, Instant>,
}

/// One advisory of the set.
struct Advised {
    pool: Option<PoolName>,
    endpoint: Option<String>,
    advice: Advice,
}

impl Advised {
    fn concerns(&self, in_pool: &PoolName, at_endpoint: Option<&str>) -> bool {
        self.pool.as_ref().is_none_or(|pool| pool == in_pool)
            && (self.endpoint.is_none() || self.endpoint.as_deref() == at_endpoint)
    }
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
        self.on_providers.clear();
        self.ids.clear();
        let mut resets = Vec::new();
        for one in bounded(overrides, "overrides") {
            let scope = Scope::of(one);
            self.ids.push((one.id.clone(), scope.clone()));
            if one.action == OverrideAction::Reset {
                if self.resets_done.insert(one.id.clone(), now).is_none() {
                    resets.push(scope);
                }
            } else if let Some(until) = end(one.remaining_ms, now) {
                let of_owner = match &one.provider {
                    Some(provider) => self.on_providers.entry(provider.clone()).or_default(),
                    None => self.active.entry(one.lane.clone()).or_default(),
                };
                of_owner.push(Active {
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
        let mut remains = |of_owner: &mut Vec<Active>| {
            let before = of_owner.len();
            of_owner.retain(|active| active.until > now);
            ended |= of_owner.len() != before;
            !of_owner.is_empty()
        };
        self.active.retain(|_, of_lane| remains(of_lane));
        self.on_providers
            .retain(|_, of_provider| remains(of_provider));
        ended
    }

    /// The ids of the set that concern none of these cells.
    pub(crate) fn unmet<'a>(&self, cells: impl Iterator<Item = &'a Arc<CellSlot>>) -> Vec<String> {
        if self.ids.is_empty() {
            return Vec::new();
        }
        let mut pools: HashMap<&LaneName, HashSet<&PoolName>> = HashMap::new();
        let mut providers: HashSet<&ProviderName> = HashSet::new();
        for cell in cells {
            match cell.label() {
                Label::Member { pool, lane } => {
                    pools.entry(lane).or_default().insert(pool);
                }
                Label::Provider(provider) => {
                    providers.insert(provider);
                }
            }
        }
        let is_met = |scope: &Scope| match scope {
            Scope::Lane(pool, lane) => pools
                .get(lane)
                .is_some_and(|of_lane| pool.as_ref().is_none_or(|pool| of_lane.contains(pool))),
            Scope::Provider(provider) => providers.contains(provider),
        };
        self.ids
            .iter()
            .filter(|(_, scope)| !is_met(scope))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Takes the fleet's whole set of advisories.
    pub(crate) fn set_advisories(&mut self, advisories: &[Advisory], now: Instant) {
        self.advised.clear();
        for advisory in bounded(advisories, "advisories") {
            let age = Duration::from_millis(advisory.evidence_age_ms);
            let (Some(until), Some(evidence)) =
                (end(advisory.remaining_ms, now), now.checked_sub(age))
            else {
                continue;
            };
            let of_lane = self.advised.entry(advisory.lane.clone()).or_default();
            of_lane.push(Advised {
                pool: advisory.pool.clone(),
                endpoint: advisory.endpoint.clone(),
                advice: Advice {
                    until,
                    evidence,
                    agents: advisory.agents,
                },
            });
        }
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
            cell.apply_advisory(self.advice_on(cell), now);
        }
    }

    /// Names what the fleet warns of and this agent does not have.
    pub(crate) fn unknown_advised<'a>(
        &self,
        cells: impl Iterator<Item = &'a Arc<CellSlot>>,
    ) -> Vec<LaneName> {
        let mut unknown: Vec<LaneName> = self.advised.keys().cloned().collect();
        if !unknown.is_empty() {
            for cell in cells {
                if let Label::Member { lane, .. } = cell.label() {
                    unknown.retain(|it| it != lane);
                }
            }
        }
        unknown
    }

    /// The advice about a cell.
    fn advice_on(&self, cell: &CellSlot) -> Option<Advice> {
        if self.advised.is_empty() {
            return None;
        }
        let Label::Member { pool, lane } = cell.label() else {
            return None;
        };
        let of_lane = self.advised.get(lane)?;
        let meant = of_lane.iter().find(|it| it.concerns(pool, cell.endpoint()));
        meant.map(|it| it.advice)
    }

    /// The override that a cell obeys.
    fn active_on(&self, cell: &CellSlot, now: Instant) -> Option<lanekeeper_breaker::Override> {
        if self.active.is_empty() && self.on_providers.is_empty() {
            return None;
        }
        let (of_owner, pool) = match cell.label() {
            Label::Member { pool, lane } => (self.active.get(lane)?, Some(pool)),
            Label::Provider(provider) => (self.on_providers.get(provider)?, None),
        };
        let latest = |wanted: Option<&PoolName>| {
            let meant = |it: &&Active| it.until > now && it.pool.as_ref() == wanted;
            of_owner.iter().rev().find(meant)
        };
        let active = latest(pool).or_else(|| latest(None))?;
        Some(lanekeeper_breaker::Override {
            action: active.action.into(),
            until: active.until,
        })
    }
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
