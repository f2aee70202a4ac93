//! What all sessions of one process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lanekeeper_proto::message::{Goodbye, GoodbyeReason};
use lanekeeper_store::{ConfigStore, LiveView};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::config::{Config, Timing};
use crate::enrolment::authorization::Revoked;
use crate::follow::advice::AdviceWatch;
use crate::follow::config::ConfigWatch;
use crate::follow::drains::DrainWatch;
use crate::follow::overrides::OverrideWatch;
use crate::hosting::epoch::SessionEpochs;
use crate::hosting::intake::{FactsSink, LiveSink};
use crate::hosting::leases::LeaseQueue;
use crate::hosting::sessions::Sessions;
use crate::metrics::Metrics;
use crate::publish::outbox::Outbox;
use crate::publish::report_interval::interval;
use crate::publish::traffic::Traffic;
use crate::publish::transitions::TransitionOutbox;
use crate::session::Rules;

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
    pub(crate) advice: Arc<AdviceWatch>,
    pub(crate) leases: LeaseQueue,
    pub(crate) live: Arc<dyn LiveView>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) epochs: Mutex<SessionEpochs>,
    pub(crate) records: Arc<Outbox<LiveSink>>,
    pub(crate) facts: Arc<Outbox<FactsSink>>,
    pub(crate) traffic: Traffic,
    pub(crate) transitions: Arc<TransitionOutbox>,
    pub(crate) metrics: Arc<Metrics>,
    /// How often agents must report, in milliseconds; see [`crate::publish::report_interval`].
    report_interval_ms: AtomicU64,
    /// Identities whose certificates no longer count.
    pub(crate) revoked: watch::Sender<Revoked>,
    /// Cancelled when sessions must say goodbye.
    pub(crate) closing: CancellationToken,
}

impl Core {
    pub(crate) fn new(
        config: &Config,
        store: ConfigStore,
        live: Arc<dyn LiveView>,
        metrics: Arc<Metrics>,
        closing: CancellationToken,
    ) -> Arc<Self> {
        let entries_max = config.sessions_max.saturating_mul(RECORDS_PER_SESSION);
        let sessions = Arc::<Sessions>::default();
        let live_sink = LiveSink {
            live: Arc::clone(&live),
            sessions: Arc::clone(&sessions),
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
            advice: AdviceWatch::new(config.fresh_windows()),
            leases: LeaseQueue::default(),
            transitions: TransitionOutbox::new(store.clone(), Arc::clone(&metrics)),
            watch: ConfigWatch::new(store, Arc::clone(&metrics)),
            live,
            sessions,
            epochs: Mutex::default(),
            records: Outbox::new("records", live_sink, entries_max),
            facts: Outbox::new("facts", facts, entries_max),
            traffic: Traffic::new(clock::now()),
            metrics,
            report_interval_ms: AtomicU64::new(millis(config.timing.report_interval)),
            revoked: watch::Sender::default(),
            closing,
        })
    }

    /// How often agents must report now.
    pub(crate) fn report_interval(&self) -> Duration {
        Duration::from_millis(self.report_interval_ms.load(Ordering::Relaxed))
    }

    /// Looks at the load, and chooses how often agents must report.
    pub(crate) fn choose_report_interval(&self) {
        let chosen = interval(&self.rules, self.sessions.count(), self.records.backlog());
        let before = self
            .report_interval_ms
            .swap(millis(chosen), Ordering::Relaxed);
        if before != millis(chosen) {
            tracing::info!(
                interval_ms = millis(chosen),
                "agents must report at another interval"
            );
        }
    }

    /// The goodbye of a server that stops.
    pub(crate) fn shutdown_goodbye(&self) -> Goodbye {
        Goodbye {
            reason: GoodbyeReason::Shutdown,
            detail: "the control plane stops".to_owned(),
            reconnect_after: Duration::ZERO,
            jitter: self.timing.reconnect_jitter,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
