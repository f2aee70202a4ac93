//! What the driver of rollouts counts. Of several replicas the one that stored a step counts it, so
//! that their sum is the fleet's.

use std::time::Duration;

use lanekeeper_model::rollout::StopKind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// See the module.
pub(crate) struct RolloutMetrics {
    running: Gauge,
    waiting: Gauge,
    stages: Counter,
    stops: Family<StopLabels, Counter>,
    seconds: Family<ResultLabels, Histogram, Durations>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StopLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// 1 s to 36 h.
#[derive(Clone)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(1.0, 2.0, 18))
    }
}

/// How a rollout left the driver's hands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// Every agent has the revision.
    Done,
    /// It stands where it is.
    Stopped,
    /// The old content came back.
    RolledBack,
}

impl Ending {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::RolledBack => "rolled_back",
        }
    }
}

impl RolloutMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            running: Gauge::default(),
            waiting: Gauge::default(),
            stages: Counter::default(),
            stops: Family::default(),
            seconds: Family::new_with_constructor(Durations),
        };
        registry.register(
            "rollouts_running",
            "Rollouts that went on at the last look",
            metrics.running.clone(),
        );
        registry.register(
            "rollouts_waiting",
            "Those of them with no live agent in their first stage",
            metrics.waiting.clone(),
        );
        registry.register(
            "rollout_stages",
            "Stages of rollouts begun",
            metrics.stages.clone(),
        );
        registry.register(
            "rollout_stops",
            "Rollouts stopped by what their agents reported",
            metrics.stops.clone(),
        );
        registry.register(
            "rollout_seconds",
            "Time from the write of a revision to the end of its rollout",
            metrics.seconds.clone(),
        );
        metrics
    }

    /// What a look found.
    pub(crate) fn looked(&self, running: usize, waiting: usize) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.running.set(count(running));
        self.waiting.set(count(waiting));
    }

    pub(crate) fn began(&self) {
        self.stages.inc();
    }

    pub(crate) fn stopped(&self, reason: StopKind) {
        let reason = reason.as_str();
        self.stops.get_or_create(&StopLabels { reason }).inc();
    }

    pub(crate) fn ended(&self, ending: Ending, took: Duration) {
        let result = ending.as_str();
        let seconds = self.seconds.get_or_create(&ResultLabels { result });
        seconds.observe(took.as_secs_f64());
    }
}
