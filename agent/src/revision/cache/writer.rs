//! Writes the last-known-good file and the orders beside the event loop: syncing a disk may take
//! seconds, and only the newest of each matters.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use lanekeeper_model::Override;

use super::orders::{Held, Moment, REFRESH_INTERVAL};
use super::{Cache, Entry, Error};
use crate::clock;
use crate::status::{Status, Topic};

/// Time between tries while the disk refuses.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
struct Wish {
    entry: Option<Arc<Entry>>,
    orders: Option<Held>,
    healthy: bool,
}

/// Hands entries to a task that writes them. The task ends after the last write once every clone
/// is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    wish: watch::Sender<Wish>,
}

impl Writer {
    /// Starts the task on the current runtime.
    pub(crate) fn start(cache: Cache, status: Arc<Status>) -> (Self, JoinHandle<()>) {
        let (wish, wishes) = watch::channel(Wish::default());
        let task = tokio::spawn(write(cache, wishes, status));
        (Self { wish }, task)
    }

    /// Makes `entry` the newest one, soon.
    pub(crate) fn keep(&self, entry: Entry) {
        self.wish
            .send_modify(|wish| wish.entry = Some(Arc::new(entry)));
    }

    /// Makes `orders` the ones that a start without a control plane begins with, soon.
    pub(crate) fn keep_orders(&self, orders: &[Override]) {
        let held = Held::new(orders, clock::now());
        self.wish.send_modify(|wish| wish.orders = Some(held));
    }

    /// This start went well.
    pub(crate) fn healthy(&self) {
        self.wish.send_modify(|wish| wish.healthy = true);
    }
}

async fn write(mut cache: Cache, mut wishes: watch::Receiver<Wish>, status: Arc<Status>) {
    let (mut failing, mut refreshing) = (false, false);
    let mut written: Option<Arc<Entry>> = None;
    loop {
        tokio::select! {
            // An unseen value is handed out before the closing is.
            changed = wishes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY_INTERVAL), if failing => {}
            () = tokio::time::sleep(REFRESH_INTERVAL), if refreshing => {}
        }
        let mut wish = wishes.borrow_and_update().clone();
        let entry = wish.entry.clone();
        if let (Some(entry), Some(written)) = (&wish.entry, &written)
            && Arc::ptr_eq(entry, written)
        {
            wish.entry = None;
        }
        refreshing = is_standing(&wish);
        let worked = tokio::task::spawn_blocking(move || {
            let outcome = fulfil(&mut cache, &wish);
            (cache, outcome)
        });
        let Ok((back, outcome)) = worked.await else {
            tracing::error!("no longer writing the last-known-good file");
            return;
        };
        cache = back;
        failing = outcome.is_err();
        if !failing {
            written = entry;
        }
        note(&status, outcome);
    }
}

/// Orders stand, so that what is left of them has to be written again.
fn is_standing(wish: &Wish) -> bool {
    let orders = wish.orders.as_ref();
    orders.is_some_and(|held| !held.at(clock::now()).is_empty())
}

/// Neither the orders nor a document that finds no room costs the other.
fn fulfil(cache: &mut Cache, wish: &Wish) -> Result<(), Error> {
    let orders = wish.orders.as_ref().map_or(Ok(()), |held| {
        let now_ms = u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX);
        cache.store_orders(held.at(clock::now()), Moment::at(now_ms))
    });
    let entry = match &wish.entry {
        Some(entry) => cache.store(entry),
        None => Ok(()),
    };
    let healthy = if wish.healthy {
        cache.healthy()
    } else {
        Ok(())
    };
    orders.and(entry).and(healthy)
}

/// A disk that refuses is a problem to show, never a reason to stop serving.
fn note(status: &Status, outcome: Result<(), Error>) {
    match outcome {
        Ok(()) => {
            if status.clear(Topic::CacheWrite) {
                tracing::info!("the last-known-good file can be written again");
            }
        }
        Err(error) => {
            if status.raise(Topic::CacheWrite, error.to_string()) {
                tracing::warn!(%error, "cannot write the last-known-good file");
            }
        }
    }
}
