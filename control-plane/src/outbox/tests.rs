//! The shelf's rules, and the writer against a store that goes and comes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

fn key(name: &str) -> Key {
    ("edge".to_owned(), name.to_owned())
}

#[test]
fn newer_value_replaces_the_waiting_one_and_keeps_its_notability() {
    let mut shelf = Shelf::new(8);
    assert!(shelf.put(key("a"), 1, true, true));
    assert!(shelf.put(key("a"), 2, false, true));
    assert_eq!(shelf.next(), Some((key("a"), 2, true)));
    assert_eq!(shelf.next(), None);
}

#[test]
fn value_that_comes_during_a_write_is_written_after_it() {
    let mut shelf = Shelf::new(8);
    shelf.put(key("a"), 1, false, true);
    shelf.next();
    shelf.put(key("a"), 2, false, true);
    assert_eq!(shelf.next(), None, "one agent's values do not overtake");
    shelf.done(key("a"), false, Outcome::Written);
    assert_eq!(shelf.next(), Some((key("a"), 2, false)));
}

#[test]
fn outage_brings_everything_that_is_still_true_back() {
    let mut shelf = Shelf::new(8);
    shelf.put(key("a"), 1, false, true);
    shelf.next();
    shelf.done(key("a"), false, Outcome::Written);
    shelf.put(key("b"), 2, true, true);
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
    shelf.put(key("a"), 1, false, true);
    shelf.release(&key("a"));
    assert!(!shelf.put(key("b"), 2, false, true), "no room yet");
    assert_eq!(shelf.next(), Some((key("a"), 1, false)));
    shelf.done(key("a"), false, Outcome::Written);
    assert!(shelf.put(key("b"), 2, false, true));
}

#[test]
fn value_that_can_never_be_stored_is_not_tried_for_ever() {
    let mut shelf = Shelf::new(8);
    shelf.put(key("a"), 1, false, false);
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

    outbox.keep(key("a"), 1, false);
    eventually(|| *sink.written.lock() == [1]).await;
    sink.away.store(true, Ordering::SeqCst);
    outbox.keep(key("b"), 2, false);
    eventually(|| sink.failed.load(Ordering::SeqCst) > 0).await;
    outbox.keep(key("b"), 3, false);
    sink.away.store(false, Ordering::SeqCst);
    eventually(|| *sink.written.lock() == [1, 3, 1]).await;

    shutdown.cancel();
    writer.await.unwrap();
}

async fn eventually(predicate: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !predicate() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "it never came true");
}
