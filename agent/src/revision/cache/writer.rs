//! Writes the last-known-good file and the overrides beside the event loop: syncing a disk may take
//! seconds, and only the newest of each matters.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use lanekeeper_model::Override;

use super::overrides::{Held, Moment, REFRESH_INTERVAL};
use super::{Cache, Entry, Error};
use crate::clock;
use crate::status::{Status, Topic};

/// Time between tries while the disk refuses.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
struct Pending {
    entry: Option<Arc<Entry>>,
    overrides: Option<Held>,
    healthy: bool,
}

/// Hands entries to a task that writes them. The task ends after the last write once every clone
/// is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pending: watch::Sender<Pending>,
}

impl Writer {
    /// Starts the task on the current runtime.
    pub(crate) fn start(cache: Cache, status: Arc<Status>) -> (Self, JoinHandle<()>) {
        let (pending, updates) = watch::channel(Pending::default());
        let task = tokio::spawn(write(cache, updates, status));
        (Self { pending }, task)
    }

    /// Makes `entry` the newest one, soon.
    pub(crate) fn keep(&self, entry: Entry) {
        self.pending
            .send_modify(|pending| pending.entry = Some(Arc::new(entry)));
    }

    /// Makes `overrides` the ones that a start without a control plane begins with, soon.
    pub(crate) fn keep_overrides(&self, overrides: &[Override]) {
        let held = Held::new(overrides, clock::now());
        self.pending
            .send_modify(|pending| pending.overrides = Some(held));
    }

    /// This start went well.
    pub(crate) fn healthy(&self) {
        self.pending.send_modify(|pending| pending.healthy = true);
    }
}

async fn write(mut cache: Cache, mut updates: watch::Receiver<Pending>, status: Arc<Status>) {
    let (mut failing, mut refreshing) = (false, false);
    let mut written: Option<Arc<Entry>> = None;
    loop {
        tokio::select! {
            // An unseen value is handed out before the closing is.
            changed = updates.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY_INTERVAL), if failing => {}
            () = tokio::time::sleep(REFRESH_INTERVAL), if refreshing => {}
        }
        let mut pending = updates.borrow_and_update().clone();
        let entry = pending.entry.clone();
        if let (Some(entry), Some(written)) = (&pending.entry, &written)
            && Arc::ptr_eq(entry, written)
        {
            pending.entry = None;
        }
        refreshing = is_refreshing(&pending);
        let worked = tokio::task::spawn_blocking(move || {
            let outcome = fulfil(&mut cache, &pending);
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

/// Overrides are active, so that what is left of them has to be written again.
fn is_refreshing(pending: &Pending) -> bool {
    let overrides = pending.overrides.as_ref();
    overrides.is_some_and(|held| !held.at(clock::now()).is_empty())
}

/// Neither the overrides nor a document that finds no room costs the other.
fn fulfil(cache: &mut Cache, pending: &Pending) -> Result<(), Error> {
    let overrides = pending.overrides.as_ref().map_or(Ok(()), |held| {
        let now_ms = u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX);
        cache.store_overrides(held.at(clock::now()), Moment::at(now_ms))
    });
    let entry = match &pending.entry {
        Some(entry) => cache.store(entry),
        None => Ok(()),
    };
    let healthy = if pending.healthy {
        cache.healthy()
    } else {
        Ok(())
    };
    overrides.and(entry).and(healthy)
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
