//! The shared live view and its outages. Records and their order are the store's own in-process
//! view; the shares of replicas and the loss of memory are told here as Redis has them.

use futures_util::FutureExt;
use lanekeeper_model::AgentRecord;
use lanekeeper_store::{Changes, Cursor, LiveView, MemoryLive, Put, SHARE_TTL, SeenShare, Share};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Away;

/// Where a reader has got to, and in which memory.
#[derive(Debug, Clone, Default)]
pub struct Place {
    run: u64,
    cursor: Cursor,
}

pub struct Live {
    memory: MemoryLive,
    run: u64,
    shares: BTreeMap<String, (Duration, Share)>,
    /// Nothing answers until then.
    pub away_until: Duration,
    /// Nothing is written until then, while reading goes on.
    pub full_until: Duration,
    /// What is written is not confirmed until then.
    pub mute_until: Duration,
    /// Later records do not keep earlier ones out.
    pub blind: bool,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            memory: MemoryLive::new(),
            run: 1,
            shares: BTreeMap::new(),
            away_until: Duration::ZERO,
            full_until: Duration::ZERO,
            mute_until: Duration::ZERO,
            blind: false,
        }
    }
}

/// The in-process view never waits.
fn at_once<T>(answer: impl Future<Output = lanekeeper_store::Result<T>>) -> T {
    let answer = answer.now_or_never().expect("the view answers at once");
    answer.expect("the view answers")
}

impl Live {
    /// Loses everything.
    pub fn flush(&mut self) {
        self.memory = MemoryLive::new();
        self.run += 1;
        self.shares.clear();
    }

    pub fn heal(&mut self) {
        self.away_until = Duration::ZERO;
        self.full_until = Duration::ZERO;
        self.mute_until = Duration::ZERO;
    }

    pub fn put(
        &mut self,
        record: &Arc<AgentRecord>,
        now: Duration,
        now_ms: u64,
    ) -> Result<Put, Away> {
        if now < self.away_until || now < self.full_until {
            return Err(Away);
        }
        if self.blind {
            at_once(self.memory.forget(&record.gateway, &record.instance));
        }
        let put = at_once(self.memory.put(Arc::clone(record), now_ms));
        if now < self.mute_until {
            Err(Away)
        } else {
            Ok(put)
        }
    }

    /// Removes the record of an agent that lost its authorization.
    pub fn forget(&mut self, gateway: &str, instance: &str, now: Duration) {
        if now >= self.away_until && now >= self.full_until {
            at_once(self.memory.forget(gateway, instance));
        }
    }

    /// The record of a later session than this.
    pub fn later_session(
        &self,
        gateway: &str,
        instance: &str,
        than: u64,
        now: Duration,
    ) -> Option<AgentRecord> {
        if now < self.away_until {
            return None;
        }
        at_once(self.memory.later_session(gateway, instance, than))
    }

    pub fn records(&self, gateway: &str, now: Duration) -> Result<Vec<AgentRecord>, Away> {
        if now < self.away_until {
            return Err(Away);
        }
        Ok(at_once(self.memory.records(Some(gateway))))
    }

    pub fn changes(&self, place: &mut Place, now: Duration) -> Result<Changes, Away> {
        if now < self.away_until {
            return Err(Away);
        }
        if place.run != self.run {
            *place = Place {
                run: self.run,
                cursor: Cursor::default(),
            };
        }
        let changes = at_once(self.memory.changes(&place.cursor));
        place.cursor = changes.next.clone();
        Ok(changes)
    }

    pub fn announce(&mut self, replica: &str, share: Share, now: Duration) -> Result<bool, Away> {
        if now < self.away_until || now < self.full_until {
            return Err(Away);
        }
        Ok(self
            .shares
            .insert(replica.to_owned(), (now, share))
            .is_some())
    }

    pub fn shares(&self, now: Duration) -> Result<Vec<SeenShare>, Away> {
        if now < self.away_until {
            return Err(Away);
        }
        let shares = self.shares.iter().map(|(replica, (at, share))| SeenShare {
            replica: replica.clone(),
            age: now.saturating_sub(*at),
            share: *share,
        });
        Ok(shares.filter(|seen| seen.age < SHARE_TTL).collect())
    }
}
