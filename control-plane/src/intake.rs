//! Where what sessions learn is written: the live view for what is true now, the configuration
//! database for what shall outlive an agent.

use std::sync::Arc;

use lanekeeper_model::AgentRecord;
use lanekeeper_store::{AgentFacts, ConfigStore, Error, Hint, LiveView, Put};

use crate::clock;
use crate::metrics::{Destination, Metrics};
use crate::outbox::Sink;

/// Writes to the live view that run at once.
pub(crate) const LIVE_WRITERS: usize = 16;
/// Writes to the configuration database that run at once. Facts change rarely, and administrators'
/// writes shall not wait behind a restarted fleet.
pub(crate) const FACTS_WRITERS: usize = 2;

/// Writes records to the live view.
pub(crate) struct LiveSink {
    pub(crate) live: Arc<dyn LiveView>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Sink for LiveSink {
    type Item = Arc<AgentRecord>;

    async fn write(&self, record: &Arc<AgentRecord>, notable: bool) -> Result<(), Error> {
        let put = self.live.put(Arc::clone(record), clock::unix_ms()).await;
        self.metrics.written(Destination::Live, put.is_ok());
        match put? {
            Put::Stored if notable => {
                let hint = Hint::Report {
                    gateway: record.gateway.clone(),
                    instance: record.instance.clone(),
                };
                // A lost hint costs a watcher a second, not the truth.
                if let Err(error) = self.live.publish(hint).await {
                    tracing::debug!(?error, "a hint was lost");
                }
            }
            Put::Stored => {}
            Put::Older => tracing::debug!(
                gateway = %record.gateway,
                instance = record.instance,
                "a later session of this agent is elsewhere"
            ),
        }
        Ok(())
    }
}

/// Writes facts to the configuration database.
pub(crate) struct FactsSink {
    pub(crate) store: ConfigStore,
    pub(crate) metrics: Arc<Metrics>,
}

impl Sink for FactsSink {
    type Item = Arc<AgentFacts>;

    async fn write(&self, facts: &Arc<AgentFacts>, _notable: bool) -> Result<(), Error> {
        let written = self.store.record_agent(facts).await;
        self.metrics.written(Destination::Store, written.is_ok());
        written
    }
}

/// What of a record outlives the agent.
pub(crate) fn facts(record: &AgentRecord, now_ms: u64) -> AgentFacts {
    AgentFacts {
        gateway: record.gateway.clone(),
        instance: record.instance.clone(),
        name: record.name.clone(),
        labels: record.labels.clone(),
        version: record.version.clone(),
        session_epoch: record.session_epoch,
        applied_revision: record.applied_revision,
        applied_hash: record.applied_hash.clone(),
        config_source: record.config_source,
        problems: record.problems.clone(),
        rejected: record.last_error.clone(),
        first_seen_ms: record.connected_ms,
        last_seen_ms: now_ms,
        left_ms: record.left.then_some(now_ms),
    }
}
