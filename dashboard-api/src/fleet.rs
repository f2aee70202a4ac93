//! The picture of the fleet that every read of it shares.
//!
//! One task reads what changed, woken by hints and at least each second, and only while somebody
//! looks. It puts the fleet together once; requests choose among the finished rows and touch no
//! agent's data, unless they ask for it.

pub(crate) mod agents;
pub(crate) mod breaker_state;
mod cells;
pub(crate) mod change;
mod etag;
mod gather;
mod picture;
mod remembered;
mod sharing;
pub(crate) mod stream;

pub(crate) use picture::Picture;

use crate::app::App;
use crate::clock;
use crate::error::Error;
use cells::RevisionCells;
use gather::{Gathered, SharedIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// The picture is taken again at least this often while somebody looks.
const REFRESH_PERIOD: Duration = Duration::from_secs(1);
/// Shortest pause between two pictures: hints come in swarms when a provider fails.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);
/// The pause is this many times as long as the picture took, so that a large fleet does not keep a
/// core busy; [`REFRESH_PERIOD`] at most.
const REFRESH_EASE: u32 = 15;
/// A picture younger than this serves a request at once.
const FRESH_ENOUGH: Duration = Duration::from_millis(1500);
/// How long the picture is kept fresh after the last look.
const ATTENTION_MS: u64 = 15_000;
/// Longest wait of a request for a picture.
const PICTURE_TIMEOUT: Duration = Duration::from_secs(10);

/// The latest picture, and what makes its task go.
pub(crate) struct Fleet {
    latest: watch::Sender<Option<Arc<Picture>>>,
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
    /// Something changed: the picture is worth taking again.
    pub(crate) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// A picture that is at most [`FRESH_ENOUGH`] old.
    pub(crate) async fn picture(&self) -> Result<Arc<Picture>, Error> {
        self.look();
        let mut latest = self.latest.subscribe();
        let now = clock::instant();
        let fresh = |picture: &Option<Arc<Picture>>| {
            picture
                .as_ref()
                .is_some_and(|picture| picture.is_fresh(now))
        };
        if !fresh(&latest.borrow()) {
            self.wake();
        }
        let picture = match timeout(PICTURE_TIMEOUT, latest.wait_for(fresh)).await {
            Ok(Ok(picture)) => picture.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        picture.ok_or(Error::Overdue)?.usable()
    }

    /// Asks for a first picture without waiting for it.
    pub(crate) fn prepare(&self) {
        self.look();
        self.wake();
    }

    /// Whether the fleet was read whole at least once.
    pub(crate) fn has_picture(&self) -> bool {
        self.latest
            .borrow()
            .as_ref()
            .is_some_and(|picture| picture.is_usable())
    }

    /// Follows the pictures as they are taken.
    fn follow(&self) -> watch::Receiver<Option<Arc<Picture>>> {
        self.latest.subscribe()
    }

    /// Notes that somebody looks.
    fn look(&self) {
        self.looked_ms.store(clock::now_ms(), Ordering::Relaxed);
    }

    fn is_watched(&self) -> bool {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        clock::now_ms().saturating_sub(looked_ms) < ATTENTION_MS
    }
}

impl Picture {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.taken) < FRESH_ENOUGH
    }
}

/// Takes pictures until the server ends.
pub(crate) async fn keep_fresh(app: App) {
    let mut cells = RevisionCells::default();
    let mut gathered = Gathered::default();
    loop {
        let wait = async {
            if app.fleet.is_watched() {
                let _ = timeout(REFRESH_PERIOD, app.fleet.wanted.notified()).await;
            } else {
                app.fleet.wanted.notified().await;
            }
        };
        tokio::select! {
            () = app.closing.cancelled() => return,
            () = wait => {}
        }
        if !app.fleet.is_watched() {
            continue;
        }
        let before = app.fleet.latest.borrow().clone();
        let picture = picture::take(&app, &mut cells, &mut gathered, before).await;
        let cost = clock::instant().saturating_duration_since(picture.taken);
        app.fleet.latest.send_replace(Some(Arc::new(picture)));
        let pause = REFRESH_PAUSE
            .max(cost.saturating_mul(REFRESH_EASE))
            .min(REFRESH_PERIOD);
        tokio::select! {
            () = app.closing.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
