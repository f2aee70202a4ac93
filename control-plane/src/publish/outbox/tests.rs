//! The shelf's rules, and the writer against a store that goes and comes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

fn key(name: &str) -> Key {
    ("edge".to_owned(), name.to_owned())
}

#[test]
fn newer_value_replaces_the_waiting_one_and_keeps_its_notability() {
    let mut shelf = Shelf::new(8);
    assert!(shelf.put(key("a"), 1, 1, true, true));
    assert!(shelf.put(key("a"), 1, 2, false, true));
    assert_eq!(shelf.next(), Some((key("a"), 2, true)));
    assert_eq!(shelf.next(), None);
}

#[test]
fn value_that_comes_during_a_write_is_written_after_it() {
    let mut shelf = Shelf::new(8);
    shelf.put(key("a"), 1, 1, false, true);
    shelf.next();
    shelf.put(key("a"), 1, 2, false, true);
    assert_eq!(shelf.next(), None, "one agent's values do not overtake");
    shelf.done(key("a"), false, Outcome::Written);
    assert_eq!(shelf.next(), Some((key("a"), 2, false)));
}

#[test]
fn late_word_of_a_replaced_session_does_not_take_the_place_of_the_later_one() {
    let mut shelf = Shelf::new(8);
    shelf.put(key("a"), 5, 1, false, true);
    shelf.put(key("a"), 9, 2, false, true);
    assert!(shelf.put(key("a"), 5, 3, true, false));
    assert_eq!(shelf.next(), Some((key("a"), 2, false)));
    shelf.done(key("a"), false, Outcome::Written);
    shelf.requeue();
    assert_eq!(shelf.next(), Some((key("a"), 2, false)), "and it is kept");
}

#[test]
fn outage_brings_everything_that_is_still_true_back() {
    let mut shelf = Shelf::new(8);
    shelf.put(key("a"), 1, 1, false, true);
    shelf.next();
    shelf.done(key("a"), false, Outcome::Written);
    shelf.put(key("b"), 1, 2, true, true);
    shelf.next();
    assert_eq!(shelf.done(key("b"), true, Outcome::Away), Some(Turn::Lost));
    assert_eq!(shelf.next(), Some((key("b"), 2, true)));
    assert_eq!(
        shelf.done(key("b"), true, Outcome::Written),
        Some(Turn::Back)
    );
    assert_eq!(shelf.next(), Some((key("a"), 1, false)));
}

#[test]
fn released_value_leaves_after_its_last_write() {
    let mut shelf = Shelf::new(1);
    shelf.put(key("a"), 1, 1, false, true);
    shelf.release(&key("a"));
    assert!(!shelf.put(key("b"), 1, 2, false, true), "no room yet");
    assert_eq!(shelf.next(), Some((key("a"), 1, false)));
    shelf.done(key("a"), false, Outcome::Written);
    assert!(shelf.put(key("b"), 1, 2, false, true));
}

#[test]
fn value_that_can_never_be_stored_is_not_tried_for_ever() {
    let mut shelf = Shelf::new(8);
    shelf.put(key("a"), 1, 1, false, false);
    shelf.next();
    assert_eq!(shelf.done(key("a"), false, Outcome::Impossible), None);
    assert_eq!(shelf.next(), None);
    assert!(shelf.entries.is_empty());
}

#[derive(Default)]
struct Flaky {
    away: AtomicBool,
    failed: AtomicUsize,
    written: Mutex<Vec<u64>>,
}

impl Sink for Arc<Flaky> {
    type Item = u64;

    async fn write(&self, item: &u64, _notable: bool) -> Result<(), Error> {
        if self.away.load(Ordering::SeqCst) {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return Err(Error::Unavailable {
                store: "live view",
                source: "away".into(),
            });
        }
        self.written.lock().push(*item);
        Ok(())
    }
}

#[tokio::test]
async fn records_are_rewritten_after_an_outage_without_asking_agents() {
    let sink = Arc::new(Flaky::default());
    let outbox = Outbox::new("test", Arc::clone(&sink), 16);
    let shutdown = CancellationToken::new();
    let writer = tokio::spawn(Arc::clone(&outbox).write(shutdown.clone()));

    outbox.keep(key("a"), 1, 1, false);
    eventually(|| *sink.written.lock() == [1]).await;
    sink.away.store(true, Ordering::SeqCst);
    outbox.keep(key("b"), 1, 2, false);
    eventually(|| sink.failed.load(Ordering::SeqCst) > 0).await;
    outbox.keep(key("b"), 1, 3, false);
    sink.away.store(false, Ordering::SeqCst);
    eventually(|| *sink.written.lock() == [1, 3, 1]).await;

    shutdown.cancel();
    writer.await.unwrap();
}

/// Takes whole batches, unless one holds the number 13.
#[derive(Default)]
struct Batches(Mutex<Vec<Vec<u64>>>);

impl Sink for Arc<Batches> {
    type Item = u64;

    const BATCH_MAX: usize = 3;

    async fn write(&self, item: &u64, _notable: bool) -> Result<(), Error> {
        self.0.lock().push(vec![*item]);
        Ok(())
    }

    async fn write_all(&self, batch: &[(u64, bool)]) -> Vec<Result<(), Error>> {
        self.0
            .lock()
            .push(batch.iter().map(|(item, _)| *item).collect());
        let judged = batch.iter().map(|(item, _)| match item {
            13 => Err(Error::Corrupt("thirteen".to_owned())),
            _ => Ok(()),
        });
        judged.collect()
    }
}

#[tokio::test]
async fn what_waits_is_written_in_batches_and_each_value_has_its_own_outcome() {
    let sink = Arc::new(Batches::default());
    let outbox = Outbox::new("test", Arc::clone(&sink), 16);
    for (name, value) in [("a", 1), ("b", 13), ("c", 2), ("d", 3)] {
        outbox.once(key(name), 1, value);
    }
    let shutdown = CancellationToken::new();
    let writer = tokio::spawn(Arc::clone(&outbox).write(shutdown.clone()));
    eventually(|| *sink.0.lock() == [vec![1, 13, 2], vec![3]]).await;
    shutdown.cancel();
    writer.await.unwrap();
    assert!(
        outbox.shelf.lock().entries.is_empty(),
        "none is tried again"
    );
}

async fn eventually(predicate: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !predicate() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "it never came true");
}
