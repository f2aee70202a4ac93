//! Stores the changes of state that agents report, in batches.
//!
//! They are the first to be shed under load: there is room for so many, and what does not fit is
//! not taken. Its agent keeps it and reports it again until it hears that it is stored, and counts
//! what it could not keep.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::transition::{EntryKind, TimelineEntry};
use lanekeeper_store::{ConfigStore, Error};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::publish::outbox::{Key, Outcome, RETRY_DELAY};

/// Changes that may wait in one process; about 10 MB.
pub(crate) const WAITING_MAX: usize = 20_000;
/// Changes that one transaction stores.
pub(crate) const BATCH_MAX: usize = 256;
/// How long one batch may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The writer waits so long for company of the first change that waits: a provider that fails opens
/// cells on all agents within a second.
const GATHER: Duration = Duration::from_millis(50);

/// The queue in front of the database.
pub(crate) struct TransitionOutbox {
    store: ConfigStore,
    metrics: Arc<Metrics>,
    queue: Mutex<TransitionQueue>,
    wake: Notify,
}

impl TransitionOutbox {
    pub(crate) fn new(store: ConfigStore, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            store,
            metrics,
            queue: Mutex::default(),
            wake: Notify::new(),
        })
    }

    /// Takes an agent's changes, as far as there is room.
    pub(crate) fn put(&self, key: Key, entries: Vec<TimelineEntry>) {
        let taken = self.queue.lock().put(key, entries);
        self.metrics.timeline.deferred(taken.deferred);
        self.metrics.timeline.shed(taken.shed);
        self.wake.notify_one();
    }

    /// Up to which number an agent's changes are stored; 0 when it is not known here.
    pub(crate) fn stored(&self, key: &Key) -> u64 {
        self.queue.lock().stored(key)
    }

    /// The agent's session is over.
    pub(crate) fn release(&self, key: &Key) {
        self.queue.lock().release(key);
    }

    /// Stores what waits. After `shutdown` it goes on while something waits and the store takes it.
    pub(crate) async fn write(self: Arc<Self>, shutdown: CancellationToken) {
        let mut healthy = true;
        loop {
            let woken = self.wake.notified();
            if self.queue.lock().is_empty() {
                tokio::select! {
                    () = woken => {}
                    () = shutdown.cancelled() => return,
                }
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    () = shutdown.cancelled() => {}
                }
            }
            let batch = self.queue.lock().take();
            if batch.is_empty() {
                continue;
            }
            let outcome = self.store(&batch).await;
            match (outcome, healthy) {
                (Outcome::Away, true) => tracing::warn!("changes of state are not stored for now"),
                (Outcome::Written, false) => tracing::info!("changes of state are stored again"),
                _ => {}
            }
            healthy = outcome != Outcome::Away;
            self.queue.lock().done(outcome);
            if outcome == Outcome::Away {
                tokio::select! {
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                    () = shutdown.cancelled() => return,
                }
            }
        }
    }

    async fn store(&self, batch: &[TimelineEntry]) -> Outcome {
        let written = self.store.record_transitions(batch);
        match tokio::time::timeout(WRITE_TIMEOUT, written).await {
            Ok(Ok(())) => {
                let changes = batch.iter().filter(|it| it.kind != EntryKind::Shed);
                self.metrics.timeline.stored(changes.count());
                Outcome::Written
            }
            Ok(Err(error)) => outcome_of(&error),
            Err(_) => Outcome::Away,
        }
    }
}

fn outcome_of(error: &Error) -> Outcome {
    if error.is_unavailable() {
        return Outcome::Away;
    }
    tracing::error!(?error, "changes of state cannot be stored");
    Outcome::Impossible
}

/// What waits, as a plain value.
#[derive(Debug, Default)]
pub(crate) struct TransitionQueue {
    agents: BTreeMap<Key, Numbers>,
    waiting: VecDeque<(Key, TimelineEntry)>,
    /// How many from the front are being stored.
    writing: usize,
}

/// What became of changes that were offered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Left to the agent for want of room.
    pub(crate) deferred: usize,
    /// That the agent could not keep, and were not known to be missing.
    pub(crate) shed: u64,
}

/// How far one agent's changes have come.
#[derive(Debug, Default)]
struct Numbers {
    /// Taken up to this one.
    queued: u64,
    /// Stored up to this one.
    stored: u64,
    /// The session is over.
    released: bool,
}

impl TransitionQueue {
    /// Takes an agent's changes, the earliest first.
    pub(crate) fn put(&mut self, key: Key, entries: Vec<TimelineEntry>) -> Taken {
        let numbers = self.agents.entry(key.clone()).or_default();
        numbers.released = false;
        let mut taken = Taken::default();
        for entry in entries {
            let through = entry.through();
            if through <= numbers.queued {
                continue;
            }
            // What follows one that is left out is left out too: numbers are acknowledged in order.
            if taken.deferred > 0 || self.waiting.len() >= WAITING_MAX {
                taken.deferred += 1;
                continue;
            }
            taken.shed += entry.shed().min(through - numbers.queued);
            numbers.queued = through;
            self.waiting.push_back((key.clone(), entry));
        }
        taken
    }

    /// Up to which number an agent's changes are stored.
    pub(crate) fn stored(&self, key: &Key) -> u64 {
        self.agents.get(key).map_or(0, |numbers| numbers.stored)
    }

    pub(crate) fn release(&mut self, key: &Key) {
        if let Some(numbers) = self.agents.get_mut(key) {
            numbers.released = true;
            if numbers.queued <= numbers.stored {
                self.agents.remove(key);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next batch; what came of it goes to [`TransitionQueue::done`].
    pub(crate) fn take(&mut self) -> Vec<TimelineEntry> {
        self.writing = self.waiting.len().min(BATCH_MAX);
        let batch = self.waiting.iter().take(self.writing);
        batch.map(|(_, entry)| entry.clone()).collect()
    }

    /// Books what became of the batch. One that can never be stored is given up, or nothing would
    /// ever be stored again.
    pub(crate) fn done(&mut self, outcome: Outcome) {
        let written = std::mem::take(&mut self.writing);
        match outcome {
            Outcome::Away => return,
            Outcome::Written | Outcome::Impossible => {}
        }
        for (key, entry) in self.waiting.drain(..written) {
            let Some(numbers) = self.agents.get_mut(&key) else {
                continue;
            };
            numbers.stored = numbers.stored.max(entry.through());
            if numbers.released && numbers.queued <= numbers.stored {
                self.agents.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lanekeeper_model::CellState;
    use lanekeeper_model::transition::{Reporter, ShedTransitions, TransitionReport};

    use super::*;

    fn key(instance: &str) -> Key {
        ("edge".to_owned(), instance.to_owned())
    }

    fn entries(instance: &str, numbers: impl IntoIterator<Item = u64>) -> Vec<TimelineEntry> {
        let gateway = "edge".into();
        let reporter = Reporter {
            gateway: &gateway,
            instance,
            agent: "a",
            received_ms: 1000,
        };
        let opened = |sequence| TransitionReport {
            sequence,
            age_ms: 0,
            pool: "chat".into(),
            lane: "sonnet".into(),
            provider: "p".into(),
            endpoint: None,
            from: CellState::Closed,
            to: CellState::Open,
            reason: "count".to_owned(),
            failures: 1,
            samples: 1,
            cause: None,
            cooldown_ms: 1,
            observed: false,
        };
        let numbers = numbers.into_iter();
        numbers
            .map(|number| reporter.entry(opened(number)))
            .collect()
    }

    fn numbers(batch: &[TimelineEntry]) -> Vec<u64> {
        batch.iter().map(|entry| entry.sequence).collect()
    }

    #[test]
    fn a_change_that_is_reported_again_waits_once_and_is_acknowledged_when_stored() {
        let mut queue = TransitionQueue::default();
        assert_eq!(queue.put(key("a"), entries("a", 1..=2)), Taken::default());
        queue.put(key("a"), entries("a", 1..=3));
        queue.put(key("b"), entries("b", 1..=1));
        let batch = queue.take();
        assert_eq!(numbers(&batch), [1, 2, 3, 1]);
        assert_eq!(queue.stored(&key("a")), 0);
        queue.done(Outcome::Away);
        assert_eq!(
            queue.take().len(),
            4,
            "nothing is lost while the store is away"
        );
        queue.put(key("a"), entries("a", 1..=4));
        queue.done(Outcome::Written);
        assert_eq!((queue.stored(&key("a")), queue.stored(&key("b"))), (3, 1));
        assert_eq!(numbers(&queue.take()), [4]);
    }

    #[test]
    fn what_does_not_fit_is_not_acknowledged_and_comes_again() {
        let mut queue = TransitionQueue::default();
        let fitting = WAITING_MAX as u64;
        let taken = queue.put(key("a"), entries("a", 1..=fitting + 2));
        assert_eq!(taken.deferred, 2);
        while !queue.is_empty() {
            queue.take();
            queue.done(Outcome::Written);
        }
        assert_eq!(queue.stored(&key("a")), fitting);
        let taken = queue.put(key("a"), entries("a", fitting..=fitting + 2));
        assert_eq!(taken.deferred, 0);
        assert_eq!(numbers(&queue.take()), [fitting + 1, fitting + 2]);
    }

    #[test]
    fn missing_changes_are_acknowledged_by_their_last_number() {
        let mut queue = TransitionQueue::default();
        let gateway = "edge".into();
        let reporter = Reporter {
            gateway: &gateway,
            instance: "a",
            agent: "a",
            received_ms: 1000,
        };
        let missing = |last| {
            let shed = ShedTransitions {
                first: 1,
                last,
                age_ms: 0,
            };
            vec![reporter.shed(shed)]
        };
        assert_eq!(queue.put(key("a"), missing(5)).shed, 5);
        assert_eq!(
            queue.put(key("a"), missing(9)).shed,
            4,
            "the others are known"
        );
        let batch = queue.take();
        assert_eq!(
            batch.iter().map(TimelineEntry::shed).collect::<Vec<_>>(),
            [5, 9]
        );
        queue.done(Outcome::Written);
        assert_eq!(queue.stored(&key("a")), 9);
    }

    #[test]
    fn nothing_is_kept_of_an_agent_that_left_once_its_changes_are_stored() {
        let mut queue = TransitionQueue::default();
        queue.put(key("a"), entries("a", 1..=1));
        queue.release(&key("a"));
        queue.take();
        queue.done(Outcome::Written);
        queue.put(key("b"), entries("b", 1..=1));
        queue.take();
        queue.done(Outcome::Written);
        queue.release(&key("b"));
        assert!(queue.agents.is_empty() && queue.is_empty());
    }
}
