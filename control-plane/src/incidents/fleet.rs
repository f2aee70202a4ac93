//! The records of all agents, kept by what changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::{AgentRecord, GatewayName};
use lanekeeper_store::{
    ConfigStore, Cursor, Error, LiveView, RECORD_TTL, SHARE_OVERDUE, SeenShare,
};

use crate::clock;

/// A view inside one process begins empty with it, and the agents come back within their report
/// interval and some time for a connection: until then a few agents would pass for the fleet.
const GATHERING: Duration = Duration::from_secs(12);

/// The records of all agents.
#[derive(Default)]
pub(super) struct Fleet {
    cursor: Cursor,
    records: BTreeMap<(GatewayName, String), Known>,
    gathering: Option<Gathering>,
}

struct Known {
    record: Arc<AgentRecord>,
    read: Instant,
}

/// How far the agents have come back.
enum Gathering {
    /// Not before then.
    Until(Instant),
    /// They have.
    Done,
}

impl Fleet {
    /// Reads what changed. True when the reports of some agents may be missing.
    pub(super) async fn read(
        &mut self,
        live: &dyn LiveView,
        store: &ConfigStore,
    ) -> Result<bool, Error> {
        let changes = live.changes(&self.cursor).await?;
        let shares = live.shares().await?;
        let now = clock::now();
        if changes.is_whole {
            self.records.clear();
        }
        for key in &changes.gone {
            self.records.remove(key);
        }
        for record in changes.records {
            let key = (record.gateway.clone(), record.instance.clone());
            self.records.insert(key, Known { record, read: now });
        }
        self.records
            .retain(|_, known| now.saturating_duration_since(known.read) <= RECORD_TTL);
        self.cursor = changes.next;
        self.gather(store, &shares, now).await?;
        Ok(shares.iter().any(is_missing))
    }

    /// Agents that were there before may not have come back yet.
    pub(super) fn is_gathering(&self) -> bool {
        matches!(self.gathering, Some(Gathering::Until(_)))
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &AgentRecord> {
        self.records.values().map(|known| &*known.record)
    }

    async fn gather(
        &mut self,
        store: &ConfigStore,
        shares: &[SeenShare],
        now: Instant,
    ) -> Result<(), Error> {
        let gathering = match self.gathering {
            // A view outside this process has outlived it.
            None if !shares.is_empty() => Gathering::Done,
            None => {
                let facts = store.agent_facts(None).await?;
                let missing = facts.iter().filter(|facts| facts.left_ms.is_none());
                if missing.count() > self.records.len() {
                    Gathering::Until(now + GATHERING)
                } else {
                    Gathering::Done
                }
            }
            Some(Gathering::Until(then)) if now < then => Gathering::Until(then),
            Some(Gathering::Until(_) | Gathering::Done) => Gathering::Done,
        };
        self.gathering = Some(gathering);
        Ok(())
    }
}

/// A replica's share of the records is missing.
fn is_missing(seen: &SeenShare) -> bool {
    let share = seen.share;
    !share.left && (share.rewriting || (share.sessions > 0 && seen.age > SHARE_OVERDUE))
}
