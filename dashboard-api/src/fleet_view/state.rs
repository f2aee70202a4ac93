//! What is known of all agents, kept up to date by news alone: reading a large fleet anew for every
//! snapshot would cost as much as the fleet has agents, however quiet they are.

use super::sharing::{self, Holders, Sharing};
use super::stored_agents::{StoredAgents, StoredAgentsReader};
use lanekeeper_model::fleet::{FleetIndex, FoldedFleet, GatewayCells};
use lanekeeper_model::{AgentRecord, FleetView, FreshWindows, GatewayName};
use lanekeeper_store::{Changes, Cursor, RECORD_TTL, SHARE_OVERDUE, SHARE_TTL, SeenShare};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Gateway and instance.
pub(super) type Key = (GatewayName, String);

/// The packed fleet, shared between the task that keeps it and requests that ask for each agent's
/// word.
#[derive(Default)]
pub(crate) struct SharedIndex(Mutex<FleetIndex>);

impl SharedIndex {
    fn lock(&self) -> MutexGuard<'_, FleetIndex> {
        // A step that panics leaves one agent's row out at worst.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds each agent's own word to a view of `folded`, which was put together from this index.
    pub(super) fn add_agents(&self, view: &mut FleetView, folded: &FoldedFleet) {
        self.lock().add_agents(view, folded);
    }

    pub(super) fn fold(&self, now_ms: u64, windows: FreshWindows) -> FoldedFleet {
        self.lock().fold(now_ms, windows)
    }
}

/// How long agents that were known before a start of the server may take to come back: the longest
/// pause between two of their attempts, and the time for the session and its first report.
const RETURN_TIME: Duration = Duration::from_secs(40);

/// All agents that are known, and where they are known from.
pub(super) struct FleetState {
    began: Instant,
    cursor: Cursor,
    live: BTreeMap<Key, Reported>,
    /// Agents that only the configuration store remembers.
    stored: StoredAgents,
    /// Identities that several processes came with.
    holders: Holders,
    pub(super) reader: StoredAgentsReader,
    configured: Vec<GatewayCells>,
    shares: BTreeMap<String, KnownShare>,
}

struct Reported {
    record: Arc<AgentRecord>,
    at: Instant,
}

struct KnownShare {
    last: SeenShare,
    read: Instant,
}

impl FleetState {
    /// Nothing is known yet, by a process that begins now.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            cursor: Cursor::default(),
            live: BTreeMap::new(),
            stored: StoredAgents::default(),
            holders: Holders::default(),
            reader: StoredAgentsReader::default(),
            configured: Vec::new(),
            shares: BTreeMap::new(),
        }
    }

    /// True while an agent that was known before this process began may yet come back: a live view in
    /// memory begins empty. One in Redis outlives the process, and names its replicas.
    pub(super) fn is_rebuilding(&self, shares: &[SeenShare], now: Instant) -> bool {
        let is_in_memory = shares.is_empty() && self.shares.is_empty();
        let may_return =
            |(key, record): (&Key, &Arc<AgentRecord>)| !record.left && !self.live.contains_key(key);
        is_in_memory
            && now.saturating_duration_since(self.began) < RETURN_TIME
            && self.stored.iter().any(may_return)
    }

    /// Where to read on in the live view.
    pub(super) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Takes news of the live view.
    pub(super) fn take_changes(&mut self, index: &SharedIndex, changes: Changes, now: Instant) {
        let mut index = index.lock();
        let records: Vec<Arc<AgentRecord>> = changes
            .records
            .into_iter()
            .filter(|record| !self.is_outdated(record))
            .collect();
        if changes.is_whole {
            let mut before = std::mem::take(&mut self.live);
            for record in &records {
                before.remove(&key(record));
            }
            for key in before.into_keys() {
                self.lose(&mut index, &key);
            }
        }
        for key in &changes.gone {
            self.live.remove(key);
            self.lose(&mut index, key);
        }
        if !changes.gone.is_empty() {
            // Whoever forgets an agent forgets it in both stores.
            self.reader.doubt();
        }
        for record in records {
            index.put(Arc::clone(&record));
            self.live.insert(key(&record), Reported { record, at: now });
        }
        self.cursor = changes.next;
        let expired: Vec<Key> = self
            .live
            .iter()
            .filter(|(_, reported)| now.saturating_duration_since(reported.at) > RECORD_TTL)
            .map(|(key, _)| key.clone())
            .collect();
        for key in &expired {
            self.live.remove(key);
            self.lose(&mut index, key);
        }
    }

    /// True for the word of a session that the agent has left, or from which it was sent away. A view that lost its
    /// reader takes it from a replica that stood still meanwhile and believes to have the agent.
    fn is_outdated(&self, record: &AgentRecord) -> bool {
        let stored = self.stored.get(&key(record));
        stored.is_some_and(|stored| overrules(stored, record))
    }

    /// An agent is not in the live view any more.
    fn lose(&self, index: &mut FleetIndex, key: &Key) {
        match self.stored.get(key) {
            Some(record) => index.put(Arc::clone(record)),
            None => index.remove(&key.0, &key.1),
        }
    }

    /// Takes what the configuration store remembers. Such agents report nothing: they are silent, not
    /// closed.
    pub(super) fn take_stored(
        &mut self,
        index: &SharedIndex,
        (stored, holders): (StoredAgents, Holders),
    ) {
        self.holders = holders;
        let mut index = index.lock();
        let before = std::mem::replace(&mut self.stored, stored);
        for (key, record) in &self.stored {
            let reported = self.live.get(key);
            if reported.is_none_or(|reported| overrules(record, &reported.record)) {
                self.live.remove(key);
                index.put(Arc::clone(record));
            }
        }
        for key in before.into_keys() {
            if !self.stored.contains_key(&key) && !self.live.contains_key(&key) {
                index.remove(&key.0, &key.1);
            }
        }
    }

    /// Takes the cells that revisions have.
    pub(super) fn take_cells(&mut self, index: &SharedIndex, configured: &[GatewayCells]) {
        if self.configured != configured {
            index.lock().configure(configured);
            self.configured = configured.to_vec();
        }
    }

    /// Takes the replicas' shares; true when one is missing.
    pub(super) fn take_shares(&mut self, shares: Vec<SeenShare>, now: Instant) -> bool {
        for last in shares {
            let known = KnownShare { last, read: now };
            self.shares.insert(known.last.replica.clone(), known);
        }
        self.shares
            .retain(|_, known| known.age(now) < SHARE_TTL && !known.last.share.left);
        self.shares.values().any(|known| {
            let share = known.last.share;
            share.rewriting || (share.sessions > 0 && known.age(now) > SHARE_OVERDUE)
        })
    }

    /// The agents that hold one identity with another, which lives too.
    pub(super) fn sharing(&self, now_ms: u64) -> Sharing {
        sharing::sharing(&self.holders, now_ms, |key| {
            let reported = self.live.get(key).map(|reported| &reported.record);
            reported.or_else(|| self.stored.get(key)).map(|it| &**it)
        })
    }

    /// Every record, by gateway and instance.
    pub(super) fn records(&self) -> Vec<Arc<AgentRecord>> {
        let mut live = self.live.iter().peekable();
        let mut records = Vec::with_capacity(self.live.len() + self.stored.len());
        for (key, record) in &self.stored {
            while let Some((_, reported)) = live.next_if(|(known, _)| *known < key) {
                records.push(Arc::clone(&reported.record));
            }
            if live.peek().is_none_or(|(known, _)| *known != key) {
                records.push(Arc::clone(record));
            }
        }
        records.extend(live.map(|(_, reported)| Arc::clone(&reported.record)));
        records
    }
}

impl KnownShare {
    /// How long ago the replica announced it. A view that lost its reader does not repeat it.
    fn age(&self, now: Instant) -> Duration {
        self.last.age + now.saturating_duration_since(self.read)
    }
}

/// What the configuration store remembers is of a later session than what the live view has, or of the
/// same one, from which the agent was sent away.
fn overrules(stored: &AgentRecord, reported: &AgentRecord) -> bool {
    stored.session_epoch > reported.session_epoch
        || (stored.session_epoch == reported.session_epoch && stored.left && !reported.left)
}

fn key(record: &AgentRecord) -> Key {
    (record.gateway.clone(), record.instance.clone())
}
