//! The snapshot of the fleet that every read of it shares.
//!
//! One task reads what changed, woken by hints and at least each second, and only while somebody
//! looks. It puts the fleet together once; requests choose among the finished rows and touch no
//! agent's data, unless they ask for it.

mod agents;
mod cells;
pub(crate) mod change;
pub(crate) mod etag;
mod sharing;
mod snapshot;
mod state;
mod stored_agents;
mod traffic;

pub(crate) use snapshot::FleetSnapshot;

use crate::clock;
use crate::error::Error;
use cells::RevisionCells;
use lanekeeper_model::FleetView;
use lanekeeper_store::{ConfigStore, LiveView};
use snapshot::Sources;
use state::{FleetState, SharedIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The snapshot is taken again at least this often while somebody looks.
const REFRESH_PERIOD: Duration = Duration::from_secs(1);
/// Shortest pause between two snapshots: hints come in swarms when a provider fails.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);
/// The pause is this many times as long as the snapshot took, so that a large fleet does not keep a
/// core busy; [`REFRESH_PERIOD`] at most.
const REFRESH_EASE: u32 = 15;
/// A snapshot younger than this serves a request at once.
const FRESH_ENOUGH: Duration = Duration::from_millis(1500);
/// How long the snapshot is kept fresh after the last look.
const ATTENTION_MS: u64 = 15_000;
/// Longest wait of a request for a snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// The latest snapshot, and what makes its task go.
pub(crate) struct Fleet {
    latest: watch::Sender<Option<Arc<FleetSnapshot>>>,
    wanted: Notify,
    looked_ms: AtomicU64,
    index: SharedIndex,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            latest: watch::Sender::new(None),
            wanted: Notify::new(),
            looked_ms: AtomicU64::new(0),
            index: SharedIndex::default(),
        }
    }
}

impl Fleet {
    /// Something changed: the snapshot is worth taking again.
    pub(crate) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// A snapshot that is at most [`FRESH_ENOUGH`] old.
    pub(crate) async fn snapshot(&self) -> Result<Arc<FleetSnapshot>, Error> {
        self.look();
        let mut latest = self.latest.subscribe();
        let now = clock::instant();
        let fresh = |snapshot: &Option<Arc<FleetSnapshot>>| {
            snapshot
                .as_ref()
                .is_some_and(|snapshot| snapshot.is_fresh(now))
        };
        if !fresh(&latest.borrow()) {
            self.wake();
        }
        let snapshot = match timeout(SNAPSHOT_TIMEOUT, latest.wait_for(fresh)).await {
            Ok(Ok(snapshot)) => snapshot.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        snapshot.ok_or(Error::Overdue)?.usable()
    }

    /// Asks for a first snapshot without waiting for it.
    pub(crate) fn prepare(&self) {
        self.look();
        self.wake();
    }

    /// Whether the fleet was read whole at least once.
    pub(crate) fn has_snapshot(&self) -> bool {
        self.latest
            .borrow()
            .as_ref()
            .is_some_and(|snapshot| snapshot.is_usable())
    }

    /// Follows the snapshots as they are taken.
    pub(crate) fn follow(&self) -> watch::Receiver<Option<Arc<FleetSnapshot>>> {
        self.latest.subscribe()
    }

    /// Notes that somebody looks.
    pub(crate) fn look(&self) {
        self.looked_ms.store(clock::now_ms(), Ordering::Relaxed);
    }

    /// Adds each agent's own report to a view of a snapshot.
    pub(crate) fn add_agents(&self, view: &mut FleetView, snapshot: &FleetSnapshot) {
        self.index.add_agents(view, &snapshot.folded);
    }

    /// Takes snapshots until the server ends.
    pub(crate) async fn keep_fresh(
        &self,
        store: &ConfigStore,
        live: &dyn LiveView,
        closing: &CancellationToken,
    ) {
        let sources = Sources {
            store,
            live,
            index: &self.index,
        };
        let mut cells = RevisionCells::default();
        let mut state = FleetState::new(clock::instant());
        loop {
            let wait = async {
                if self.is_watched() {
                    let _ = timeout(REFRESH_PERIOD, self.wanted.notified()).await;
                } else {
                    self.wanted.notified().await;
                }
            };
            tokio::select! {
                () = closing.cancelled() => return,
                () = wait => {}
            }
            if !self.is_watched() {
                continue;
            }
            let before = self.latest.borrow().clone();
            let snapshot = snapshot::take(&sources, &mut cells, &mut state, before).await;
            let cost = clock::instant().saturating_duration_since(snapshot.taken);
            self.latest.send_replace(Some(Arc::new(snapshot)));
            let pause = REFRESH_PAUSE
                .max(cost.saturating_mul(REFRESH_EASE))
                .min(REFRESH_PERIOD);
            tokio::select! {
                () = closing.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn is_watched(&self) -> bool {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        clock::now_ms().saturating_sub(looked_ms) < ATTENTION_MS
    }
}

impl FleetSnapshot {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.taken) < FRESH_ENOUGH
    }
}
