//! Where what sessions learn is written: the live view for what is true now, the configuration
//! database for what must outlive an agent.

use std::sync::Arc;

use lanekeeper_model::AgentRecord;
use lanekeeper_store::{AgentFacts, ConfigStore, Error, Hint, LiveView, Put};

use crate::clock;
use crate::hosting::sessions::Sessions;
use crate::metrics::{Destination, Metrics};
use crate::publish::outbox::Sink;

/// Writes to the live view that run at once.
pub(crate) const LIVE_WRITERS: usize = 16;
/// Writes to the configuration database that run at once. Facts change rarely, and administrators'
/// writes must not wait behind a restarted fleet.
pub(crate) const FACTS_WRITERS: usize = 2;
/// Agents' facts that one transaction takes: a fleet that returns writes as many at once as it has
/// agents, and a disk flush for each would keep the database busy for a minute.
const FACTS_BATCH_MAX: usize = 128;

/// Writes records to the live view.
pub(crate) struct LiveSink {
    pub(crate) live: Arc<dyn LiveView>,
    pub(crate) sessions: Arc<Sessions>,
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
            Put::Older => {
                tracing::debug!(
                    gateway = %record.gateway,
                    instance = record.instance,
                    "a later session of this agent is elsewhere"
                );
                let key = (record.gateway.to_string(), record.instance.clone());
                self.sessions.outlived(&key, record.session_epoch);
            }
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

    const BATCH_MAX: usize = FACTS_BATCH_MAX;

    async fn write_all(&self, batch: &[(Arc<AgentFacts>, bool)]) -> Vec<Result<(), Error>> {
        let all: Vec<&AgentFacts> = batch.iter().map(|(facts, _)| &**facts).collect();
        match self.store.record_agents(&all).await {
            Ok(()) => {
                for _ in batch {
                    self.metrics.written(Destination::Store, true);
                }
                batch.iter().map(|_| Ok(())).collect()
            }
            // Which of them it was shows one by one; a store that is away would say no more.
            Err(error) if !error.is_unavailable() && batch.len() > 1 => {
                let mut written = Vec::with_capacity(batch.len());
                for (facts, notable) in batch {
                    written.push(self.write(facts, *notable).await);
                }
                written
            }
            Err(error) => {
                self.metrics.written(Destination::Store, false);
                let reason = error.to_string();
                let mut written = vec![Err(error)];
                written.resize_with(batch.len(), || {
                    Err(Error::Unavailable {
                        store: "configuration database",
                        source: reason.clone().into(),
                    })
                });
                written
            }
        }
    }

    async fn write(&self, facts: &Arc<AgentFacts>, _notable: bool) -> Result<(), Error> {
        let written = self.store.record_agent(facts).await;
        self.metrics.written(Destination::Store, written.is_ok());
        written
    }
}

/// What of a record outlives the agent, which proved itself as `identity` if it has one and was
/// last heard of at `heard_ms`, unix milliseconds.
pub(crate) fn facts(record: &AgentRecord, identity: Option<&str>, heard_ms: u64) -> AgentFacts {
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
        last_seen_ms: heard_ms,
        left_ms: record.left.then_some(heard_ms),
        identity: identity.map(str::to_owned),
    }
}
