//! What happens to one agent's cells: a plain value that time and a seed move.
//!
//! Half of the cells that fail come from a few weak ones that all agents share, as when a provider
//! is down for everybody; the other half are an agent's own trouble.

use lanekeeper_model::ids::CellName;
use lanekeeper_model::{CauseReport, CellReport, CellState};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// One cell of this many is weak on all agents.
const WEAK_ONE_OF: usize = 50;
/// Cooldown of an open cell.
const COOLDOWN: Duration = Duration::from_secs(15);
/// What failures are put down to: kind and status.
const CAUSES: [(&str, Option<u16>); 4] = [
    ("status", Some(529)),
    ("status", Some(503)),
    ("rate_limit", Some(429)),
    ("timeout", None),
];

/// The cells of one agent that are not closed, and when that changes next.
#[derive(Debug)]
pub(crate) struct Script {
    rng: SmallRng,
    cells: usize,
    wanted_open: usize,
    interval: Duration,
    troubled: BTreeMap<usize, Trouble>,
    trips: BTreeMap<usize, u64>,
    next: Option<Instant>,
}

/// A cell that is not closed.
#[derive(Debug)]
struct Trouble {
    state: CellState,
    since: Instant,
    opened: Instant,
    reopens: u32,
    failures: u64,
    cause: usize,
}

impl Script {
    /// A script for `cells` cells, of which `open_share` are in trouble from the start. Transitions
    /// are `interval` apart on average; zero = never.
    pub(crate) fn new(
        seed: u64,
        cells: usize,
        open_share: f64,
        interval: Duration,
        now: Instant,
    ) -> Self {
        let mut script = Self {
            rng: SmallRng::seed_from_u64(seed),
            cells,
            wanted_open: ((cells as f64 * open_share).round() as usize).min(cells),
            interval,
            troubled: BTreeMap::new(),
            trips: BTreeMap::new(),
            next: None,
        };
        // Weak cells run out when many are wanted; the rest is found by chance in a few rounds.
        for _ in 0..script.wanted_open.saturating_mul(8) {
            if script.troubled.len() >= script.wanted_open {
                break;
            }
            script.open_one(now);
        }
        script.plan(now);
        script
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Lets happen what is due; true when a cell changed its state.
    pub(crate) fn advance(&mut self, now: Instant) -> bool {
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        self.plan(now);
        if self.troubled.len() < self.wanted_open.max(1) {
            return self.open_one(now);
        }
        self.move_one(now)
    }

    /// The cells to report, in the order of `names`; all of them when `dense`.
    pub(crate) fn report(&self, names: &[CellName], dense: bool, now: Instant) -> Vec<CellReport> {
        if dense {
            let all = names.iter().take(self.cells).enumerate();
            return all.map(|(cell, name)| self.cell(cell, name, now)).collect();
        }
        self.troubled
            .keys()
            .filter_map(|cell| Some(self.cell(*cell, names.get(*cell)?, now)))
            .collect()
    }

    fn plan(&mut self, now: Instant) {
        if self.interval.is_zero() || self.cells == 0 {
            self.next = None;
            return;
        }
        // Times between independent events are distributed exponentially.
        let draw: f64 = self.rng.random();
        let wait = self.interval.mul_f64(-(1.0 - draw).ln());
        self.next = Some(now + wait);
    }

    fn open_one(&mut self, now: Instant) -> bool {
        if self.cells == 0 {
            return false;
        }
        let weak = self.cells.div_ceil(WEAK_ONE_OF);
        let among = if self.rng.random_bool(0.5) {
            weak
        } else {
            self.cells
        };
        let cell = self.rng.random_range(0..among);
        if self.troubled.contains_key(&cell) {
            return false;
        }
        *self.trips.entry(cell).or_default() += 1;
        let trouble = Trouble {
            state: CellState::Open,
            since: now,
            opened: now,
            reopens: 0,
            failures: self.rng.random_range(3..20),
            cause: cell % CAUSES.len(),
        };
        self.troubled.insert(cell, trouble);
        true
    }

    /// Open goes to half-open, half-open to closed or back.
    fn move_one(&mut self, now: Instant) -> bool {
        let place = self.rng.random_range(0..self.troubled.len().max(1));
        let fails = self.rng.random_bool(0.5);
        let Some(cell) = self.troubled.keys().nth(place).copied() else {
            return false;
        };
        let Some(trouble) = self.troubled.get_mut(&cell) else {
            return false;
        };
        trouble.since = now;
        match trouble.state {
            CellState::Open => trouble.state = CellState::HalfOpen,
            CellState::HalfOpen if fails => {
                trouble.state = CellState::Open;
                trouble.reopens += 1;
                trouble.failures += 1;
                *self.trips.entry(cell).or_default() += 1;
            }
            CellState::HalfOpen | CellState::Closed => {
                self.troubled.remove(&cell);
            }
        }
        true
    }

    fn cell(&self, cell: usize, name: &CellName, now: Instant) -> CellReport {
        let trouble = self.troubled.get(&cell);
        let state = trouble.map_or(CellState::Closed, |trouble| trouble.state);
        let age = |since: Instant| millis(now.saturating_duration_since(since));
        let cooldown = trouble.filter(|_| state == CellState::Open).map(|trouble| {
            millis(COOLDOWN.saturating_sub(now.saturating_duration_since(trouble.since)))
        });
        let cause = trouble.and_then(|trouble| {
            CAUSES.get(trouble.cause).map(|(kind, status)| CauseReport {
                kind: (*kind).to_owned(),
                status: *status,
                count: trouble.failures,
            })
        });
        CellReport {
            pool: name.pool.clone(),
            lane: name.lane.clone(),
            provider: name.provider.clone(),
            endpoint: None,
            state,
            state_age_ms: trouble.map_or(0, |trouble| age(trouble.since)),
            open_age_ms: trouble.map_or(0, |trouble| age(trouble.opened)),
            cooldown_remaining_ms: cooldown.unwrap_or(0),
            parked_remaining_ms: 0,
            streak: trouble.map_or(0, |trouble| {
                u32::try_from(trouble.failures).unwrap_or(u32::MAX)
            }),
            trips: self.trips.get(&cell).copied().unwrap_or(0),
            reopens: trouble.map_or(0, |trouble| trouble.reopens),
            window_ok: 0,
            window_failed: trouble.map_or(0, |trouble| trouble.failures),
            cause,
            override_action: None,
            advisory: false,
            advisory_spared: 0,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
