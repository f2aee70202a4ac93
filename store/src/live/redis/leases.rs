//! Leases of probes: a key for each that ends by itself, and one for what the last probe proved.

use std::time::Duration;

use lanekeeper_model::lease::{LeaseKey, Leased, ProbeVerdict};

use super::{RedisLive, bounded};
use crate::error::Error;

/// KEYS: lease, verdict. ARGV: holder, time to live in ms.
///
/// Answers what happened, a time in ms, and a verdict.
pub(super) const ASK: &str = r"
local verdict = redis.call('GET', KEYS[2])
if verdict then
  return {'decided', redis.call('PTTL', KEYS[2]), verdict}
end
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then
  return {'held', redis.call('PTTL', KEYS[1]), ''}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'granted', tonumber(ARGV[2]), ''}
";

/// KEYS: lease, verdict. ARGV: holder, verdict or nothing, time to live of the verdict in ms.
pub(super) const SETTLE: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' and tonumber(ARGV[3]) > 0 then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return 1
";

impl RedisLive {
    fn lease_keys(&self, key: &LeaseKey) -> (String, String) {
        let (prefix, gateway) = (&self.options.prefix, &key.gateway);
        let endpoint = key.lane.endpoint.as_deref().unwrap_or_default();
        // Neither a gateway's nor a lane's name has a colon.
        let of = format!("{gateway}:{}:{endpoint}", key.lane.lane);
        (
            format!("{prefix}:lease:probe:{of}"),
            format!("{prefix}:lease:verdict:{of}"),
        )
    }

    pub(super) async fn ask_lease(
        &self,
        key: &LeaseKey,
        holder: &str,
        ttl: Duration,
    ) -> Result<Leased, Error> {
        let (lease, verdict) = self.lease_keys(key);
        let mut invocation = self.lease.prepare_invoke();
        invocation
            .key(lease)
            .key(verdict)
            .arg(holder)
            .arg(millis(ttl).max(1));
        let mut manager = self.manager.clone();
        let (what, left_ms, verdict): (String, i64, String) =
            bounded(invocation.invoke_async(&mut manager)).await?;
        let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
        Ok(match what.as_str() {
            "granted" => Leased::Granted(left),
            "held" => Leased::Held(left),
            _ => Leased::Decided(aged(&verdict, left)?),
        })
    }

    pub(super) async fn give_lease_back(
        &self,
        key: &LeaseKey,
        holder: &str,
        verdict: Option<&ProbeVerdict>,
    ) -> Result<bool, Error> {
        let corrupt = |error: serde_json::Error| Error::Corrupt(error.to_string());
        let text = verdict.map(serde_json::to_string).transpose();
        let text = text.map_err(corrupt)?.unwrap_or_default();
        let kept = verdict.map_or(Duration::ZERO, ProbeVerdict::kept);
        let (lease, of_verdict) = self.lease_keys(key);
        let mut invocation = self.settle_lease.prepare_invoke();
        invocation
            .key(lease)
            .key(of_verdict)
            .arg(holder)
            .arg(text)
            .arg(millis(kept));
        let mut manager = self.manager.clone();
        bounded(invocation.invoke_async(&mut manager)).await
    }

    pub(super) async fn read_verdict(&self, key: &LeaseKey) -> Result<Option<ProbeVerdict>, Error> {
        let (_, of_verdict) = self.lease_keys(key);
        let mut both = redis::pipe();
        both.atomic();
        both.cmd("GET").arg(&of_verdict);
        both.cmd("PTTL").arg(&of_verdict);
        let mut manager = self.manager.clone();
        let (text, left_ms): (Option<String>, i64) =
            bounded(both.query_async(&mut manager)).await?;
        let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
        text.map(|text| aged(&text, left)).transpose()
    }
}

/// A stored verdict as of now, when so much of its time is left.
fn aged(text: &str, left: Duration) -> Result<ProbeVerdict, Error> {
    let verdict: ProbeVerdict =
        serde_json::from_str(text).map_err(|error| Error::Corrupt(error.to_string()))?;
    let passed = verdict.kept().saturating_sub(left);
    Ok(verdict.after(passed))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
