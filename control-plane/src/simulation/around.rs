//! What is around a simulated session.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::transition::TimelineEntry;
use lanekeeper_model::{AgentRecord, GatewayName, PoolName, PoolTraffic};
use lanekeeper_proto::message::{FromServer, ProbeLeaseRequest};
use lanekeeper_store::AgentFacts;

use crate::hosting::host::Surroundings;
use crate::hosting::outgoing::Outgoing;
use crate::publish::outbox::{Key, Shelf};
use crate::publish::transitions::TransitionQueue;

/// What is around a session.
pub(super) struct Around<'a> {
    pub(super) outgoing: &'a mut Outgoing,
    pub(super) records: &'a mut Shelf<Arc<AgentRecord>>,
    pub(super) facts: &'a mut Shelf<Arc<AgentFacts>>,
    pub(super) transitions: &'a mut TransitionQueue,
    pub(super) forgotten: &'a mut Vec<Key>,
    pub(super) lease_requests: &'a mut Vec<(Key, ProbeLeaseRequest)>,
    pub(super) report_interval: Duration,
}

impl Surroundings for Around<'_> {
    fn send(&mut self, message: FromServer) {
        self.outgoing.put(message);
    }

    fn put_record(&mut self, key: Key, record: &Arc<AgentRecord>, notable: bool) {
        let epoch = record.session_epoch;
        self.records
            .put(key, epoch, Arc::clone(record), notable, true);
    }

    fn put_facts(&mut self, key: Key, facts: AgentFacts) {
        let epoch = facts.session_epoch;
        self.facts.put(key, epoch, Arc::new(facts), false, false);
    }

    fn add_traffic(
        &mut self,
        _gateway: &GatewayName,
        _pools: &[(PoolName, PoolTraffic)],
        _over: Duration,
    ) {
        // Simulated agents serve no requests.
    }

    fn release(&mut self, key: &Key) {
        self.records.release(key);
        self.transitions.release(key);
    }

    fn put_transitions(&mut self, key: Key, entries: Vec<TimelineEntry>) {
        self.transitions.put(key, entries);
    }

    fn transitions_stored(&self, key: &Key) -> u64 {
        self.transitions.stored(key)
    }

    fn lease(&mut self, key: Key, request: ProbeLeaseRequest) {
        self.lease_requests.push((key, request));
    }

    fn forget(&mut self, key: &Key) {
        self.forgotten.push(key.clone());
    }

    fn report_interval(&self) -> Duration {
        self.report_interval
    }
}
