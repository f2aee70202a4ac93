//! Writes the newest value of each agent to a store that may be slow or away: one value waits per
//! agent however many were produced, agents are written in turn, one agent's values never overtake
//! each other, and after an outage everything that is still true is written again unasked.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_store::Error;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Pause of a writer whose store is away.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(500);
/// How long one write may take; stores have shorter limits of their own.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Names one agent instance: gateway and instance.
pub(crate) type Key = (String, String);

/// Where values go.
pub(crate) trait Sink: Send + Sync + 'static {
    /// What is written; cheap to clone.
    type Item: Clone + Send + Sync + 'static;

    /// Most values that are written at once.
    const BATCH_MAX: usize = 1;

    /// Writes one value. `notable` when any value since the last write was.
    fn write(
        &self,
        item: &Self::Item,
        notable: bool,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Writes up to [`Sink::BATCH_MAX`] values, each of another agent, and tells what became of
    /// each.
    fn write_all(
        &self,
        batch: &[(Self::Item, bool)],
    ) -> impl Future<Output = Vec<Result<(), Error>>> + Send {
        async move {
            let mut written = Vec::with_capacity(batch.len());
            for (item, notable) in batch {
                written.push(self.write(item, *notable).await);
            }
            written
        }
    }
}

/// The queue in front of a [`Sink`].
pub(crate) struct Outbox<S: Sink> {
    sink: S,
    name: &'static str,
    shelf: Mutex<Shelf<S::Item>>,
    wake: Notify,
}

impl<S: Sink> Outbox<S> {
    /// An empty queue for at most `entries_max` agents.
    pub(crate) fn new(name: &'static str, sink: S, entries_max: usize) -> Arc<Self> {
        Arc::new(Self {
            sink,
            name,
            shelf: Mutex::new(Shelf::new(entries_max)),
            wake: Notify::new(),
        })
    }

    /// Hands over an agent's newest value of a session. It is kept for rewriting until
    /// [`Outbox::release`].
    pub(crate) fn keep(&self, key: Key, session_epoch: u64, item: S::Item, notable: bool) {
        self.put(key, session_epoch, item, notable, true);
    }

    /// Hands over a value that need not be written again once it was.
    pub(crate) fn once(&self, key: Key, session_epoch: u64, item: S::Item) {
        self.put(key, session_epoch, item, false, false);
    }

    /// Stops keeping an agent's value, after a last write if one is due.
    pub(crate) fn release(&self, key: &Key) {
        self.shelf.lock().release(key);
    }

    fn put(&self, key: Key, session_epoch: u64, item: S::Item, notable: bool, retained: bool) {
        let mut shelf = self.shelf.lock();
        let has_room = shelf.put(key, session_epoch, item, notable, retained);
        drop(shelf);
        if has_room {
            self.wake.notify_one();
        } else {
            tracing::warn!(outbox = self.name, "too many agents wait; one was left out");
        }
    }

    /// Writes everything that is kept once more: the store came back empty.
    pub(crate) fn rewrite(&self) {
        self.shelf.lock().requeue();
        self.wake.notify_one();
    }

    /// How many agents' values wait to be written.
    pub(crate) fn backlog(&self) -> usize {
        self.shelf.lock().queued()
    }

    /// One writer; start as many as writes must run at once. After `shutdown` it goes on while
    /// something waits and the store takes it.
    pub(crate) async fn write(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            let woken = self.wake.notified();
            let (keys, batch) = self.take();
            if batch.is_empty() {
                tokio::select! {
                    () = woken => continue,
                    () = shutdown.cancelled() => return,
                }
            }
            let written = tokio::time::timeout(WRITE_TIMEOUT, self.sink.write_all(&batch)).await;
            let outcomes = written.map_or_else(
                |_| vec![Outcome::Away; keys.len()],
                |written| written.iter().map(|it| self.judge(it)).collect(),
            );
            let is_away = outcomes.contains(&Outcome::Away);
            if self.settle(keys, &batch, outcomes) {
                self.wake.notify_one();
            }
            if is_away {
                tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                    () = shutdown.cancelled() => return,
                }
            }
        }
    }

    fn take(&self) -> (Vec<Key>, Vec<(S::Item, bool)>) {
        let mut shelf = self.shelf.lock();
        std::iter::from_fn(|| shelf.next())
            .take(S::BATCH_MAX)
            .map(|(key, item, notable)| (key, (item, notable)))
            .unzip()
    }

    fn judge(&self, written: &Result<(), Error>) -> Outcome {
        match written {
            Ok(()) => Outcome::Written,
            Err(error) if error.is_unavailable() => Outcome::Away,
            Err(error) => {
                tracing::error!(outbox = self.name, ?error, "a value cannot be stored");
                Outcome::Impossible
            }
        }
    }

    /// Books what became of a batch; true when more waits.
    fn settle(&self, keys: Vec<Key>, batch: &[(S::Item, bool)], outcomes: Vec<Outcome>) -> bool {
        let mut shelf = self.shelf.lock();
        let mut turns = Vec::new();
        for ((key, (_, notable)), outcome) in keys.into_iter().zip(batch).zip(outcomes) {
            turns.extend(shelf.done(key, *notable, outcome));
        }
        let more = shelf.has_queue();
        drop(shelf);
        for turn in turns {
            match turn {
                Turn::Lost => tracing::warn!(outbox = self.name, "the store is away"),
                Turn::Back => tracing::info!(outbox = self.name, "the store is back"),
            }
        }
        more
    }
}

/// What came of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Written,
    Away,
    Impossible,
}

/// A change in the store's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Lost,
    Back,
}

/// The bookkeeping, without locks or time.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    entries: BTreeMap<Key, Entry<T>>,
    queue: VecDeque<Key>,
    entries_max: usize,
    away: bool,
}

#[derive(Debug)]
struct Entry<T> {
    session_epoch: u64,
    item: T,
    notable: bool,
    retained: bool,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Idle,
    Queued,
    Writing,
    /// A newer value came while one was being written.
    Outdated,
}

impl<T: Clone> Shelf<T> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            queue: VecDeque::new(),
            entries_max,
            away: false,
        }
    }

    /// False when there is no room for another agent. What a session says that was replaced does
    /// not take the place of what the later one says, however late it comes.
    pub(crate) fn put(
        &mut self,
        key: Key,
        session_epoch: u64,
        item: T,
        notable: bool,
        retained: bool,
    ) -> bool {
        if let Some(entry) = self.entries.get_mut(&key) {
            if session_epoch < entry.session_epoch {
                return true;
            }
            entry.session_epoch = session_epoch;
            entry.item = item;
            entry.notable |= notable;
            entry.retained = retained;
            match entry.place {
                Place::Idle => {
                    entry.place = Place::Queued;
                    self.queue.push_back(key);
                }
                Place::Queued => {}
                Place::Writing | Place::Outdated => entry.place = Place::Outdated,
            }
            return true;
        }
        if self.entries.len() >= self.entries_max {
            return false;
        }
        self.queue.push_back(key.clone());
        let entry = Entry {
            session_epoch,
            item,
            notable,
            retained,
            place: Place::Queued,
        };
        self.entries.insert(key, entry);
        true
    }

    pub(crate) fn release(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.retained = false;
        if entry.place == Place::Idle {
            self.entries.remove(key);
        }
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn next(&mut self) -> Option<(Key, T, bool)> {
        while let Some(key) = self.queue.pop_front() {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.place = Place::Writing;
                let notable = std::mem::take(&mut entry.notable);
                return Some((key, entry.item.clone(), notable));
            }
        }
        None
    }

    pub(crate) fn done(&mut self, key: Key, notable: bool, outcome: Outcome) -> Option<Turn> {
        let turn = match (outcome, self.away) {
            (Outcome::Away, false) => Some(Turn::Lost),
            (Outcome::Written, true) => Some(Turn::Back),
            (Outcome::Away, true) | (Outcome::Written, false) | (Outcome::Impossible, _) => None,
        };
        match turn {
            Some(Turn::Lost) => self.away = true,
            Some(Turn::Back) => {
                self.away = false;
                self.requeue();
            }
            None => {}
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            let again = entry.place == Place::Outdated || outcome == Outcome::Away;
            if outcome == Outcome::Away {
                entry.notable |= notable;
            }
            if again {
                entry.place = Place::Queued;
                self.queue.push_back(key);
            } else if entry.retained {
                entry.place = Place::Idle;
            } else {
                self.entries.remove(&key);
            }
        }
        turn
    }

    /// A store that was away may have come back empty.
    pub(crate) fn requeue(&mut self) {
        for (key, entry) in &mut self.entries {
            if entry.place == Place::Idle {
                entry.place = Place::Queued;
                self.queue.push_back(key.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
