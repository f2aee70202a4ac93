//! A small search over thresholds: what each would have let through, and what it would have refused
//! for nothing. Only those that no other beats in both are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{Policy, TripMode};
use serde::Serialize;

use super::{Verdict, replay};
use crate::journal::JournalLine;

const THRESHOLDS: [f64; 4] = [0.3, 0.5, 0.7, 0.9];
const REQUESTS_MIN: [u32; 4] = [3, 5, 10, 20];
const WINDOW_SECS: [u64; 3] = [10, 30, 60];
const CONSECUTIVE: [u32; 5] = [1, 2, 3, 5, 8];
const COOLDOWN_SECS: [u64; 4] = [5, 15, 30, 60];

/// One set of thresholds and what it would have done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// As the document writes it: `error_rate` or `consecutive`.
    pub mode: &'static str,
    /// Share of failures that trips; error rate only.
    pub threshold: Option<f64>,
    /// Fewest outcomes in the window; error rate only.
    pub min_requests: Option<u32>,
    /// The window; error rate only.
    pub window_secs: Option<u64>,
    /// Failures in a row that trip; consecutive only.
    pub consecutive_n: Option<u32>,
    /// The first cooldown.
    pub base_cooldown_secs: u64,
    /// Failures that would have gone out.
    pub failures_let_through: u64,
    /// Good answers that would have been refused.
    pub successes_refused: u64,
    /// Openings.
    pub trips: u64,
}

/// What the search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Suggestions {
    /// Everything that was tried.
    pub tried: Vec<Candidate>,
    /// Those that no other beats in both counts, the fewest failures first.
    pub best: Vec<Candidate>,
}

impl Suggestions {
    /// The one with the smallest sum of both counts; of equal ones the one that trips least.
    pub fn recommended(&self) -> Option<&Candidate> {
        self.best.iter().min_by_key(|it| {
            let sum = it.failures_let_through.saturating_add(it.successes_refused);
            (sum, it.trips)
        })
    }
}

/// Tries thresholds on the entries of one cell; all else is as in `policy`.
pub fn suggest(policy: &Policy, lines: &[&JournalLine], origin: Instant) -> Suggestions {
    let mut tried = Vec::new();
    for base_cooldown_secs in COOLDOWN_SECS {
        let base = with_cooldown(policy, base_cooldown_secs);
        for threshold in THRESHOLDS {
            for min_requests in REQUESTS_MIN {
                for window_secs in WINDOW_SECS {
                    let mut policy = base.clone();
                    policy.trip.mode = TripMode::ErrorRate;
                    policy.trip.threshold = threshold;
                    policy.trip.min_requests = min_requests;
                    policy.trip.window = Duration::from_secs(window_secs);
                    let verdict = replay(&Arc::new(policy), lines, origin);
                    tried.push(Candidate {
                        threshold: Some(threshold),
                        min_requests: Some(min_requests),
                        window_secs: Some(window_secs),
                        ..candidate("error_rate", base_cooldown_secs, &verdict)
                    });
                }
            }
        }
        for consecutive_n in CONSECUTIVE {
            let mut policy = base.clone();
            policy.trip.mode = TripMode::Consecutive;
            policy.trip.consecutive_n = consecutive_n;
            let verdict = replay(&Arc::new(policy), lines, origin);
            tried.push(Candidate {
                consecutive_n: Some(consecutive_n),
                ..candidate("consecutive", base_cooldown_secs, &verdict)
            });
        }
    }
    let best = front(&tried);
    Suggestions { tried, best }
}

fn with_cooldown(policy: &Policy, secs: u64) -> Policy {
    let base_cooldown = Duration::from_secs(secs);
    Policy {
        base_cooldown,
        max_cooldown: policy.max_cooldown.max(base_cooldown),
        ..policy.clone()
    }
}

fn candidate(mode: &'static str, base_cooldown_secs: u64, verdict: &Verdict) -> Candidate {
    Candidate {
        mode,
        threshold: None,
        min_requests: None,
        window_secs: None,
        consecutive_n: None,
        base_cooldown_secs,
        failures_let_through: verdict.failures_let_through,
        successes_refused: verdict.successes_refused,
        trips: verdict.trips,
    }
}

/// Those that no other beats in both counts; of equal ones the first.
fn front(tried: &[Candidate]) -> Vec<Candidate> {
    let cost = |it: &Candidate| (it.failures_let_through, it.successes_refused, it.trips);
    let mut sorted: Vec<&Candidate> = tried.iter().collect();
    sorted.sort_by_key(|it| cost(it));
    let mut best: Vec<Candidate> = Vec::new();
    for it in sorted {
        let beaten = best
            .last()
            .is_some_and(|last| last.successes_refused <= it.successes_refused);
        if !beaten {
            best.push(it.clone());
        }
    }
    best
}
