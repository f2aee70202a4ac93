//! Reading what is new: agents in the order of their latest change, then their blobs.

use std::sync::Arc;

use lanekeeper_model::{AgentRecord, GatewayName};

use super::{READ_BATCH, RedisLive, bounded, unpack};
use crate::error::Error;
use crate::live::{Changes, Cursor, LiveView};

/// Changes that are remembered. Forgotten and expired agents leave their last one behind, which this
/// keeps from piling up; at a thousand reports a second it is a quarter of an hour, more than the
/// time to live of a record.
pub(super) const REMEMBERED: u64 = 1_000_000;

/// The name of the view's memory, and its latest change; nothing while it is empty.
type Clock = (Option<String>, Option<u64>);

impl RedisLive {
    pub(super) async fn read_changes(&self, since: &Cursor) -> Result<Changes, Error> {
        let (newest, mut members) = self.members(since).await?;
        let too_far_behind = newest.seq.saturating_sub(since.seq) >= REMEMBERED;
        if newest.run != since.run || since.seq == 0 || too_far_behind {
            // The cursor is older than what is read now, so that nothing falls in between.
            let records = self.records(None).await?;
            return Ok(Changes {
                is_whole: true,
                records: records.into_iter().map(Arc::new).collect(),
                gone: Vec::new(),
                next: newest,
            });
        }
        let mut changes = Changes {
            is_whole: false,
            records: Vec::new(),
            gone: Vec::new(),
            next: since.clone(),
        };
        members.sort_by_key(|(_, seq)| *seq);
        for batch in members.chunks(READ_BATCH) {
            self.read_batch(batch, &mut changes).await?;
        }
        Ok(changes)
    }

    /// The newest change, and the agents that changed since with the change of each.
    async fn members(&self, since: &Cursor) -> Result<(Cursor, Vec<(String, u64)>), Error> {
        let mut both = redis::pipe();
        both.atomic();
        both.cmd("HMGET")
            .arg(self.clock_key())
            .arg("run")
            .arg("seq");
        // From the beginning everything is read by another way.
        let from = if since.seq == 0 {
            "+inf".to_owned()
        } else {
            format!("({}", since.seq)
        };
        both.cmd("ZRANGEBYSCORE")
            .arg(self.changes_key())
            .arg(from)
            .arg("+inf")
            .arg("WITHSCORES");
        let mut manager = self.manager.clone();
        let (clock, members): (Clock, Vec<(String, u64)>) =
            bounded(both.query_async(&mut manager)).await?;
        let newest = Cursor {
            run: clock.0.unwrap_or_default(),
            seq: clock.1.unwrap_or(0),
        };
        Ok((newest, members))
    }

    async fn read_batch(
        &self,
        batch: &[(String, u64)],
        changes: &mut Changes,
    ) -> Result<(), Error> {
        // A gateway's name has no colon.
        let agents: Vec<(&str, &str)> = batch
            .iter()
            .filter_map(|(member, _)| member.split_once(':'))
            .collect();
        let mut command = redis::cmd("MGET");
        for (gateway, instance) in &agents {
            command.arg(self.blob_key(gateway, instance));
        }
        let blobs: Vec<Option<Vec<u8>>> = self.ask(&command).await?;
        for ((gateway, instance), blob) in agents.into_iter().zip(blobs) {
            match blob {
                Some(blob) => {
                    let record: Option<AgentRecord> = unpack(gateway, &blob);
                    changes.records.extend(record.map(Arc::new));
                }
                None => changes
                    .gone
                    .push((GatewayName::from(gateway), instance.to_owned())),
            }
        }
        if let Some((_, seq)) = batch.last() {
            changes.next.seq = *seq;
        }
        Ok(())
    }
}
