//! The agent's Prometheus series.
//!
//! Handles are resolved when a revision is compiled; a request only touches atomics behind them.
//! Label values are configured names and fixed words, never anything a caller sent. Series vanish
//! with the names they belong to.

mod handles;
mod histogram;
mod labels;
mod outcomes;

pub(crate) use handles::{CellMetrics, CellSeries, PoolMetrics, ProviderMetrics};
pub(crate) use outcomes::{AttemptOutcome, ProbeOutcome, RequestOutcome};

use handles::LazySeries;
use histogram::{Edges, Histogram};
use labels::{
    CellDispositionLabels, CellLabels, CellOutcomeLabels, EndpointLabel, LaneLabels,
    LaneOutcomeLabels, MemberLabels, PoolLabels, PoolOutcomeLabels, PoolReasonLabels,
    ProviderLabels, ProviderTransitionLabels, ReasonLabels, TransitionLabels,
};
use lanekeeper_model::traffic::TIME_EDGES_MS;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of every series.
const PREFIX: &str = "lanekeeper";
/// Upper edges of the two caller-visible time histograms, in seconds; reports carry the same.
const REQUEST_SECONDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];
/// Upper edges of the overhead histogram, in seconds: the agent's own share is microseconds.
const OVERHEAD_SECONDS: [f64; 11] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0,
];

const _: () = assert!(REQUEST_SECONDS.len() == TIME_EDGES_MS.len());

type Histograms = Family<PoolLabels, Histogram, Edges>;

/// All families.
pub(crate) struct Metrics {
    requests: Family<PoolOutcomeLabels, Counter>,
    refusals: Family<ReasonLabels, Counter>,
    attempts: Family<CellOutcomeLabels, Counter>,
    failures: Family<CellDispositionLabels, Counter>,
    failovers: Family<PoolReasonLabels, Counter>,
    state: Family<CellLabels, Gauge<f64, AtomicU64>>,
    transitions: Family<TransitionLabels, Counter>,
    trips: Family<CellLabels, Counter>,
    rejects: Family<CellLabels, Counter>,
    advised: Family<CellLabels, Gauge>,
    spared: Family<CellLabels, Counter>,
    canaries: Family<CellLabels, Counter>,
    provider_state: Family<ProviderLabels, Gauge<f64, AtomicU64>>,
    provider_transitions: Family<ProviderTransitionLabels, Counter>,
    provider_trips: Family<ProviderLabels, Counter>,
    provider_rejects: Family<ProviderLabels, Counter>,
    inflight: Family<LaneLabels, Gauge>,
    permits: Family<LaneLabels, Gauge>,
    probes: Family<LaneOutcomeLabels, Counter>,
    queued: Family<PoolLabels, Gauge>,
    usable_members: Family<PoolLabels, Gauge>,
    lane_usable: Family<MemberLabels, Gauge>,
    request_seconds: Histograms,
    first_content_seconds: Histograms,
    overhead_seconds: Histograms,
    disconnects: Family<PoolLabels, Counter>,
    retry_refusals: Family<PoolLabels, Counter>,
    config_revision: Gauge<u64, AtomicU64>,
    config_rejects: Counter,
    reports: Counter,
    panics: Counter,
}

/// Adds families to a registry, one a line.
struct Table<'a>(&'a mut Registry);

impl Table<'_> {
    fn family<M: Metric + Clone>(&mut self, name: &str, help: &str, family: &M) {
        self.0.register(name, help, family.clone());
    }
}

impl Metrics {
    /// Families without series.
    pub(crate) fn new() -> Self {
        Self {
            request_seconds: Histograms::new_with_constructor(Edges(&REQUEST_SECONDS)),
            first_content_seconds: Histograms::new_with_constructor(Edges(&REQUEST_SECONDS)),
            overhead_seconds: Histograms::new_with_constructor(Edges(&OVERHEAD_SECONDS)),
            requests: Default::default(),
            refusals: Default::default(),
            attempts: Default::default(),
            failures: Default::default(),
            failovers: Default::default(),
            state: Default::default(),
            transitions: Default::default(),
            trips: Default::default(),
            rejects: Default::default(),
            advised: Default::default(),
            spared: Default::default(),
            canaries: Default::default(),
            provider_state: Default::default(),
            provider_transitions: Default::default(),
            provider_trips: Default::default(),
            provider_rejects: Default::default(),
            inflight: Default::default(),
            permits: Default::default(),
            probes: Default::default(),
            queued: Default::default(),
            usable_members: Default::default(),
            lane_usable: Default::default(),
            disconnects: Default::default(),
            retry_refusals: Default::default(),
            config_revision: Default::default(),
            config_rejects: Default::default(),
            reports: Default::default(),
            panics: Default::default(),
        }
    }

    /// The table of families: each one's name, its help text and where it is counted.
    #[rustfmt::skip]
    fn register(&self, registry: &mut Registry) {
        let mut add = Table(registry);
        add.family("requests", "Requests of callers", &self.requests);
        add.family("refusals", "Requests refused before a pool was found for them", &self.refusals);
        add.family("attempts", "Attempts on lanes", &self.attempts);
        add.family("failures", "Attempts that did not succeed, by what they proved", &self.failures);
        add.family("failovers", "Requests that went on to another member", &self.failovers);
        add.family("breaker_state", "0 closed, 0.5 half-open, 1 open", &self.state);
        add.family("breaker_transitions", "State changes of cells", &self.transitions);
        add.family("breaker_trips", "Changes of cells from closed to open", &self.trips);
        add.family("breaker_rejects", "Requests that found a member refused by its cell", &self.rejects);
        add.family("advisory_active", "1 while the fleet advises against a member", &self.advised);
        add.family("advisory_spared_attempts", "Attempts that the fleet's advice kept from a member", &self.spared);
        add.family("advisory_canaries", "Attempts that found out whether the fleet's advice is wrong", &self.canaries);
        add.family("provider_breaker_state", "0 closed, 0.5 half-open, 1 open; of providers with a breaker of their own", &self.provider_state);
        add.family("provider_breaker_transitions", "State changes of providers' own cells", &self.provider_transitions);
        add.family("provider_breaker_trips", "Changes of providers' own cells from closed to open", &self.provider_trips);
        add.family("provider_breaker_rejects", "Requests that found a member refused by its provider's own cell", &self.provider_rejects);
        add.family("lane_inflight", "Attempts that hold a permit", &self.inflight);
        add.family("lane_permits_available", "Permits left on lanes with a limit", &self.permits);
        add.family("probes", "Active probes of lanes", &self.probes);
        add.family("pool_queued", "Requests that wait for a permit", &self.queued);
        add.family("pool_usable_members", "Members that can serve now", &self.usable_members);
        add.family("lane_usable", "1 where the lane can serve in the pool now, else 0", &self.lane_usable);
        add.family("request_seconds", "From the request's head to the end of its answer", &self.request_seconds);
        add.family("time_to_first_content_seconds", "From the request's head to its first content", &self.first_content_seconds);
        add.family("overhead_seconds", "From the request's head to the first attempt's dispatch, body upload excluded", &self.overhead_seconds);
        add.family("client_disconnects", "Callers that left before their answer ended", &self.disconnects);
        add.family("retry_budget_refusals", "Further attempts that the pool's retry budget did not allow", &self.retry_refusals);
        add.family("config_revision", "The revision that is served", &self.config_revision);
        add.family("config_rejects", "Revisions that were refused", &self.config_rejects);
        add.family("reports", "Reports sent to the control plane", &self.reports);
        add.family("panics", "Faults of the agent that ended a request of a caller", &self.panics);
    }

    /// The handles of one pool's series, created now if they are new.
    pub(crate) fn pool(&self, pool: &str) -> PoolMetrics {
        let labels = PoolLabels {
            pool: pool.to_owned(),
        };
        PoolMetrics {
            requests: RequestOutcome::ALL.map(|outcome| {
                self.requests.get_or_create_owned(&PoolOutcomeLabels {
                    pool: pool.to_owned(),
                    outcome: outcome.as_str(),
                })
            }),
            request_seconds: self.request_seconds.get_or_create_owned(&labels),
            first_content_seconds: self.first_content_seconds.get_or_create_owned(&labels),
            overhead_seconds: self.overhead_seconds.get_or_create_owned(&labels),
            disconnects: self.disconnects.get_or_create_owned(&labels),
            retry_refusals: self.retry_refusals.get_or_create_owned(&labels),
            failovers: Arc::new(LazySeries::new(self.failovers.clone())),
            pool: pool.to_owned(),
        }
    }

    /// The handles of one cell's series, created now if they are new.
    pub(crate) fn cell(
        &self,
        pool: &str,
        lane: &str,
        endpoint: Option<&'static str>,
    ) -> CellMetrics {
        let endpoint = EndpointLabel(endpoint);
        let labels = CellLabels {
            pool: pool.to_owned(),
            lane: lane.to_owned(),
            endpoint,
        };
        CellMetrics {
            attempts: AttemptOutcome::ALL.map(|outcome| {
                self.attempts.get_or_create_owned(&CellOutcomeLabels {
                    pool: pool.to_owned(),
                    lane: lane.to_owned(),
                    endpoint,
                    outcome: outcome.as_str(),
                })
            }),
            state: self.state.get_or_create_owned(&labels),
            trips: self.trips.get_or_create_owned(&labels),
            rejects: self.rejects.get_or_create_owned(&labels),
            advised: self.advised.get_or_create_owned(&labels),
            spared: self.spared.get_or_create_owned(&labels),
            canaries: self.canaries.get_or_create_owned(&labels),
            failures: LazySeries::new(self.failures.clone()),
            transitions: LazySeries::new(self.transitions.clone()),
            labels,
        }
    }

    /// The handles of a provider's own cell's series, created now if they are new.
    pub(crate) fn provider_cell(
        &self,
        provider: &str,
        endpoint: Option<&'static str>,
    ) -> ProviderMetrics {
        let labels = ProviderLabels {
            provider: provider.to_owned(),
            endpoint: EndpointLabel(endpoint),
        };
        ProviderMetrics {
            state: self.provider_state.get_or_create_owned(&labels),
            trips: self.provider_trips.get_or_create_owned(&labels),
            rejects: self.provider_rejects.get_or_create_owned(&labels),
            transitions: LazySeries::new(self.provider_transitions.clone()),
            labels,
        }
    }

    /// Drops the series of a pool that left the configuration.
    pub(crate) fn remove_pool(&self, pool: &str, handles: &PoolMetrics) {
        let labels = PoolLabels {
            pool: pool.to_owned(),
        };
        for outcome in RequestOutcome::ALL {
            self.requests.remove(&PoolOutcomeLabels {
                pool: pool.to_owned(),
                outcome: outcome.as_str(),
            });
        }
        self.request_seconds.remove(&labels);
        self.first_content_seconds.remove(&labels);
        self.overhead_seconds.remove(&labels);
        self.disconnects.remove(&labels);
        self.retry_refusals.remove(&labels);
        self.queued.remove(&labels);
        self.usable_members.remove(&labels);
        handles.failovers.retire();
    }

    /// Drops the series of a cell that left the configuration.
    pub(crate) fn remove_series(&self, series: &CellSeries) {
        match series {
            CellSeries::Member(handles) => self.remove_cell(handles),
            CellSeries::Provider(handles) => self.remove_provider_cell(handles),
        }
    }

    fn remove_cell(&self, handles: &CellMetrics) {
        for outcome in AttemptOutcome::ALL {
            self.attempts.remove(&CellOutcomeLabels {
                pool: handles.labels.pool.clone(),
                lane: handles.labels.lane.clone(),
                endpoint: handles.labels.endpoint,
                outcome: outcome.as_str(),
            });
        }
        self.lane_usable.remove(&MemberLabels {
            pool: handles.labels.pool.clone(),
            lane: handles.labels.lane.clone(),
        });
        self.state.remove(&handles.labels);
        self.trips.remove(&handles.labels);
        self.rejects.remove(&handles.labels);
        self.advised.remove(&handles.labels);
        self.spared.remove(&handles.labels);
        self.canaries.remove(&handles.labels);
        handles.failures.retire();
        handles.transitions.retire();
    }

    fn remove_provider_cell(&self, handles: &ProviderMetrics) {
        self.provider_state.remove(&handles.labels);
        self.provider_trips.remove(&handles.labels);
        self.provider_rejects.remove(&handles.labels);
        handles.transitions.retire();
    }

    /// Drops the series of a lane that left the configuration.
    pub(crate) fn remove_lane(&self, lane: &str) {
        let labels = LaneLabels {
            lane: lane.to_owned(),
        };
        self.inflight.remove(&labels);
        self.permits.remove(&labels);
        for outcome in ProbeOutcome::ALL {
            self.probes.remove(&LaneOutcomeLabels {
                lane: lane.to_owned(),
                outcome: outcome.as_str(),
            });
        }
    }

    /// Counts a request that was refused before a pool was found for it.
    pub(crate) fn refusal(&self, reason: &'static str) {
        self.refusals
            .get_or_create_owned(&ReasonLabels { reason })
            .inc();
    }

    /// Counts one turn of a lane's active probe.
    pub(crate) fn probe(&self, lane: &str, outcome: ProbeOutcome) {
        self.probes
            .get_or_create_owned(&LaneOutcomeLabels {
                lane: lane.to_owned(),
                outcome: outcome.as_str(),
            })
            .inc();
    }

    /// Sets the gauges of one lane; called when the series are read.
    pub(crate) fn set_lane(&self, lane: &str, inflight: u32, permits_available: Option<u32>) {
        let labels = LaneLabels {
            lane: lane.to_owned(),
        };
        self.inflight
            .get_or_create_owned(&labels)
            .set(i64::from(inflight));
        match permits_available {
            Some(available) => {
                self.permits
                    .get_or_create_owned(&labels)
                    .set(i64::from(available));
            }
            None => {
                self.permits.remove(&labels);
            }
        }
    }

    /// Sets the queue gauge of one pool; called when the series are read.
    pub(crate) fn set_queued(&self, pool: &str, queued: u32) {
        self.queued
            .get_or_create_owned(&PoolLabels {
                pool: pool.to_owned(),
            })
            .set(i64::from(queued));
    }

    /// Sets what one pool can serve with; called when the series are read.
    pub(crate) fn set_usable_members(&self, pool: &str, usable: u32) {
        self.usable_members
            .get_or_create_owned(&PoolLabels {
                pool: pool.to_owned(),
            })
            .set(i64::from(usable));
    }

    /// Sets whether a lane can serve in a pool; called when the series are read.
    pub(crate) fn set_lane_usable(&self, pool: &str, lane: &str, usable: bool) {
        self.lane_usable
            .get_or_create_owned(&MemberLabels {
                pool: pool.to_owned(),
                lane: lane.to_owned(),
            })
            .set(i64::from(usable));
    }

    /// Sets the served revision.
    pub(crate) fn set_revision(&self, revision: u64) {
        self.config_revision.set(revision);
    }

    /// Counts a refused revision.
    pub(crate) fn config_rejected(&self) {
        self.config_rejects.inc();
    }

    /// Takes over how often the service of a request has panicked.
    pub(crate) fn set_panics(&self, panics: u64) {
        self.panics.inner().store(panics, Ordering::Relaxed);
    }

    /// Counts a report to the control plane.
    pub(crate) fn report_sent(&self) {
        self.reports.inc();
    }

    /// Appends the whole exposition in the OpenMetrics text format; every series names the gateway,
    /// so that a lane that is open in one does not hide behind its namesake in another.
    pub(crate) fn encode(&self, gateway: &str, out: &mut String) {
        let label = ("gateway".into(), gateway.to_owned().into());
        let mut registry = Registry::with_prefix_and_labels(PREFIX, std::iter::once(label));
        self.register(&mut registry);
        if let Err(error) = text::encode(out, &registry) {
            tracing::error!(%error, "metrics cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_have_the_edges_of_the_series() {
        for (secs, ms) in REQUEST_SECONDS.iter().zip(TIME_EDGES_MS) {
            assert!(
                (secs * 1000.0 - f64::from(ms)).abs() < 1e-9,
                "{secs} s, {ms} ms"
            );
        }
    }
}
