//! A breaker policy tried on what really happened: the outcomes of a journal go through the real
//! cell, with the journal's clock. Pure: nothing is waited for.
//!
//! What the policy under which the journal was written kept away is not in it, so a stricter policy
//! is judged fairly and a laxer one only by what it lets through of that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use lanekeeper_breaker::Policy;
use lanekeeper_breaker::{Admission, Cause, CauseKind, Cell, Outcome, State, Ticket, Transition};
use serde::Serialize;

use crate::ids::{LaneName, PoolName};
use crate::journal::{JournalLine, Recorded};

mod suggest;

pub use suggest::{Candidate, Suggestions, suggest};

/// Randomness of cooldowns: the middle of their band, so that a replay is the same each time.
const JITTER: f64 = 0.5;
/// An attempt's lease of a probe slot, which is at least half a minute anyway.
const LEASE: Duration = Duration::from_secs(30);

/// Whose journal it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ReplayedCell {
    /// The pool.
    pub pool: PoolName,
    /// The lane.
    pub lane: LaneName,
    /// The endpoint, where the policy keeps a cell for each.
    pub endpoint: Option<String>,
}

/// A change of the replayed cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When, by the journal.
    pub at_ms: u64,
    /// The state afterwards: `closed`, `half_open` or `open`.
    pub state: &'static str,
    /// Why.
    pub reason: &'static str,
    /// How long it stays open, in seconds.
    pub cooldown_secs: Option<f64>,
}

/// What a policy would have done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Changes of the cell.
    pub steps: Vec<Step>,
    /// Openings from closed.
    pub trips: u64,
    /// Seconds it would not have been closed.
    pub open_secs: f64,
    /// Failures after which the lane would have been parked.
    pub parks: u64,
    /// Attempts that would have gone out and failed.
    pub failures_let_through: u64,
    /// Failing attempts that would not have gone out.
    pub failures_spared: u64,
    /// Good answers that would not have been asked for there.
    pub successes_refused: u64,
    /// Attempts that would have been probes.
    pub probes: u64,
}

/// What truly happened, as far as the journal has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Truth {
    /// Good answers.
    pub successes: u64,
    /// Failures.
    pub failures: u64,
    /// Openings.
    pub trips: u64,
    /// Seconds between openings and closings.
    pub open_secs: f64,
    /// From the first entry to the last, in seconds.
    pub span_secs: f64,
}

/// The journal's cells with the entries of each.
pub fn by_cell(lines: &[JournalLine]) -> BTreeMap<ReplayedCell, Vec<&JournalLine>> {
    let mut cells: BTreeMap<ReplayedCell, Vec<&JournalLine>> = BTreeMap::new();
    for line in lines {
        let cell = ReplayedCell {
            pool: line.pool.clone(),
            lane: line.lane.clone(),
            endpoint: line.endpoint.clone(),
        };
        cells.entry(cell).or_default().push(line);
    }
    cells
}

/// What the entries say by themselves.
pub fn truth(lines: &[&JournalLine]) -> Truth {
    let mut truth = Truth::default();
    let mut open_since = None;
    for line in lines {
        match line.outcome {
            Recorded::Success => truth.successes += 1,
            Recorded::Transient | Recorded::HardDown => truth.failures += 1,
            Recorded::Opened => {
                if open_since.is_none() {
                    truth.trips += 1;
                    open_since = Some(line.at_ms);
                }
            }
            Recorded::Closed => {
                if let Some(since) = open_since.take() {
                    truth.open_secs += secs(line.at_ms.saturating_sub(since));
                }
            }
        }
    }
    let last = lines.last().map_or(0, |line| line.at_ms);
    if let Some(since) = open_since {
        truth.open_secs += secs(last.saturating_sub(since));
    }
    let first = lines.first().map_or(0, |line| line.at_ms);
    truth.span_secs = secs(last.saturating_sub(first));
    truth
}

/// Plays the entries of one cell, the earliest first, under a policy. `origin` is any moment: the
/// cell's clock begins there.
pub fn replay(policy: &Arc<Policy>, lines: &[&JournalLine], origin: Instant) -> Verdict {
    let attempts = lines
        .iter()
        .filter(|line| !matches!(line.outcome, Recorded::Opened | Recorded::Closed));
    // What begins and what ends, in the order of time; of two at one moment the end comes first.
    let mut events: Vec<(u64, bool, usize, &JournalLine)> = Vec::new();
    for (number, line) in attempts.enumerate() {
        let began_ms = line.at_ms.saturating_sub(line.took_ms);
        events.push((began_ms, true, number, line));
        events.push((line.at_ms, false, number, line));
    }
    events.sort_by_key(|(at_ms, begins, number, line)| {
        // Its own end never comes before its beginning.
        let is_instant = line.took_ms == 0;
        (*at_ms, *begins && !is_instant, *number, !*begins)
    });
    let first_ms = events.first().map_or(0, |(at_ms, ..)| *at_ms);
    // A time past what the clock can hold is its beginning.
    let moment = |at_ms: u64| {
        let since = Duration::from_millis(at_ms.saturating_sub(first_ms));
        origin.checked_add(since).unwrap_or(origin)
    };
    let mut player = Player {
        cell: Cell::new(Arc::clone(policy), origin),
        tickets: BTreeMap::new(),
        verdict: Verdict::default(),
        open_since_ms: None,
    };
    for (at_ms, begins, number, line) in events {
        if begins {
            player.begin(number, line, at_ms, moment(at_ms));
        } else {
            player.end(number, line, at_ms, moment(at_ms));
        }
    }
    let last_ms = lines.last().map_or(0, |line| line.at_ms);
    player.finish(last_ms)
}

struct Player {
    cell: Cell,
    tickets: BTreeMap<usize, Ticket>,
    verdict: Verdict,
    open_since_ms: Option<u64>,
}

impl Player {
    fn begin(&mut self, number: usize, line: &JournalLine, at_ms: u64, now: Instant) {
        match self.cell.admit(now, LEASE) {
            Admission::Pass(ticket) => {
                self.tickets.insert(number, ticket);
            }
            Admission::Probe(ticket, transition) => {
                self.verdict.probes += 1;
                self.step(transition.as_ref(), at_ms);
                self.tickets.insert(number, ticket);
            }
            Admission::Refuse(_) => match line.outcome {
                Recorded::Success => self.verdict.successes_refused += 1,
                _ => self.verdict.failures_spared += 1,
            },
        }
    }

    fn end(&mut self, number: usize, line: &JournalLine, at_ms: u64, now: Instant) {
        let Some(ticket) = self.tickets.remove(&number) else {
            return;
        };
        let cause = Cause {
            kind: line
                .cause
                .as_deref()
                .and_then(CauseKind::parse)
                .unwrap_or(CauseKind::Status),
            status: line.status,
        };
        let retry_after = line.retry_after_ms.map(Duration::from_millis);
        let outcome = match line.outcome {
            Recorded::Success => Outcome::Success,
            Recorded::HardDown => Outcome::HardDown { cause },
            _ => Outcome::Transient { cause, retry_after },
        };
        let fails = !matches!(outcome, Outcome::Success);
        self.verdict.failures_let_through += u64::from(fails);
        let transition = self.cell.settle(ticket, outcome, now, JITTER);
        if fails && transition.is_none() && !self.cell.view(now).parked_remaining.is_zero() {
            self.verdict.parks += 1;
        }
        self.step(transition.as_ref(), at_ms);
    }

    fn step(&mut self, transition: Option<&Transition>, at_ms: u64) {
        let Some(transition) = transition else { return };
        match transition.to {
            State::Closed => {
                if let Some(since) = self.open_since_ms.take() {
                    self.verdict.open_secs += secs(at_ms.saturating_sub(since));
                }
            }
            State::Open if transition.from == State::Closed => {
                self.verdict.trips += 1;
                self.open_since_ms = Some(at_ms);
            }
            State::Open | State::HalfOpen => {}
        }
        self.verdict.steps.push(Step {
            at_ms,
            state: transition.to.as_str(),
            reason: transition.reason.as_str(),
            cooldown_secs: transition.cooldown.map(|cooldown| cooldown.as_secs_f64()),
        });
    }

    fn finish(mut self, last_ms: u64) -> Verdict {
        if let Some(since) = self.open_since_ms {
            self.verdict.open_secs += secs(last_ms.saturating_sub(since));
        }
        self.verdict
    }
}

fn secs(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests;
