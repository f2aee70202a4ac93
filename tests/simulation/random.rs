//! Every random choice of a simulation, from one seed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

/// Random that repeats itself for the same seed.
#[derive(Debug)]
pub struct Random(StdRng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A number in `[0, 1)`.
    pub fn share(&mut self) -> f64 {
        self.0.random_range(0.0..1.0)
    }

    /// True with this probability.
    pub fn hits(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// A time between two, in milliseconds.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(self.0.random_range(from * 1000..to.max(from + 1) * 1000))
    }

    /// A time between two, in seconds.
    pub fn secs(&mut self, from: u64, to: u64) -> Duration {
        self.millis(from * 1000, to * 1000)
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
