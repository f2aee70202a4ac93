//! The agents that only the configuration store remembers, read beside the snapshots: thousands of rows
//! take a moment, and a snapshot that waited for them would show the news of that moment late.

use super::sharing::{Holder, Holders};
use super::state::Key;
use crate::clock;
use lanekeeper_model::AgentRecord;
use lanekeeper_store::{ConfigStore, Error};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Agents that were last seen longer ago are left out of every list: one day. Each process is an
/// agent of its own, so what restarts often would fill them.
const STORED_AGE_MAX_MS: u64 = 24 * 60 * 60 * 1000;
/// They are read again at most this often, unless something shows that they changed.
const FACTS_PERIOD: Duration = Duration::from_secs(1);
/// The time between is this many times as long as reading them took.
const FACTS_EASE: u32 = 50;
/// What was read longer ago, because nobody looked meanwhile, is read again. More than a statement
/// may take.
const READING_AGE_MAX: Duration = Duration::from_secs(10);

/// Agents as silent records.
pub(super) type StoredAgents = BTreeMap<Key, Arc<AgentRecord>>;

/// Those agents, and the identities that several of them came with.
pub(super) type StoredNews = (StoredAgents, Holders);

/// Reads them now and then.
#[derive(Default)]
pub(super) struct StoredAgentsReader {
    /// When they may be read again; `None` = now, and the snapshot waits for it.
    due: Option<Instant>,
    reading: Option<Reading>,
}

struct Reading {
    began: Instant,
    task: JoinHandle<Result<(StoredNews, Duration), Error>>,
}

impl StoredAgentsReader {
    /// Something shows that they changed. What is being read may be older than that.
    pub(super) fn doubt(&mut self) {
        self.due = None;
        if let Some(reading) = self.reading.take() {
            reading.task.abort();
        }
    }

    /// What was read since the last call, if anything. Waits for the first reading and for one that
    /// something showed to be due.
    ///
    /// # Errors
    ///
    /// The store's. What it remembers is read again at the next call.
    pub(super) async fn poll(&mut self, store: &ConfigStore) -> Result<Option<StoredNews>, Error> {
        let now = clock::instant();
        if self
            .reading
            .as_ref()
            .is_some_and(|reading| now.saturating_duration_since(reading.began) > READING_AGE_MAX)
        {
            self.doubt();
        }
        let waits = self.due.is_none();
        if self.reading.is_none() && self.due.is_none_or(|due| due <= now) {
            self.reading = Some(Reading {
                began: now,
                task: tokio::spawn(read(store.clone())),
            });
        }
        let Some(reading) = self
            .reading
            .as_mut()
            .filter(|reading| waits || reading.task.is_finished())
        else {
            return Ok(None);
        };
        let read = (&mut reading.task).await;
        self.reading = None;
        let (news, took) = read.unwrap_or_else(|error| Err(Error::Corrupt(error.to_string())))?;
        let pause = FACTS_PERIOD.max(took.saturating_mul(FACTS_EASE));
        self.due = Some(clock::instant() + pause);
        Ok(Some(news))
    }
}

async fn read(store: ConfigStore) -> Result<(StoredNews, Duration), Error> {
    let began = clock::instant();
    let facts = store.agent_facts(None).await?;
    let now_ms = clock::now_ms();
    let (mut stored, mut holders) = (StoredAgents::new(), Holders::new());
    for mut facts in facts {
        if now_ms.saturating_sub(facts.last_seen_ms) >= STORED_AGE_MAX_MS {
            continue;
        }
        let (identity, first_seen_ms) = (facts.identity.take(), facts.first_seen_ms);
        let record = Arc::new(facts.into_silent_record());
        let key = (record.gateway.clone(), record.instance.clone());
        if let Some(identity) = identity
            && !record.left
        {
            holders.entry(identity).or_default().push(Holder {
                key: key.clone(),
                first_seen_ms,
            });
        }
        stored.insert(key, record);
    }
    holders.retain(|_, processes| processes.len() > 1);
    let took = clock::instant().saturating_duration_since(began);
    Ok(((stored, holders), took))
}
