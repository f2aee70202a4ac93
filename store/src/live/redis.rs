//! The live view of several replicas, in Redis.
//!
//! Keys, under one prefix: a blob per agent instance, a sorted set of instances per gateway and one
//! of gateways, both scored by expiry on Redis's own clock, so that reading never scans the key
//! space; and a sorted set of agents by their latest change, so that reading news costs no more than
//! there are news. A blob begins with its order in 40 digits, which a script compares as text: Lua's numbers
//! cannot hold 64 bits.
//!
//! One connection carries commands and subscriptions. It reconnects by itself about twice a second
//! for as long as it takes, and subscribes again; hints sent meanwhile are lost.

mod changes;
mod leases;
mod shares;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lanekeeper_model::AgentRecord;
use lanekeeper_model::lease::{LeaseKey, Leased, ProbeVerdict};
use lanekeeper_model::traffic::ReplicaTraffic;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{
    Client, Cmd, FromRedisValue, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind,
    RedisError, Script, Value,
};
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use super::{
    Changes, Cursor, HINTS_MAX, Hint, LiveView, Put, RECORD_TTL, SeenShare, Share, order_of,
};
use crate::error::Error;
use crate::random;

/// The store's name in errors.
const NAME: &str = "live view";
/// What every key and channel begins with unless told otherwise.
const PREFIX: &str = "lanekeeper";
/// The longest any call may take, reconnecting included.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest one command may take on a connection that is up.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest wait between two attempts to reconnect.
const RECONNECT_DELAY_MAX: Duration = Duration::from_millis(500);
/// Unacknowledged data ends a connection after this, so that a silently cut network is noticed.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// Attempts to subscribe for the first time are this far apart.
const SUBSCRIBE_RETRY: Duration = Duration::from_millis(500);
/// The most blobs that are asked for at once: with hundreds of cells in each, the answer still arrives
/// well within [`RESPONSE_TIMEOUT`].
const READ_BATCH: usize = 100;
/// Digits of a u64, and so of each half of an order.
const ORDER_DIGITS: usize = 20;

/// KEYS: blob, the gateway's instances, all gateways, changes, the clock of changes.
/// ARGV: order, order and record, time to live in ms, instance, gateway, a name for the clock if it
/// is new, changes that are remembered.
const PUT: &str = r"
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) > ARGV[1] then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
redis.call('ZADD', KEYS[3], now + ARGV[3], ARGV[5])
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('HSETNX', KEYS[5], 'run', ARGV[6])
local seq = redis.call('HINCRBY', KEYS[5], 'seq', 1)
redis.call('PEXPIRE', KEYS[5], ARGV[3])
redis.call('ZADD', KEYS[4], seq, ARGV[5] .. ':' .. ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', seq - ARGV[7])
redis.call('PEXPIRE', KEYS[4], ARGV[3])
return 1
";

/// KEYS: blob, the gateway's instances, changes, the clock of changes.
/// ARGV: instance, gateway, a name for the clock if it is new.
const FORGET: &str = r"
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[1])
redis.call('HSETNX', KEYS[4], 'run', ARGV[3])
local seq = redis.call('HINCRBY', KEYS[4], 'seq', 1)
redis.call('ZADD', KEYS[3], seq, ARGV[2] .. ':' .. ARGV[1])
return 1
";

/// What can be told apart between live views that share a Redis.
#[derive(Clone, Debug)]
pub struct RedisLiveOptions {
    /// What every key and channel begins with. Default `lanekeeper`.
    pub prefix: String,
    /// How long a record outlives its last write. Default [`RECORD_TTL`].
    pub ttl: Duration,
}

impl Default for RedisLiveOptions {
    fn default() -> Self {
        Self {
            prefix: PREFIX.to_owned(),
            ttl: RECORD_TTL,
        }
    }
}

/// A live view in Redis, shared by all replicas that connect to it.
pub struct RedisLive {
    manager: ConnectionManager,
    put: Script,
    forget: Script,
    announce: Script,
    lease: Script,
    settle_lease: Script,
    hints: broadcast::Sender<Hint>,
    options: RedisLiveOptions,
    subscribing: AbortHandle,
}

impl std::fmt::Debug for RedisLive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisLive")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Drop for RedisLive {
    fn drop(&mut self) {
        self.subscribing.abort();
    }
}

impl RedisLive {
    /// Connects to Redis by a `redis://` or `rediss://` URL. A Redis that is down is no error:
    /// calls answer [`Error::Unavailable`] until it is up.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(url, RedisLiveOptions::default()).await
    }

    /// The same with a prefix and a time to live of one's own.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub async fn connect_with(url: &str, options: RedisLiveOptions) -> Result<Self, Error> {
        // The driver's message may repeat the URL and with it a password; its category does not.
        let unusable = |error: RedisError| Error::Address {
            store: NAME,
            reason: format!("{:?}", error.kind()),
        };
        let info = url.into_connection_info().map_err(unusable)?;
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_user_timeout(UNACKNOWLEDGED_MAX);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        let client = Client::open(info).map_err(unusable)?;

        let hints = broadcast::Sender::new(HINTS_MAX);
        let channel = format!("{}:hints", options.prefix);
        let config = ConnectionManagerConfig::new()
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(RECONNECT_DELAY_MAX)
            .set_number_of_retries(usize::MAX)
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_push_sender(forward(channel.clone(), hints.clone()))
            .set_automatic_resubscription();
        let manager = ConnectionManager::new_lazy_with_config(client, config).map_err(unusable)?;

        let subscribing = tokio::spawn(subscribe(manager.clone(), channel));
        let abort = subscribing.abort_handle();
        // Whoever subscribes right after this call should not miss hints if Redis is up.
        let _ = tokio::time::timeout(CALL_TIMEOUT, subscribing).await;
        Ok(Self {
            manager,
            put: Script::new(PUT),
            forget: Script::new(FORGET),
            announce: Script::new(shares::ANNOUNCE),
            lease: Script::new(leases::ASK),
            settle_lease: Script::new(leases::SETTLE),
            hints,
            options,
            subscribing: abort,
        })
    }

    fn blob_key(&self, gateway: &str, instance: &str) -> String {
        // A gateway's name has no colon, so no two pairs share a key.
        format!("{}:live:blob:{gateway}:{instance}", self.options.prefix)
    }

    fn instances_key(&self, gateway: &str) -> String {
        format!("{}:live:instances:{gateway}", self.options.prefix)
    }

    fn gateways_key(&self) -> String {
        format!("{}:live:gateways", self.options.prefix)
    }

    fn changes_key(&self) -> String {
        format!("{}:live:changes", self.options.prefix)
    }

    fn clock_key(&self) -> String {
        format!("{}:live:clock", self.options.prefix)
    }

    fn replicas_key(&self) -> String {
        format!("{}:live:replicas", self.options.prefix)
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        let mut manager = self.manager.clone();
        bounded(command.query_async(&mut manager)).await
    }

    async fn gateway_records(
        &self,
        gateway: &str,
        found: &mut Vec<AgentRecord>,
    ) -> Result<(), Error> {
        let instances: Vec<String> = self
            .ask(
                redis::cmd("ZRANGE")
                    .arg(self.instances_key(gateway))
                    .arg(0)
                    .arg(-1),
            )
            .await?;
        let first = found.len();
        for batch in instances.chunks(READ_BATCH) {
            let mut command = redis::cmd("MGET");
            for instance in batch {
                command.arg(self.blob_key(gateway, instance));
            }
            let blobs: Vec<Option<Vec<u8>>> = self.ask(&command).await?;
            // A blob may expire between the two commands.
            found.extend(
                blobs
                    .into_iter()
                    .flatten()
                    .filter_map(|blob| unpack(gateway, &blob)),
            );
        }
        if let Some(new) = found.get_mut(first..) {
            new.sort_by(|a, b| a.instance.cmp(&b.instance));
        }
        Ok(())
    }
}

#[async_trait]
impl LiveView for RedisLive {
    async fn put(&self, record: Arc<AgentRecord>, _now_ms: u64) -> Result<Put, Error> {
        let (order, blob) = pack(&record)?;
        let mut invocation = self.put.prepare_invoke();
        invocation
            .key(self.blob_key(&record.gateway, &record.instance))
            .key(self.instances_key(&record.gateway))
            .key(self.gateways_key())
            .key(self.changes_key())
            .key(self.clock_key())
            .arg(order)
            .arg(blob)
            .arg(u64::try_from(self.options.ttl.as_millis()).unwrap_or(u64::MAX))
            .arg(&record.instance)
            .arg(record.gateway.as_str())
            .arg(random::identifier())
            .arg(changes::REMEMBERED);
        let mut manager = self.manager.clone();
        let stored: bool = bounded(invocation.invoke_async(&mut manager)).await?;
        Ok(if stored { Put::Stored } else { Put::Older })
    }

    async fn records(&self, gateway: Option<&str>) -> Result<Vec<AgentRecord>, Error> {
        let mut found = Vec::new();
        if let Some(gateway) = gateway {
            self.gateway_records(gateway, &mut found).await?;
            return Ok(found);
        }
        let mut gateways: Vec<String> = self
            .ask(redis::cmd("ZRANGE").arg(self.gateways_key()).arg(0).arg(-1))
            .await?;
        gateways.sort();
        for gateway in &gateways {
            self.gateway_records(gateway, &mut found).await?;
        }
        Ok(found)
    }

    async fn later_session(
        &self,
        gateway: &str,
        instance: &str,
        than: u64,
    ) -> Result<Option<AgentRecord>, Error> {
        let key = self.blob_key(gateway, instance);
        let mut command = redis::cmd("GETRANGE");
        command.arg(&key).arg(0).arg(ORDER_DIGITS - 1);
        let epoch: String = self.ask(&command).await?;
        // Nothing is there when it is empty.
        if epoch.parse::<u64>().unwrap_or_default() <= than {
            return Ok(None);
        }
        let blob: Option<Vec<u8>> = self.ask(redis::cmd("GET").arg(&key)).await?;
        let record = blob.and_then(|blob| unpack(gateway, &blob));
        Ok(record.filter(|record| record.session_epoch > than))
    }

    async fn changes(&self, since: &Cursor) -> Result<Changes, Error> {
        self.read_changes(since).await
    }

    async fn announce(&self, replica: &str, share: Share) -> Result<bool, Error> {
        self.write_share(replica, share).await
    }

    async fn shares(&self) -> Result<Vec<SeenShare>, Error> {
        self.read_shares().await
    }

    async fn publish_traffic(
        &self,
        replica: &str,
        traffic: Arc<ReplicaTraffic>,
    ) -> Result<(), Error> {
        self.write_traffic(replica, &traffic).await
    }

    async fn traffic(&self) -> Result<Vec<(String, Arc<ReplicaTraffic>)>, Error> {
        self.read_traffic().await
    }

    async fn forget(&self, gateway: &str, instance: &str) -> Result<(), Error> {
        let mut invocation = self.forget.prepare_invoke();
        invocation
            .key(self.blob_key(gateway, instance))
            .key(self.instances_key(gateway))
            .key(self.changes_key())
            .key(self.clock_key())
            .arg(instance)
            .arg(gateway)
            .arg(random::identifier());
        let mut manager = self.manager.clone();
        bounded(invocation.invoke_async(&mut manager)).await
    }

    async fn publish(&self, hint: Hint) -> Result<(), Error> {
        let text =
            serde_json::to_string(&hint).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.ask(
            redis::cmd("PUBLISH")
                .arg(format!("{}:hints", self.options.prefix))
                .arg(text),
        )
        .await
    }

    fn subscribe(&self) -> broadcast::Receiver<Hint> {
        self.hints.subscribe()
    }

    async fn lease(&self, key: &LeaseKey, holder: &str, ttl: Duration) -> Result<Leased, Error> {
        self.ask_lease(key, holder, ttl).await
    }

    async fn settle_lease(
        &self,
        key: &LeaseKey,
        holder: &str,
        verdict: Option<&ProbeVerdict>,
    ) -> Result<bool, Error> {
        self.give_lease_back(key, holder, verdict).await
    }

    async fn probe_verdict(&self, key: &LeaseKey) -> Result<Option<ProbeVerdict>, Error> {
        self.read_verdict(key).await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.ask(&redis::cmd("PING")).await
    }
}

/// Subscribes for the first time, however long that takes; afterwards the connection does it by
/// itself.
async fn subscribe(mut manager: ConnectionManager, channel: String) {
    let warned = AtomicBool::new(false);
    while let Err(error) = bounded(manager.subscribe(&channel)).await {
        if !warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the live view is unreachable: no hints from other replicas for now");
        }
        tokio::time::sleep(SUBSCRIBE_RETRY).await;
    }
}

/// Passes messages of one channel on to this process's subscribers.
fn forward(
    channel: String,
    hints: broadcast::Sender<Hint>,
) -> impl Fn(PushInfo) -> Result<(), redis::aio::SendError> + Send + Sync + 'static {
    let hints = Arc::new(hints);
    move |push: PushInfo| {
        if push.kind == PushKind::Message
            && let [Value::BulkString(from), Value::BulkString(text)] = push.data.as_slice()
            && from == channel.as_bytes()
        {
            match serde_json::from_slice(text) {
                // An error means that no one listens.
                Ok(hint) => drop(hints.send(hint)),
                Err(error) => tracing::debug!(%error, "a hint of another release was skipped"),
            }
        }
        Ok(())
    }
}

async fn bounded<T>(call: impl Future<Output = Result<T, RedisError>>) -> Result<T, Error> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(classify(error)),
        Err(elapsed) => Err(Error::Unavailable {
            store: NAME,
            source: elapsed.into(),
        }),
    }
}

/// Sorts a driver's error by what the caller can do about it.
fn classify(error: RedisError) -> Error {
    use redis::{ErrorKind, ServerErrorKind};
    match error.kind() {
        // Types that do not fit and commands that do not exist are this program's fault; all else
        // (loading, out of memory, read-only replica, lost connection) may pass.
        ErrorKind::UnexpectedReturnType
        | ErrorKind::InvalidClientConfig
        | ErrorKind::Client
        | ErrorKind::Server(ServerErrorKind::ResponseError) => Error::Internal {
            store: NAME,
            source: error.into(),
        },
        _ => Error::Unavailable {
            store: NAME,
            source: error.into(),
        },
    }
}

/// The order in a form that compares as text, and the blob that begins with it.
fn pack(record: &AgentRecord) -> Result<(String, Vec<u8>), Error> {
    let (epoch, seq) = order_of(record);
    let order = format!("{epoch:0ORDER_DIGITS$}{seq:0ORDER_DIGITS$}");
    let mut blob = order.clone().into_bytes();
    serde_json::to_writer(&mut blob, record).map_err(|error| Error::Corrupt(error.to_string()))?;
    Ok((order, blob))
}

/// A blob that cannot be read is left out, with a word in the log: one agent's must not hide all
/// the others'.
fn unpack(gateway: &str, blob: &[u8]) -> Option<AgentRecord> {
    let text = blob.get(2 * ORDER_DIGITS..).unwrap_or_default();
    serde_json::from_slice(text)
        .inspect_err(|error| {
            tracing::warn!(gateway, %error, "an agent's record in the live view is unreadable");
        })
        .ok()
}
