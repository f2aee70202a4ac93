//! Times in a few fixed buckets, which can be added over agents.

use serde::{Deserialize, Serialize};

use super::{added, grown, saturating_sum};

/// Upper edges of the buckets, in milliseconds, ascending; those of the agents' Prometheus series.
pub const TIME_EDGES_MS: [u32; 14] = [
    5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000,
];
/// One bucket more than edges, for what is beyond the last.
pub const TIME_BUCKETS: usize = TIME_EDGES_MS.len() + 1;

/// How many times fell into each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct Times([u64; TIME_BUCKETS]);

impl Times {
    /// From the counts of the buckets.
    pub fn new(buckets: [u64; TIME_BUCKETS]) -> Self {
        Self(buckets)
    }

    /// The counts of the buckets without the empty ones at the end.
    pub fn trimmed(&self) -> &[u64] {
        let used = self.0.iter().rposition(|count| *count > 0);
        self.0.get(..used.map_or(0, |last| last + 1)).unwrap_or(&[])
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        saturating_sum(self.0)
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }

    /// Adds others to these.
    pub fn add(&mut self, others: &Self) {
        self.0 = added(self.0, others.0);
    }

    /// What has come since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(grown(self.0, before.0))
    }

    /// The time that a share of them, 0 to 1, does not exceed, in milliseconds: even within its
    /// bucket, and the last edge for what is beyond it. `None` when there are none.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let wanted = (share.clamp(0.0, 1.0) * count as f64).max(1.0);
        let (mut below, mut lower) = (0.0, 0.0);
        for (bucket, edge) in self.0.iter().zip(TIME_EDGES_MS) {
            let within = *bucket as f64;
            let upper = f64::from(edge);
            if within > 0.0 && below + within >= wanted {
                return Some(lower + (upper - lower) * (wanted - below) / within);
            }
            below += within;
            lower = upper;
        }
        Some(lower)
    }
}

impl From<Vec<u64>> for Times {
    /// What is beyond the known buckets counts in the last one.
    fn from(counts: Vec<u64>) -> Self {
        let mut buckets = [0_u64; TIME_BUCKETS];
        for (place, count) in counts.into_iter().enumerate() {
            if let Some(bucket) = buckets.get_mut(place.min(TIME_BUCKETS - 1)) {
                *bucket = bucket.saturating_add(count);
            }
        }
        Self(buckets)
    }
}

impl From<Times> for Vec<u64> {
    fn from(times: Times) -> Self {
        times.trimmed().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_lies_in_the_bucket_that_holds_it() {
        let mut buckets = [0; TIME_BUCKETS];
        buckets[5] = 98;
        buckets[8] = 2;
        let times = Times::new(buckets);
        let p50 = times.quantile_ms(0.5).unwrap();
        assert!((100.0..=250.0).contains(&p50), "{p50}");
        let p99 = times.quantile_ms(0.99).unwrap();
        assert!((1_000.0..=2_500.0).contains(&p99), "{p99}");
        assert_eq!(Times::default().quantile_ms(0.5), None);
    }

    #[test]
    fn time_beyond_the_last_edge_is_shown_as_that_edge() {
        let mut buckets = [0; TIME_BUCKETS];
        buckets[TIME_BUCKETS - 1] = 1;
        assert_eq!(Times::new(buckets).quantile_ms(0.5), Some(120_000.0));
    }

    #[test]
    fn empty_buckets_at_the_end_are_not_written() {
        let times = Times::from(vec![0, 3, 0, 0]);
        assert_eq!(
            serde_json::to_value(&times).unwrap(),
            serde_json::json!([0, 3])
        );
        let back: Times = serde_json::from_str("[0,3]").unwrap();
        assert_eq!(back, times);
        let longer: Times = serde_json::from_value(serde_json::json!(vec![1; 40])).unwrap();
        assert_eq!(longer.count(), 40, "a later release may have more buckets");
    }
}
