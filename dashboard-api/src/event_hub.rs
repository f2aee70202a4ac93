//! What changed for pages that are open: computed once for all of them, numbered, and kept for a
//! while, so that a page that lost its connection goes on where it was.
//!
//! One task compares each snapshot of the fleet with the one before, while some page is open or was
//! a moment ago. A page that is further behind than what is kept begins anew, and is informed of it.

mod compare;
mod event;
mod state;

pub(crate) use event::{
    AcknowledgementsEvent, AgentsEvent, CellsEvent, IncidentsEvent, OverridesEvent, PageEvent,
    PageSnapshot, ResetEvent, RolloutEvent,
};

use crate::clock;
use crate::fleet_view::{Fleet, FleetSnapshot};
use lanekeeper_store::{ConfigStore, StoredIncident};
use state::PageState;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Pages that may be open at once.
pub(crate) const PAGES_MAX: usize = 1_000;
/// Pages that may be open at once with one token.
pub(crate) const PAGES_OF_TOKEN_MAX: usize = 100;
/// Changes that are kept for pages that come back.
const EVENTS_MAX: usize = 2_048;
/// Bytes of such changes.
const EVENTS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most changes that one page takes at once.
pub(crate) const BATCH_MAX: usize = 64;
/// Changes are computed for so long after the last page has left: its browser may come back.
const ATTENTION_MS: u64 = 30_000;
/// How often the task notes that somebody looks.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// Longest wait for an incident that ended. It is read again with the next snapshot.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct EventHub {
    /// Distinguishes this process's numbers from those of another.
    epoch: String,
    inner: Mutex<Inner>,
    published: watch::Sender<u64>,
    pages: AtomicUsize,
    left_ms: AtomicU64,
    wake: Notify,
}

struct Inner {
    /// Number of the next change.
    next: u64,
    events: VecDeque<Arc<PageEvent>>,
    bytes: usize,
    state: Option<Arc<PageState>>,
}

/// An open page, until it is dropped.
pub(crate) struct OpenPage(Arc<EventHub>);

/// What a page is to be sent next.
pub(crate) enum Next {
    /// These, and then those from this number on.
    Events(Vec<Arc<PageEvent>>, u64),
    /// It is too far behind, or its number is not of this process.
    Behind,
}

impl Default for EventHub {
    fn default() -> Self {
        Self {
            epoch: uuid::Uuid::now_v7().simple().to_string(),
            inner: Mutex::new(Inner {
                next: 1,
                events: VecDeque::new(),
                bytes: 0,
                state: None,
            }),
            published: watch::Sender::new(0),
            pages: AtomicUsize::new(0),
            left_ms: AtomicU64::new(0),
            wake: Notify::new(),
        }
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.left_ms.store(clock::now_ms(), Ordering::Relaxed);
        self.0.pages.fetch_sub(1, Ordering::AcqRel);
    }
}

impl OpenPage {
    /// Where it is open.
    pub(crate) fn hub(&self) -> &EventHub {
        &self.0
    }
}

impl EventHub {
    /// A page opens.
    pub(crate) fn open(self: &Arc<Self>) -> OpenPage {
        self.pages.fetch_add(1, Ordering::AcqRel);
        self.wake.notify_one();
        OpenPage(Arc::clone(self))
    }

    /// Changes whenever there is something new.
    pub(crate) fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// The id of the change with this number.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.epoch)
    }

    /// The number after the one of an id; `None` when it is not of this process.
    pub(crate) fn after(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.rsplit_once('-')?;
        let number: u64 = number.parse().ok()?;
        (epoch == self.epoch).then_some(number.checked_add(1)?)
    }

    /// All there is to show, of one gateway or of all, and the number of the change that follows;
    /// `None` while nothing was computed.
    pub(crate) fn snapshot(&self, gateway: Option<&str>) -> Option<(PageSnapshot, u64)> {
        let (state, next) = {
            let inner = self.lock();
            (inner.state.clone()?, inner.next)
        };
        Some((state.snapshot(gateway, clock::now_ms()), next))
    }

    /// What a page is to be sent that has had all before this number.
    pub(crate) fn since(&self, number: u64, gateway: Option<&str>) -> Next {
        let inner = self.lock();
        let first = inner.next - inner.events.len() as u64;
        if !(first..=inner.next).contains(&number) || inner.state.is_none() {
            return Next::Behind;
        }
        let skipped = usize::try_from(number - first).unwrap_or(usize::MAX);
        let mut after = number;
        let mut taken = Vec::new();
        for event in inner.events.iter().skip(skipped) {
            after = event.number + 1;
            if event.concerns(gateway) {
                taken.push(Arc::clone(event));
            }
            if taken.len() >= BATCH_MAX {
                break;
            }
        }
        Next::Events(taken, after)
    }

    /// Computes changes until the server ends.
    pub(crate) async fn keep(
        self: Arc<Self>,
        fleet: &Fleet,
        store: &ConfigStore,
        closing: CancellationToken,
    ) {
        let mut snapshots = fleet.follow();
        loop {
            if !self.is_watched() {
                self.forget();
                tokio::select! {
                    () = closing.cancelled() => return,
                    () = self.wake.notified() => {}
                }
                snapshots.mark_changed();
            }
            fleet.look();
            tokio::select! {
                () = closing.cancelled() => return,
                changed = snapshots.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK_PERIOD) => continue,
            }
            let snapshot = snapshots.borrow_and_update().clone();
            if let Some(snapshot) = snapshot
                && let Ok(snapshot) = snapshot.usable()
            {
                self.take(snapshot, store).await;
            }
        }
    }

    /// Compares a snapshot with what was there before.
    async fn take(&self, snapshot: Arc<FleetSnapshot>, store: &ConfigStore) {
        let before = self.lock().state.clone();
        let ended = match &before {
            Some(before) => ended(before, &snapshot, store).await,
            None => Vec::new(),
        };
        // In a large fleet it takes a while, beside the threads that serve requests.
        let compared = tokio::task::spawn_blocking(move || {
            let now_ms = clock::now_ms();
            let after = PageState::of(&snapshot, &ended, now_ms);
            let events = before.map(|before| compare::events(&before, &after, &snapshot, &ended));
            (after, events.unwrap_or_default())
        });
        match compared.await {
            Ok((state, events)) => self.publish(state, events),
            Err(error) => tracing::error!(%error, "changes for pages could not be computed"),
        }
    }

    fn publish(&self, state: PageState, events: Vec<event::Draft>) {
        let mut inner = self.lock();
        for draft in events {
            let event = Arc::new(draft.numbered(inner.next));
            inner.next += 1;
            inner.bytes += event.data.len();
            inner.events.push_back(event);
        }
        while inner.events.len() > EVENTS_MAX || inner.bytes > EVENTS_BYTES_MAX {
            let Some(dropped) = inner.events.pop_front() else {
                break;
            };
            inner.bytes -= dropped.data.len();
        }
        inner.state = Some(Arc::new(state));
        drop(inner);
        self.published.send_modify(|count| *count += 1);
    }

    /// Nobody looks: what changes from now on is not noticed, so no page can go on from before.
    fn forget(&self) {
        let mut inner = self.lock();
        if inner.state.take().is_some() {
            inner.next += 1;
            inner.events.clear();
            inner.bytes = 0;
        }
    }

    fn is_watched(&self) -> bool {
        let left_ms = self.left_ms.load(Ordering::Relaxed);
        self.pages.load(Ordering::Acquire) > 0
            || clock::now_ms().saturating_sub(left_ms) < ATTENTION_MS
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What is under it is changed in steps that cannot panic half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The incidents that went on before and do not any more, as they are now. One that cannot be read
/// goes on for the time being.
async fn ended(
    before: &PageState,
    snapshot: &FleetSnapshot,
    store: &ConfigStore,
) -> Vec<Arc<StoredIncident>> {
    let mut ended = Vec::new();
    for (id, known) in &before.incidents {
        let is_open = |open: &Arc<StoredIncident>| open.incident.id == *id;
        if !known.incident.is_open() || snapshot.incidents.iter().any(is_open) {
            continue;
        }
        let read = tokio::time::timeout(READ_TIMEOUT, store.incident(id)).await;
        let read = match read {
            Ok(Ok(read)) => read.map(Arc::new),
            Ok(Err(_)) | Err(_) => Some(Arc::clone(known)),
        };
        ended.extend(read);
    }
    ended
}
