//! Writes the last-known-good file beside the event loop: syncing a disk may take seconds, and
//! only the newest entry matters.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Cache, Entry, Error};
use crate::status::{Status, Topic};

/// Time between tries while the disk refuses.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Wish {
    entry: Option<Arc<Entry>>,
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

    /// This start went well.
    pub(crate) fn healthy(&self) {
        self.wish.send_modify(|wish| wish.healthy = true);
    }
}

async fn write(mut cache: Cache, mut wishes: watch::Receiver<Wish>, status: Arc<Status>) {
    let mut failing = false;
    loop {
        tokio::select! {
            // An unseen value is handed out before the closing is.
            changed = wishes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RETRY_INTERVAL), if failing => {}
        }
        let (entry, healthy) = {
            let wish = wishes.borrow_and_update();
            (wish.entry.clone(), wish.healthy)
        };
        let worked = tokio::task::spawn_blocking(move || {
            let outcome = fulfil(&mut cache, entry.as_deref(), healthy);
            (cache, outcome)
        });
        let Ok((back, outcome)) = worked.await else {
            tracing::error!("no longer writing the last-known-good file");
            return;
        };
        cache = back;
        failing = outcome.is_err();
        note(&status, outcome);
    }
}

fn fulfil(cache: &mut Cache, entry: Option<&Entry>, healthy: bool) -> Result<(), Error> {
    if let Some(entry) = entry {
        cache.store(entry)?;
    }
    if healthy { cache.healthy() } else { Ok(()) }
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
