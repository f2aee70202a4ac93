//! What the control plane counts.

mod advice;
mod enrolment;
mod leases;
mod rollouts;
mod timeline;

use std::time::Duration;

use lanekeeper_proto::message::GoodbyeReason;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub(crate) use self::advice::{AdviceCounts, AdviceMetrics};
pub(crate) use self::enrolment::{EnrolmentMetrics, Means};
use self::leases::LeaseMetrics;
pub(crate) use self::rollouts::{Ending, RolloutMetrics};
pub(crate) use self::timeline::TimelineMetrics;
use crate::session::Reported;

/// All metrics of one process, with the registry that prints them.
pub(crate) struct Metrics {
    registry: Registry,
    /// Open sessions.
    pub(crate) sessions: Gauge,
    reports: Family<ReportLabels, Counter>,
    /// From a push to its answer.
    push_seconds: Histogram,
    /// From a set of overrides to its answer.
    override_seconds: Histogram,
    config_rejects: Counter,
    goodbyes: Family<GoodbyeLabels, Counter>,
    writes: Family<WriteLabels, Counter>,
    polls: Family<PollLabels, Counter>,
    /// What is counted of the fleet's advice.
    pub(crate) advice: AdviceMetrics,
    /// What is counted of leases of probes.
    pub(crate) leases: LeaseMetrics,
    /// What is counted of joining.
    pub(crate) enrolment: EnrolmentMetrics,
    /// What the driver of rollouts counts.
    pub(crate) rollouts: RolloutMetrics,
    /// What is counted of the timeline and of incidents.
    pub(crate) timeline: TimelineMetrics,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReportLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GoodbyeLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    to: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PollLabels {
    result: &'static str,
}

/// Where what is known of agents is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination {
    /// The live view.
    Live,
    /// The configuration database.
    Store,
}

impl Destination {
    fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Store => "store",
        }
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("lanekeeper");
        let sessions = Gauge::default();
        let reports = Family::default();
        // 1 ms to 65 s.
        let push_seconds = Histogram::new(exponential_buckets(0.001, 2.0, 17));
        let override_seconds = Histogram::new(exponential_buckets(0.001, 2.0, 17));
        let config_rejects = Counter::default();
        let goodbyes = Family::default();
        let writes = Family::default();
        let polls = Family::default();
        registry.register("sessions", "Agent sessions open now", sessions.clone());
        registry.register("reports", "Reports received", reports.clone());
        registry.register(
            "push_seconds",
            "Time from a configuration push to its answer",
            push_seconds.clone(),
        );
        registry.register(
            "override_seconds",
            "Time from sending a set of overrides to its answer",
            override_seconds.clone(),
        );
        registry.register(
            "config_rejects",
            "Pushed revisions that an agent refused",
            config_rejects.clone(),
        );
        registry.register(
            "goodbyes",
            "Sessions ended by this server",
            goodbyes.clone(),
        );
        registry.register("record_writes", "Writes of agent records", writes.clone());
        registry.register(
            "config_polls",
            "Looks for newer revisions in the configuration database",
            polls.clone(),
        );
        let rollouts = RolloutMetrics::register(&mut registry);
        let advice = AdviceMetrics::register(&mut registry);
        let leases = LeaseMetrics::register(&mut registry);
        let timeline = TimelineMetrics::register(&mut registry);
        let enrolment = EnrolmentMetrics::register(&mut registry);
        Self {
            registry,
            advice,
            leases,
            enrolment,
            rollouts,
            timeline,
            sessions,
            reports,
            push_seconds,
            override_seconds,
            config_rejects,
            goodbyes,
            writes,
            polls,
        }
    }

    pub(crate) fn reported(&self, reported: Reported) {
        let result = match reported {
            Reported::Accepted => "accepted",
            Reported::Older => "older",
            Reported::Refused => "refused",
        };
        self.reports.get_or_create(&ReportLabels { result }).inc();
    }

    pub(crate) fn obeyed(&self, took: Duration) {
        self.override_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn answered(&self, took: Duration, applied: bool) {
        self.push_seconds.observe(took.as_secs_f64());
        if !applied {
            self.config_rejects.inc();
        }
    }

    pub(crate) fn goodbye(&self, reason: GoodbyeReason) {
        let reason = reason.as_str();
        self.goodbyes.get_or_create(&GoodbyeLabels { reason }).inc();
    }

    pub(crate) fn written(&self, to: Destination, ok: bool) {
        let (to, result) = (to.as_str(), result(ok));
        self.writes.get_or_create(&WriteLabels { to, result }).inc();
    }

    pub(crate) fn polled(&self, ok: bool) {
        let result = result(ok);
        self.polls.get_or_create(&PollLabels { result }).inc();
    }

    /// The whole exposition, in OpenMetrics text.
    pub(crate) fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

fn result(ok: bool) -> &'static str {
    if ok { "ok" } else { "failed" }
}
