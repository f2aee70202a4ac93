//! Which control-plane replicas write to the view, so that readers know what is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{RedisLive, bounded};
use crate::error::Error;
use crate::live::{SHARE_TTL, SeenShare, Share};

/// KEYS: replicas. ARGV: replica, share, time to live in ms.
///
/// A share carries Redis's own clock, since replicas' clocks differ; old ones go with a new one.
pub(super) const ANNOUNCE: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HEXISTS', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d', now) .. ' ' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local all = redis.call('HGETALL', KEYS[1])
for place = 1, #all, 2 do
  local at = tonumber(string.match(all[place + 1], '^%d+')) or 0
  if at + ARGV[3] < now then
    redis.call('HDEL', KEYS[1], all[place])
  end
end
return known
";

impl RedisLive {
    pub(super) async fn write_share(&self, replica: &str, share: Share) -> Result<bool, Error> {
        let text =
            serde_json::to_string(&share).map_err(|error| Error::Corrupt(error.to_string()))?;
        let mut invocation = self.announce.prepare_invoke();
        invocation
            .key(self.replicas_key())
            .arg(replica)
            .arg(text)
            .arg(u64::try_from(SHARE_TTL.as_millis()).unwrap_or(u64::MAX));
        let mut manager = self.manager.clone();
        bounded(invocation.invoke_async(&mut manager)).await
    }

    pub(super) async fn read_shares(&self) -> Result<Vec<SeenShare>, Error> {
        let mut both = redis::pipe();
        both.atomic();
        both.cmd("TIME");
        both.cmd("HGETALL").arg(self.replicas_key());
        let mut manager = self.manager.clone();
        let ((secs, micros), replicas): ((u64, u64), BTreeMap<String, String>) =
            bounded(both.query_async(&mut manager)).await?;
        let now_ms = secs.saturating_mul(1000).saturating_add(micros / 1000);
        let seen = replicas.into_iter().filter_map(|(replica, text)| {
            let (at_ms, text) = text.split_once(' ')?;
            let share: Share = serde_json::from_str(text).ok()?;
            let age_ms = now_ms.saturating_sub(at_ms.parse().ok()?);
            Some(SeenShare {
                replica,
                age: Duration::from_millis(age_ms),
                share,
            })
        });
        Ok(seen.filter(|seen| seen.age < SHARE_TTL).collect())
    }
}
