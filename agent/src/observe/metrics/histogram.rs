//! A histogram that is recorded without a lock.
//!
//! Every worker records into the same few numbers on every request, where a mutex would make them
//! wait for each other. A reader may see an observation in its bucket and not yet in the sum.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Builds the histograms of one family: the upper edges of their buckets, in seconds, ascending.
#[derive(Clone, Copy)]
pub(super) struct Edges(pub(super) &'static [f64]);

impl MetricConstructor<Histogram> for Edges {
    fn new_metric(&self) -> Histogram {
        Histogram(Arc::new(Inner {
            edges: self.0,
            // One more for what is beyond the last edge.
            buckets: (0..=self.0.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_nanos: AtomicU64::new(0),
        }))
    }
}

/// The histogram of one series. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Histogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    edges: &'static [f64],
    /// Observations of each bucket alone, not of those below it.
    buckets: Vec<AtomicU64>,
    /// Enough for 584 years of observations; then it begins anew, as counters may.
    sum_nanos: AtomicU64,
}

impl Histogram {
    /// Records one observation.
    pub(crate) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = self.0.edges.partition_point(|edge| *edge < seconds);
        if let Some(bucket) = self.0.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Histogram {
    /// Observations of each bucket alone, the one beyond the last edge included.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let buckets = self.0.buckets.iter();
        buckets.map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let edges = self.0.edges.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = edges
            .zip(&self.0.buckets)
            .map(|(edge, count)| (edge, count.load(Ordering::Relaxed)))
            .collect();
        // The total is of the very numbers that are printed, so that the two always agree.
        let total = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.0.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, total, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    fn encoded(histogram: &Histogram) -> Vec<String> {
        let mut registry = Registry::default();
        registry.register("took", "Time", histogram.clone());
        let mut out = String::new();
        text::encode(&mut out, &registry).expect("a string takes everything");
        let series = out.lines().filter(|line| line.starts_with("took"));
        series.map(str::to_owned).collect()
    }

    #[test]
    fn observations_stand_in_their_bucket_and_all_above() {
        let histogram = Edges(&[0.01, 1.0]).new_metric();
        for millis in [1, 10, 11, 5000] {
            histogram.observe(Duration::from_millis(millis));
        }
        assert_eq!(
            encoded(&histogram),
            [
                "took_sum 5.022",
                "took_count 4",
                "took_bucket{le=\"0.01\"} 2",
                "took_bucket{le=\"1.0\"} 3",
                "took_bucket{le=\"+Inf\"} 4",
            ]
        );
    }

    #[test]
    fn nothing_is_lost_when_threads_record_at_once() {
        let histogram = Edges(&[0.01]).new_metric();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        histogram.observe(Duration::from_millis(1));
                    }
                });
            }
        });
        let lines = encoded(&histogram);
        assert!(lines.contains(&"took_count 40000".to_owned()), "{lines:?}");
        assert!(lines.contains(&"took_sum 40.0".to_owned()), "{lines:?}");
    }
}
