//! What the replicas heard of traffic: one blob each, which ends with its replica's share.

use std::sync::Arc;

use lanekeeper_model::traffic::ReplicaTraffic;

use super::RedisLive;
use crate::error::Error;
use crate::live::SHARE_TTL;

impl RedisLive {
    fn traffic_key(&self, replica: &str) -> String {
        format!("{}:live:traffic:{replica}", self.options.prefix)
    }

    pub(super) async fn write_traffic(
        &self,
        replica: &str,
        traffic: &ReplicaTraffic,
    ) -> Result<(), Error> {
        let blob =
            serde_json::to_vec(traffic).map_err(|error| Error::Corrupt(error.to_string()))?;
        let mut command = redis::cmd("SET");
        command
            .arg(self.traffic_key(replica))
            .arg(blob)
            .arg("PX")
            .arg(u64::try_from(SHARE_TTL.as_millis()).unwrap_or(u64::MAX));
        self.ask(&command).await
    }

    pub(super) async fn read_traffic(&self) -> Result<Vec<(String, Arc<ReplicaTraffic>)>, Error> {
        let mut command = redis::cmd("HKEYS");
        let replicas: Vec<String> = self.ask(command.arg(self.replicas_key())).await?;
        if replicas.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("MGET");
        for replica in &replicas {
            command.arg(self.traffic_key(replica));
        }
        let blobs: Vec<Option<Vec<u8>>> = self.ask(&command).await?;
        let read = |(replica, blob): (String, Option<Vec<u8>>)| {
            let traffic: ReplicaTraffic = serde_json::from_slice(&blob?)
                .inspect_err(|error| {
                    tracing::warn!(%error, "a replica's traffic in the live view is unreadable");
                })
                .ok()?;
            Some((replica, Arc::new(traffic)))
        };
        Ok(replicas.into_iter().zip(blobs).filter_map(read).collect())
    }
}
