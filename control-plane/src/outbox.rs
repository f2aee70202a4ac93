//! Writes the newest value of each agent to a store that may be slow or away: one value waits per
//! agent however many were produced, agents are written in turn, one agent's values never overtake
//! each other, and after an outage everything that is still true is written again unasked.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_store::Error;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Pause of a writer whose store is away.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// How long one write may take; stores have shorter limits of their own.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Names one agent instance: gateway and instance.
pub(crate) type Key = (String, String);

/// Where values go.
pub(crate) trait Sink: Send + Sync + 'static {
    /// What is written; cheap to clone.
    type Item: Clone + Send + 'static;

    /// Writes one value. `notable` when any value since the last write was.
    fn write(
        &self,
        item: &Self::Item,
        notable: bool,
    ) -> impl Future<Output = Result<(), Error>> + Send;
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

    /// Hands over an agent's newest value. It is kept for rewriting until [`Outbox::release`].
    pub(crate) fn keep(&self, key: Key, item: S::Item, notable: bool) {
        self.put(key, item, notable, true);
    }

    /// Hands over a value that need not be written again once it was.
    pub(crate) fn once(&self, key: Key, item: S::Item) {
        self.put(key, item, false, false);
    }

    /// Stops keeping an agent's value, after a last write if one is due.
    pub(crate) fn release(&self, key: &Key) {
        self.shelf.lock().release(key);
    }

    fn put(&self, key: Key, item: S::Item, notable: bool, retained: bool) {
        if self.shelf.lock().put(key, item, notable, retained) {
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

    /// Whether values wait to be written.
    pub(crate) fn has_backlog(&self) -> bool {
        self.shelf.lock().has_queue()
    }

    /// One writer; start as many as writes shall run at once. After `shutdown` it goes on while
    /// something waits and the store takes it.
    pub(crate) async fn write(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            let woken = self.wake.notified();
            let Some((key, item, notable)) = self.shelf.lock().next() else {
                tokio::select! {
                    () = woken => continue,
                    () = shutdown.cancelled() => return,
                }
            };
            let written =
                tokio::time::timeout(WRITE_TIMEOUT, self.sink.write(&item, notable)).await;
            let outcome = match &written {
                Ok(Ok(())) => Outcome::Written,
                Ok(Err(error)) if error.is_unavailable() => Outcome::Away,
                Ok(Err(error)) => {
                    tracing::error!(outbox = self.name, ?error, "a value cannot be stored");
                    Outcome::Impossible
                }
                Err(_) => Outcome::Away,
            };
            let (turn, more) = {
                let mut shelf = self.shelf.lock();
                (shelf.done(key, notable, outcome), shelf.has_queue())
            };
            if more {
                self.wake.notify_one();
            }
            match turn {
                Some(Turn::Lost) => tracing::warn!(outbox = self.name, "the store is away"),
                Some(Turn::Back) => tracing::info!(outbox = self.name, "the store is back"),
                None => {}
            }
            if outcome == Outcome::Away {
                tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                    () = shutdown.cancelled() => return,
                }
            }
        }
    }
}

/// What came of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Written,
    Away,
    Impossible,
}

/// A change in the store's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Lost,
    Back,
}

/// The bookkeeping, without locks or time.
#[derive(Debug)]
struct Shelf<T> {
    entries: HashMap<Key, Entry<T>>,
    queue: VecDeque<Key>,
    entries_max: usize,
    away: bool,
}

#[derive(Debug)]
struct Entry<T> {
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
    fn new(entries_max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            queue: VecDeque::new(),
            entries_max,
            away: false,
        }
    }

    /// False when there is no room for another agent.
    fn put(&mut self, key: Key, item: T, notable: bool, retained: bool) -> bool {
        if let Some(entry) = self.entries.get_mut(&key) {
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
            item,
            notable,
            retained,
            place: Place::Queued,
        };
        self.entries.insert(key, entry);
        true
    }

    fn release(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.retained = false;
        if entry.place == Place::Idle {
            self.entries.remove(key);
        }
    }

    fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    fn next(&mut self) -> Option<(Key, T, bool)> {
        while let Some(key) = self.queue.pop_front() {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.place = Place::Writing;
                let notable = std::mem::take(&mut entry.notable);
                return Some((key, entry.item.clone(), notable));
            }
        }
        None
    }

    fn done(&mut self, key: Key, notable: bool, outcome: Outcome) -> Option<Turn> {
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
    fn requeue(&mut self) {
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
