//! What the agents of this replica report of traffic, kept for minutes and published every second,
//! so that every replica's readers see the traffic of all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::traffic::{ReplicaTraffic, TrafficBook};
use lanekeeper_model::{GatewayName, PoolName, PoolTraffic};
use parking_lot::Mutex;

/// The traffic of one process.
pub(crate) struct Traffic(Mutex<TrafficBook>);

impl Traffic {
    /// Nothing heard yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(TrafficBook::new(now)))
    }

    /// Takes what an agent reports of its pools since its report before, `over` ago.
    pub(crate) fn take(
        &self,
        gateway: &GatewayName,
        pools: &[(PoolName, PoolTraffic)],
        over: Duration,
        now: Instant,
    ) {
        if pools.is_empty() {
            return;
        }
        let mut book = self.0.lock();
        for (pool, traffic) in pools {
            book.take(gateway, pool, traffic, over, now);
        }
    }

    /// What is to be published now.
    pub(crate) fn publish(&self, now: Instant) -> Arc<ReplicaTraffic> {
        Arc::new(self.0.lock().publish(now))
    }
}
