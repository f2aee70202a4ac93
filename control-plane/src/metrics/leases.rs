//! What is counted of leases of probes.

use lanekeeper_model::lease::Leased;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AskLabels {
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    result: &'static str,
}

/// The series of leases.
pub(crate) struct LeaseMetrics {
    asks: Family<AskLabels, Counter>,
    verdicts: Family<VerdictLabels, Counter>,
}

impl LeaseMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            asks: Family::default(),
            verdicts: Family::default(),
        };
        registry.register(
            "probe_leases",
            "Agents' questions whether they may probe a lane for all, by the answer",
            metrics.asks.clone(),
        );
        registry.register(
            "probe_verdicts",
            "What leased probes proved; late ones are not passed on",
            metrics.verdicts.clone(),
        );
        metrics
    }

    pub(crate) fn asked(&self, leased: &Leased) {
        let answer = match leased {
            Leased::Granted(_) => "granted",
            Leased::Held(_) => "held",
            Leased::Decided(_) => "decided",
        };
        self.asks.get_or_create(&AskLabels { answer }).inc();
    }

    pub(crate) fn settled(&self, in_time: bool, succeeded: bool) {
        let result = match (in_time, succeeded) {
            (false, _) => "late",
            (true, true) => "succeeded",
            (true, false) => "failed",
        };
        self.verdicts.get_or_create(&VerdictLabels { result }).inc();
    }
}
