//! What is counted of the timeline and of incidents.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What is counted of the timeline and of incidents.
pub(crate) struct TimelineMetrics {
    stored: Counter,
    shed: Counter,
    deferred: Counter,
    open: Gauge,
    events: Family<EventLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    event: &'static str,
}

impl TimelineMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (stored, shed, deferred) = (Counter::default(), Counter::default(), Counter::default());
        registry.register(
            "transitions_stored",
            "Changes of breakers' states stored in the timeline",
            stored.clone(),
        );
        registry.register(
            "transitions_shed",
            "Changes of breakers' states that agents could not keep until they were stored",
            shed.clone(),
        );
        registry.register(
            "transitions_deferred",
            "Changes of breakers' states left to their agents for want of room",
            deferred.clone(),
        );
        let open = Gauge::default();
        registry.register(
            "incidents_open",
            "Incidents open now, as seen by the replica that decides about them; 0 at the others",
            open.clone(),
        );
        let events = Family::default();
        registry.register(
            "incident_events",
            "Incidents opened, widened, flapping and ended by this replica",
            events.clone(),
        );
        Self {
            stored,
            shed,
            deferred,
            open,
            events,
        }
    }

    pub(crate) fn stored(&self, changes: usize) {
        self.stored.inc_by(changes as u64);
    }

    pub(crate) fn shed(&self, changes: u64) {
        self.shed.inc_by(changes);
    }

    pub(crate) fn deferred(&self, changes: usize) {
        self.deferred.inc_by(changes as u64);
    }

    pub(crate) fn set_open(&self, incidents: usize) {
        self.open.set(i64::try_from(incidents).unwrap_or(i64::MAX));
    }

    pub(crate) fn event(&self, event: &'static str) {
        self.events.get_or_create(&EventLabels { event }).inc();
    }
}
