//! The live view of a single server, in its own memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lanekeeper_model::lease::{LeaseBoard, LeaseKey, Leased, ProbeVerdict};
use lanekeeper_model::traffic::ReplicaTraffic;
use lanekeeper_model::{AgentRecord, GatewayName};
use tokio::sync::broadcast;

use super::{
    Changes, Cursor, HINTS_MAX, Hint, LiveView, Put, RECORD_TTL, SeenShare, Share, order_of,
};
use crate::clock;
use crate::error::Error;

/// Forgotten agents that readers are told of one by one; one that missed more reads everything.
const GONE_MAX: usize = 4096;

/// Gateway and instance.
type Key = (GatewayName, String);

/// A live view in this process. Its size is bounded by the number of agents heard of within the
/// time to live.
#[derive(Debug)]
pub struct MemoryLive {
    shelves: Mutex<Shelves>,
    hints: broadcast::Sender<Hint>,
    ttl_ms: u64,
    leases: Mutex<LeaseBoard>,
    origin: Instant,
}

#[derive(Debug, Default)]
struct Shelves {
    records: BTreeMap<Key, Kept>,
    /// The change that left each record as it is.
    changed: BTreeMap<u64, Key>,
    /// The change that each agent was forgotten by, the latest [`GONE_MAX`].
    gone: BTreeMap<u64, Key>,
    /// Changes so far.
    seq: u64,
    /// Readers that are further behind than this were not told of everything that is gone.
    told_since: u64,
    /// When expired records were last looked for.
    swept_ms: u64,
    replicas: HashMap<String, Share>,
    traffic: HashMap<String, Arc<ReplicaTraffic>>,
}

#[derive(Debug)]
struct Kept {
    record: Arc<AgentRecord>,
    seq: u64,
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
            leases: Mutex::default(),
            origin: clock::instant(),
        }
    }

    fn leases(&self) -> (MutexGuard<'_, LeaseBoard>, Duration) {
        let now = clock::instant().saturating_duration_since(self.origin);
        // As above.
        let board = self.leases.lock();
        (board.unwrap_or_else(PoisonError::into_inner), now)
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        // No step under the lock can leave the maps half changed.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    fn put(&mut self, key: Key, record: Arc<AgentRecord>, expires_ms: u64) {
        self.seq += 1;
        self.changed.insert(self.seq, key.clone());
        let kept = Kept {
            record,
            seq: self.seq,
            expires_ms,
        };
        if let Some(before) = self.records.insert(key, kept) {
            self.changed.remove(&before.seq);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(kept) = self.records.remove(key) {
            self.changed.remove(&kept.seq);
        }
        self.seq += 1;
        self.gone.insert(self.seq, key.clone());
        if self.gone.len() > GONE_MAX
            && let Some((seq, _)) = self.gone.pop_first()
        {
            self.told_since = seq;
        }
    }

    /// Drops what has expired. Looking costs a walk over everything, so it is done a few times per
    /// time to live.
    fn sweep(&mut self, now_ms: u64, ttl_ms: u64) {
        if now_ms < self.swept_ms.saturating_add(ttl_ms / 10) {
            return;
        }
        self.swept_ms = now_ms;
        let expired: Vec<Key> = self
            .records
            .iter()
            .filter(|(_, kept)| kept.expires_ms <= now_ms)
            .map(|(key, _)| key.clone())
            .collect();
        for key in &expired {
            self.remove(key);
        }
    }

    fn changes(&self, since: u64) -> Changes {
        let is_whole = since == 0 || since < self.told_since;
        let records: Vec<Arc<AgentRecord>> = if is_whole {
            let all = self.records.values();
            all.map(|kept| Arc::clone(&kept.record)).collect()
        } else {
            self.changed
                .range(since + 1..)
                .filter_map(|(_, key)| self.records.get(key))
                .map(|kept| Arc::clone(&kept.record))
                .collect()
        };
        let gone = self
            .gone
            .range(since + 1..)
            .map(|(_, key)| key)
            .filter(|key| !is_whole && !self.records.contains_key(*key));
        Changes {
            is_whole,
            records,
            gone: gone.cloned().collect(),
            next: Cursor {
                run: String::new(),
                seq: self.seq,
            },
        }
    }
}

#[async_trait]
impl LiveView for MemoryLive {
    async fn put(&self, record: Arc<AgentRecord>, now_ms: u64) -> Result<Put, Error> {
        let key = (record.gateway.clone(), record.instance.clone());
        let mut shelves = self.shelves();
        shelves.sweep(now_ms, self.ttl_ms);
        let later = shelves
            .records
            .get(&key)
            .is_some_and(|kept| order_of(&kept.record) > order_of(&record));
        if later {
            return Ok(Put::Older);
        }
        shelves.put(key, record, now_ms.saturating_add(self.ttl_ms));
        Ok(Put::Stored)
    }

    async fn records(&self, gateway: Option<&str>) -> Result<Vec<AgentRecord>, Error> {
        let found: Vec<Arc<AgentRecord>> = {
            let shelves = self.shelves();
            let wanted = shelves
                .records
                .iter()
                .filter(|((name, _), _)| gateway.is_none_or(|wanted| **name == *wanted));
            wanted.map(|(_, kept)| Arc::clone(&kept.record)).collect()
        };
        Ok(found.iter().map(|record| (**record).clone()).collect())
    }

    async fn later_session(
        &self,
        gateway: &str,
        instance: &str,
        than: u64,
    ) -> Result<Option<AgentRecord>, Error> {
        let key = (GatewayName::from(gateway), instance.to_owned());
        let found = self
            .shelves()
            .records
            .get(&key)
            .map(|kept| Arc::clone(&kept.record));
        let later = found.filter(|record| record.session_epoch > than);
        Ok(later.map(|record| (*record).clone()))
    }

    async fn changes(&self, since: &Cursor) -> Result<Changes, Error> {
        Ok(self.shelves().changes(since.seq))
    }

    async fn announce(&self, replica: &str, share: Share) -> Result<bool, Error> {
        let mut shelves = self.shelves();
        if share.left {
            shelves.traffic.remove(replica);
        }
        Ok(shelves.replicas.insert(replica.to_owned(), share).is_some())
    }

    async fn shares(&self) -> Result<Vec<SeenShare>, Error> {
        Ok(Vec::new())
    }

    async fn publish_traffic(
        &self,
        replica: &str,
        traffic: Arc<ReplicaTraffic>,
    ) -> Result<(), Error> {
        let known = &mut self.shelves().traffic;
        known.insert(replica.to_owned(), traffic);
        Ok(())
    }

    async fn traffic(&self) -> Result<Vec<(String, Arc<ReplicaTraffic>)>, Error> {
        let shelves = self.shelves();
        let known = shelves.traffic.iter();
        Ok(known
            .map(|(replica, it)| (replica.clone(), Arc::clone(it)))
            .collect())
    }

    async fn forget(&self, gateway: &str, instance: &str) -> Result<(), Error> {
        let key = (GatewayName::from(gateway), instance.to_owned());
        self.shelves().remove(&key);
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

    async fn lease(&self, key: &LeaseKey, holder: &str, ttl: Duration) -> Result<Leased, Error> {
        let (mut board, now) = self.leases();
        Ok(board.ask(key, holder, ttl, now))
    }

    async fn settle_lease(
        &self,
        key: &LeaseKey,
        holder: &str,
        verdict: Option<&ProbeVerdict>,
    ) -> Result<bool, Error> {
        let (mut board, now) = self.leases();
        Ok(board.settle(key, holder, verdict, now))
    }

    async fn probe_verdict(&self, key: &LeaseKey) -> Result<Option<ProbeVerdict>, Error> {
        let (board, now) = self.leases();
        Ok(board.verdict(key, now))
    }

    async fn ping(&self) -> Result<(), Error> {
        Ok(())
    }
}
