//! Follows which agents someone took out of service.
//!
//! The list is short and the same for all sessions, so it is read whole. While the database is away
//! the known one goes on.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_store::{ConfigStore, Hint};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::override_watch::override_hint;

/// How far a poll may be from its time, as a share, so that replicas do not poll in step.
const POLL_JITTER: f64 = 0.2;
/// Shortest time between two polls, however many hints come.
const POLL_GAP: Duration = Duration::from_millis(20);
/// How long one poll may take.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);

/// The instances that are out of service.
pub(crate) type Drained = Arc<HashSet<String>>;

/// The followed list.
pub(crate) struct DrainWatch {
    store: ConfigStore,
    known: watch::Sender<Drained>,
}

impl DrainWatch {
    pub(crate) fn new(store: ConfigStore) -> Arc<Self> {
        Arc::new(Self {
            store,
            known: watch::Sender::default(),
        })
    }

    /// The list, now and later.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Drained> {
        self.known.subscribe()
    }

    /// Polls until told to stop.
    pub(crate) async fn follow(
        self: Arc<Self>,
        mut hints: broadcast::Receiver<Hint>,
        interval: Duration,
        shutdown: CancellationToken,
    ) {
        let mut hinting = true;
        loop {
            // What was hinted at until now is covered by the poll that follows.
            hints = hints.resubscribe();
            self.poll().await;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(clock::jittered(interval, POLL_JITTER)) => {}
                open = override_hint(&mut hints), if hinting => hinting = open,
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(POLL_GAP) => {}
            }
        }
    }

    /// Reads the list. An outage is told by the watch over revisions, which reads the same store.
    async fn poll(&self) {
        match tokio::time::timeout(POLL_TIMEOUT, self.store.drained_agents()).await {
            Ok(Ok(instances)) => {
                let read: HashSet<String> = instances.into_iter().collect();
                self.known.send_if_modified(|known| {
                    let changed = **known != read;
                    if changed {
                        *known = Arc::new(read);
                    }
                    changed
                });
            }
            Ok(Err(error)) => tracing::debug!(%error, "the drained agents cannot be read"),
            Err(_) => tracing::debug!("the drained agents cannot be read in time"),
        }
    }
}
