//! What came of requests and attempts: counts that agents report since their report before, and the
//! sliding sums of them that control planes keep for minutes.

mod times;
mod windows;

use serde::{Deserialize, Serialize};

use crate::ids::LaneName;

pub use times::{TIME_BUCKETS, TIME_EDGES_MS, Times};
pub use windows::{PoolWindows, ReplicaTraffic, TrafficBook};

/// How the requests of a pool ended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default)]
pub struct RequestCounts {
    /// A lane's answer was delivered whole.
    pub ok: u64,
    /// The caller's own fault.
    pub client_fault: u64,
    /// An answer began and died, or the last lane's error was given.
    pub failed: u64,
    /// No member could take it.
    pub exhausted: u64,
    /// The caller left first.
    pub cancelled: u64,
}

/// How the attempts on a lane ended.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default)]
pub struct AttemptCounts {
    /// The lane answered.
    pub success: u64,
    /// The lane failed for now.
    pub transient: u64,
    /// The lane failed until somebody mends it.
    pub hard_down: u64,
    /// The attempt proved nothing about the lane.
    pub neutral: u64,
}

/// What came of the requests of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolTotals {
    /// Requests by outcome.
    pub requests: RequestCounts,
    /// Moves to another member.
    pub failovers: u64,
    /// From a request's head to its first content.
    #[serde(skip_serializing_if = "Times::is_empty")]
    pub first_content: Times,
    /// From a request's head to the end of its answer.
    #[serde(skip_serializing_if = "Times::is_empty")]
    pub whole: Times,
}

/// What came of one pool's requests in some span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolTraffic {
    /// Its requests.
    pub totals: PoolTotals,
    /// Attempts on each lane.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<(LaneName, AttemptCounts)>,
}

impl RequestCounts {
    /// The counts in the order of the wire.
    pub fn to_array(self) -> [u64; 5] {
        [
            self.ok,
            self.client_fault,
            self.failed,
            self.exhausted,
            self.cancelled,
        ]
    }

    /// The counts from the order of the wire.
    pub fn from_array([ok, client_fault, failed, exhausted, cancelled]: [u64; 5]) -> Self {
        Self {
            ok,
            client_fault,
            failed,
            exhausted,
            cancelled,
        }
    }

    /// All requests.
    pub fn sum(self) -> u64 {
        saturating_sum(self.to_array())
    }

    /// Requests that this side failed: a lane's error, or no lane.
    pub fn errors(self) -> u64 {
        self.failed.saturating_add(self.exhausted)
    }
}

impl AttemptCounts {
    /// The counts in the order of the wire.
    pub fn to_array(self) -> [u64; 4] {
        [self.success, self.transient, self.hard_down, self.neutral]
    }

    /// The counts from the order of the wire.
    pub fn from_array([success, transient, hard_down, neutral]: [u64; 4]) -> Self {
        Self {
            success,
            transient,
            hard_down,
            neutral,
        }
    }

    /// All attempts.
    pub fn sum(self) -> u64 {
        saturating_sum(self.to_array())
    }

    /// Adds others to these.
    pub fn add(&mut self, others: Self) {
        *self = Self::from_array(added(self.to_array(), others.to_array()));
    }

    /// What has come since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self::from_array(grown(self.to_array(), before.to_array()))
    }
}

impl PoolTotals {
    /// True when nothing happened.
    pub fn is_empty(&self) -> bool {
        self.requests.sum() == 0
            && self.failovers == 0
            && self.first_content.is_empty()
            && self.whole.is_empty()
    }

    /// Adds others to these.
    pub fn add(&mut self, others: &Self) {
        let requests = added(self.requests.to_array(), others.requests.to_array());
        self.requests = RequestCounts::from_array(requests);
        self.failovers = self.failovers.saturating_add(others.failovers);
        self.first_content.add(&others.first_content);
        self.whole.add(&others.whole);
    }

    /// What has come since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let requests = grown(self.requests.to_array(), before.requests.to_array());
        Self {
            requests: RequestCounts::from_array(requests),
            failovers: growth(self.failovers, before.failovers),
            first_content: self.first_content.since(&before.first_content),
            whole: self.whole.since(&before.whole),
        }
    }
}

impl PoolTraffic {
    /// Adds others to these.
    pub fn add(&mut self, others: &Self) {
        self.totals.add(&others.totals);
        for (lane, counts) in &others.attempts {
            add_attempts(&mut self.attempts, lane, *counts);
        }
    }

    /// True when nothing happened.
    pub fn is_empty(&self) -> bool {
        self.totals.is_empty() && self.attempts.is_empty()
    }

    /// The `part`th of `parts` pieces that add up to the whole.
    fn piece(&self, part: u64, parts: u64) -> Self {
        let share = |count: u64| {
            let upto = |part: u64| u128::from(count) * u128::from(part) / u128::from(parts.max(1));
            u64::try_from(upto(part + 1) - upto(part)).unwrap_or(u64::MAX)
        };
        let times = |times: &Times| {
            Times::from(
                times
                    .trimmed()
                    .iter()
                    .map(|it| share(*it))
                    .collect::<Vec<_>>(),
            )
        };
        let attempts = self.attempts.iter().map(|(lane, counts)| {
            let counts = AttemptCounts::from_array(counts.to_array().map(share));
            (lane.clone(), counts)
        });
        Self {
            totals: PoolTotals {
                requests: RequestCounts::from_array(self.totals.requests.to_array().map(share)),
                failovers: share(self.totals.failovers),
                first_content: times(&self.totals.first_content),
                whole: times(&self.totals.whole),
            },
            attempts: attempts.filter(|(_, counts)| counts.sum() > 0).collect(),
        }
    }
}

/// Adds the attempts on a lane to those of its pool.
fn add_attempts(all: &mut Vec<(LaneName, AttemptCounts)>, lane: &LaneName, counts: AttemptCounts) {
    match all.iter_mut().find(|(known, _)| known == lane) {
        Some((_, sum)) => sum.add(counts),
        None => all.push((lane.clone(), counts)),
    }
}

fn saturating_sum<const N: usize>(counts: [u64; N]) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

fn added<const N: usize>(mut sums: [u64; N], others: [u64; N]) -> [u64; N] {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum = sum.saturating_add(other);
    }
    sums
}

fn grown<const N: usize>(mut now: [u64; N], before: [u64; N]) -> [u64; N] {
    for (now, before) in now.iter_mut().zip(before) {
        *now = growth(*now, before);
    }
    now
}

/// What a counter gained. One that is lower than before has begun anew.
fn growth(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}
