//! What is counted of the fleet's advice.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AdviceLabels {
    state: &'static str,
}

/// Lanes that enough agents hold open, by what comes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AdviceCounts {
    /// The other agents are advised against them.
    pub(crate) sent: i64,
    /// They would be, if the pool's mode were `act`.
    pub(crate) observed: i64,
    /// They are not, because the pool cannot spare another member.
    pub(crate) withheld: i64,
}

/// The series of advice.
pub(crate) struct AdviceMetrics {
    lanes: Family<AdviceLabels, Gauge>,
}

impl AdviceMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let lanes = Family::default();
        registry.register(
            "advised_lanes",
            "Members of pools that enough agents hold open, by what comes of it",
            lanes.clone(),
        );
        let metrics = Self { lanes };
        metrics.set(AdviceCounts::default());
        metrics
    }

    /// Sets the counts of this moment.
    pub(crate) fn set(&self, counts: AdviceCounts) {
        let states = [
            ("sent", counts.sent),
            ("observed", counts.observed),
            ("withheld", counts.withheld),
        ];
        for (state, lanes) in states {
            let gauge = self.lanes.get_or_create(&AdviceLabels { state });
            gauge.set(lanes);
        }
    }
}
