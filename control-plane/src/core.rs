//! What all sessions of one process share.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_proto::message::{Goodbye, GoodbyeReason};
use lanekeeper_store::{ConfigStore, LiveView};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Timing};
use crate::config_watch::ConfigWatch;
use crate::drain_watch::DrainWatch;
use crate::intake::{FactsSink, LiveSink};
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::override_watch::OverrideWatch;
use crate::session::Rules;
use crate::session_epoch::SessionEpochs;
use crate::sessions::Sessions;
use crate::standing::Revoked;

/// Records that may be kept per session that may be open: its own, and one of an agent that left
/// while the live view was away.
const RECORDS_PER_SESSION: usize = 2;

/// What all sessions of one process share.
pub(crate) struct Core {
    pub(crate) rules: Rules,
    pub(crate) timing: Timing,
    pub(crate) watch: Arc<ConfigWatch>,
    pub(crate) overrides: Arc<OverrideWatch>,
    pub(crate) drains: Arc<DrainWatch>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) epochs: Mutex<SessionEpochs>,
    pub(crate) records: Arc<Outbox<LiveSink>>,
    pub(crate) facts: Arc<Outbox<FactsSink>>,
    pub(crate) metrics: Arc<Metrics>,
    /// Identities whose certificates no longer count.
    pub(crate) revoked: watch::Sender<Revoked>,
    /// Cancelled when sessions shall say goodbye.
    pub(crate) closing: CancellationToken,
}

impl Core {
    pub(crate) fn new(config: &Config, store: ConfigStore, live: Arc<dyn LiveView>) -> Arc<Self> {
        let metrics = Arc::new(Metrics::new());
        let entries_max = config.sessions_max.saturating_mul(RECORDS_PER_SESSION);
        let live = LiveSink {
            live,
            metrics: Arc::clone(&metrics),
        };
        let facts = FactsSink {
            store: store.clone(),
            metrics: Arc::clone(&metrics),
        };
        Arc::new(Self {
            rules: Rules {
                report_interval: config.timing.report_interval,
                stale_after: config.timing.stale_after,
            },
            timing: config.timing.clone(),
            overrides: OverrideWatch::new(store.clone()),
            drains: DrainWatch::new(store.clone()),
            watch: ConfigWatch::new(store, Arc::clone(&metrics)),
            sessions: Arc::default(),
            epochs: Mutex::default(),
            records: Outbox::new("records", live, entries_max),
            facts: Outbox::new("facts", facts, entries_max),
            metrics,
            revoked: watch::Sender::default(),
            closing: CancellationToken::new(),
        })
    }

    /// The farewell of a server that stops.
    pub(crate) fn shutdown_goodbye(&self) -> Goodbye {
        Goodbye {
            reason: GoodbyeReason::Shutdown,
            detail: "the control plane stops".to_owned(),
            reconnect_after: Duration::ZERO,
            jitter: self.timing.reconnect_jitter,
        }
    }
}
