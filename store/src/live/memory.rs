//! The live view of a single server, in its own memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lanekeeper_model::{AgentRecord, GatewayName};
use tokio::sync::broadcast;

use super::{HINTS_MAX, Hint, LiveView, Put, RECORD_TTL, order_of};
use crate::error::Error;

/// A live view in this process. Its size is bounded by the number of agents heard of within the
/// time to live.
#[derive(Debug)]
pub struct MemoryLive {
    shelves: Mutex<Shelves>,
    hints: broadcast::Sender<Hint>,
    ttl_ms: u64,
}

#[derive(Debug, Default)]
struct Shelves {
    gateways: BTreeMap<GatewayName, BTreeMap<String, Kept>>,
    /// When expired records were last looked for.
    swept_ms: u64,
}

#[derive(Debug)]
struct Kept {
    record: AgentRecord,
    expires_ms: u64,
}

impl Default for MemoryLive {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryLive {
    /// An empty view whose records live for [`RECORD_TTL`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_ttl(RECORD_TTL)
    }

    /// An empty view with another time to live.
    #[must_use]
    pub fn with_ttl(ttl: Duration) -> Self {
        Self {
            shelves: Mutex::default(),
            hints: broadcast::Sender::new(HINTS_MAX),
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        // No step under the lock can leave the maps half changed.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    /// Drops what has expired. Looking costs a walk over everything, so it is done a few times per
    /// time to live.
    fn sweep(&mut self, now_ms: u64, ttl_ms: u64) {
        if now_ms < self.swept_ms.saturating_add(ttl_ms / 10) {
            return;
        }
        self.swept_ms = now_ms;
        for agents in self.gateways.values_mut() {
            agents.retain(|_, kept| kept.expires_ms > now_ms);
        }
        self.gateways.retain(|_, agents| !agents.is_empty());
    }
}

#[async_trait]
impl LiveView for MemoryLive {
    async fn put(&self, record: &AgentRecord, now_ms: u64) -> Result<Put, Error> {
        let mut shelves = self.shelves();
        shelves.sweep(now_ms, self.ttl_ms);
        let agents = shelves.gateways.entry(record.gateway.clone()).or_default();
        let later = agents
            .get(&record.instance)
            .is_some_and(|kept| order_of(&kept.record) > order_of(record));
        if later {
            return Ok(Put::Older);
        }
        let kept = Kept {
            record: record.clone(),
            expires_ms: now_ms.saturating_add(self.ttl_ms),
        };
        agents.insert(record.instance.clone(), kept);
        Ok(Put::Stored)
    }

    async fn records(&self, gateway: Option<&str>) -> Result<Vec<AgentRecord>, Error> {
        let shelves = self.shelves();
        let found = shelves
            .gateways
            .iter()
            .filter(|(name, _)| gateway.is_none_or(|wanted| **name == *wanted))
            .flat_map(|(_, agents)| agents.values().map(|kept| kept.record.clone()));
        Ok(found.collect())
    }

    async fn forget(&self, gateway: &str, instance: &str) -> Result<(), Error> {
        if let Some(agents) = self.shelves().gateways.get_mut(gateway) {
            agents.remove(instance);
        }
        Ok(())
    }

    async fn publish(&self, hint: Hint) -> Result<(), Error> {
        // An error means that no one listens.
        let _ = self.hints.send(hint);
        Ok(())
    }

    fn subscribe(&self) -> broadcast::Receiver<Hint> {
        self.hints.subscribe()
    }

    async fn ping(&self) -> Result<(), Error> {
        Ok(())
    }
}
