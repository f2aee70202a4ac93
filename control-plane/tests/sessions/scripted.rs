//! A control plane under test and an agent that does exactly what a test tells it to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_control_plane::{Addresses, Config, Error, Timing};
use lanekeeper_model::fleet::AgentRecord;
use lanekeeper_model::{CellReport, CellState, ConfigSource, Problem, Report};
use lanekeeper_proto::message::{
    AppliedRevision, Bye, ConfigOutcome, ConfigPush, ConfigResult, FromAgent, FromServer, Goodbye,
    Hello, ReportAck, Welcome,
};
use lanekeeper_proto::{FleetClient, limits, wire};
use lanekeeper_store::testing::eventually;
use lanekeeper_store::{Change, ConfigStore, Hint, LiveView, MemoryLive};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// Longest wait for anything; a slow machine is no failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running control plane.
pub(crate) struct Plane {
    pub(crate) store: ConfigStore,
    pub(crate) live: Arc<dyn LiveView>,
    pub(crate) addresses: Addresses,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
    dir: Option<tempfile::TempDir>,
}

impl Plane {
    /// With embedded storage and the usual times.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// With embedded storage and other settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
        let mut plane = Self::start_on(store, Arc::new(MemoryLive::new()), change).await;
        plane.dir = Some(dir);
        plane
    }

    /// With given stores.
    pub(crate) async fn start_on(
        store: ConfigStore,
        live: Arc<dyn LiveView>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut config = Config {
            grpc_listen: any,
            ops_listen: any,
            timing: Timing {
                reconnect_jitter: Duration::from_millis(100),
                ..Timing::default()
            },
            ..Config::default()
        };
        change(&mut config);
        let shutdown = CancellationToken::new();
        let (ready, bound) = oneshot::channel();
        let task = tokio::spawn(lanekeeper_control_plane::run(
            config,
            store.clone(),
            Arc::clone(&live),
            shutdown.clone(),
            move |addresses| ready.send(addresses).unwrap(),
        ));
        let addresses = tokio::time::timeout(PATIENCE, bound)
            .await
            .unwrap()
            .unwrap();
        Self {
            store,
            live,
            addresses,
            shutdown,
            task,
            dir: None,
        }
    }

    /// Stops it in an orderly way; the value holds its files, to be dropped when they are done
    /// with.
    pub(crate) async fn stop(self) -> Option<tempfile::TempDir> {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .expect("the control plane ends in time")
            .unwrap()
            .unwrap();
        self.dir
    }

    /// Tells it to stop, without waiting.
    pub(crate) fn begin_stop(&self) {
        self.shutdown.cancel();
    }

    pub(crate) async fn create(&self, gateway: &str) -> u64 {
        let (document, hash) = document(gateway, 0);
        self.store
            .create_gateway(gateway, &document, &hash, &by_test())
            .await
            .unwrap()
            .number
    }

    /// Writes the next revision without a hint.
    pub(crate) async fn write_quietly(&self, gateway: &str, salt: u64) -> u64 {
        let (document, hash) = document(gateway, salt);
        self.store
            .write_revision(gateway, None, &document, &hash, &by_test())
            .await
            .unwrap()
            .number
    }

    /// Writes the next revision as the API does.
    pub(crate) async fn write(&self, gateway: &str, salt: u64) -> u64 {
        let number = self.write_quietly(gateway, salt).await;
        self.live
            .publish(Hint::Revision {
                gateway: gateway.into(),
            })
            .await
            .unwrap();
        number
    }

    pub(crate) async fn record(&self, instance: &str) -> Option<AgentRecord> {
        let records = self.live.records(None).await.unwrap();
        records
            .into_iter()
            .find(|record| record.instance == instance)
    }

    /// Waits until an agent's record is as wanted.
    pub(crate) async fn until_record(
        &self,
        instance: &str,
        what: &str,
        holds: impl Fn(&AgentRecord) -> bool,
    ) -> AgentRecord {
        eventually(what, PATIENCE, async || {
            self.record(instance).await.as_ref().is_some_and(&holds)
        })
        .await;
        self.record(instance).await.unwrap()
    }

    /// Like [`Plane::until_record`], for a view that may be away meanwhile.
    pub(crate) async fn until_stored(&self, instance: &str, holds: impl Fn(&AgentRecord) -> bool) {
        eventually("the record is back", PATIENCE, async || {
            let Ok(records) = self.live.records(None).await else {
                return false;
            };
            records
                .iter()
                .any(|record| record.instance == instance && holds(record))
        })
        .await;
    }

    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let (_, exposition) = self.ops("GET", "/metrics").await;
        exposition
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
            .unwrap_or(0.0)
    }

    /// Asks the ops listener: status and body.
    pub(crate) async fn ops(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.addresses.ops).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: ops\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let status = response.split(' ').nth(1).unwrap().parse().unwrap();
        let body = response.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }
}

/// Some document and its hash. Nothing here looks inside, so it need not be valid.
pub(crate) fn document(gateway: &str, salt: u64) -> (Value, String) {
    let document = json!({ "name": gateway, "salt": salt });
    (document, format!("hash-{gateway}-{salt}"))
}

pub(crate) fn by_test() -> Change {
    Change {
        actor: "test".to_owned(),
        actor_id: String::new(),
        message: String::new(),
        now_ms: 1_700_000_000_000,
        idempotency: None,
    }
}

pub(crate) fn hello(gateway: &str, instance: &str) -> Hello {
    Hello {
        protocol_min: limits::PROTOCOL_MIN,
        protocol_max: limits::PROTOCOL_MAX,
        agent_version: "0.1.0".into(),
        gateway: gateway.into(),
        name: format!("agent-{instance}"),
        labels: BTreeMap::from([("zone".into(), "b".into())]),
        instance: instance.into(),
        applied: None,
        wall_ms: 0,
        previous_session_epoch: None,
        capabilities: Vec::new(),
    }
}

pub(crate) fn applied(push: &ConfigPush, welcome: &Welcome) -> AppliedRevision {
    AppliedRevision {
        revision: push.revision,
        hash: push.hash.clone(),
        source: ConfigSource::Disk,
        control_epoch: Some(welcome.control_epoch.clone()),
    }
}

pub(crate) fn report(seq: u64, open: &[&str]) -> Report {
    Report {
        seq,
        cells: open.iter().map(|lane| open_cell(lane)).collect(),
        ..Report::default()
    }
}

fn open_cell(lane: &str) -> CellReport {
    CellReport {
        pool: "chat".into(),
        lane: lane.into(),
        provider: "somewhere".into(),
        endpoint: None,
        state: CellState::Open,
        state_age_ms: 1,
        open_age_ms: 1,
        cooldown_remaining_ms: 1,
        parked_remaining_ms: 0,
        streak: 5,
        trips: 1,
        reopens: 0,
        window_ok: 0,
        window_failed: 5,
        cause: None,
        override_action: None,
        advisory: false,
        advisory_spared: 0,
    }
}

/// An agent's end of a stream.
pub(crate) struct Agent {
    pub(crate) outbound: mpsc::Sender<wire::AgentMessage>,
    pub(crate) inbound: Streaming<wire::ServerMessage>,
}

pub(crate) async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap()
}

impl Agent {
    /// Opens a stream on a connection of its own, saying nothing.
    pub(crate) async fn dial(address: SocketAddr) -> Self {
        Self::dial_on(channel(address).await).await
    }

    /// Opens a stream, saying nothing.
    pub(crate) async fn dial_on(channel: Channel) -> Self {
        Self::try_dial_on(channel).await.unwrap()
    }

    /// The same with a server that may refuse.
    pub(crate) async fn try_dial_on(channel: Channel) -> Result<Self, Status> {
        let (outbound, messages) = mpsc::channel(16);
        // The scripted agent may send what the server refuses.
        let mut client =
            FleetClient::new(channel).max_decoding_message_size(limits::MESSAGE_BYTES_MAX);
        let response = client.session(ReceiverStream::new(messages)).await?;
        Ok(Self {
            outbound,
            inbound: response.into_inner(),
        })
    }

    /// Opens a session.
    pub(crate) async fn join(address: SocketAddr, hello: Hello) -> (Self, Welcome) {
        let mut agent = Self::dial(address).await;
        agent.send(FromAgent::Hello(hello)).await;
        match agent.next().await {
            FromServer::Welcome(welcome) => (agent, welcome),
            other => panic!("no welcome: {other:?}"),
        }
    }

    pub(crate) async fn send(&self, message: FromAgent) {
        self.outbound.send(message.into()).await.unwrap();
    }

    pub(crate) async fn bye(&self) {
        let reason = "done".to_owned();
        self.send(FromAgent::Bye(Bye { reason })).await;
    }

    pub(crate) async fn next(&mut self) -> FromServer {
        let envelope = self.end_or_next().await.unwrap();
        FromServer::try_from(envelope.expect("a message, not the end")).unwrap()
    }

    /// The next message, the orderly end, or the error that ends the stream.
    pub(crate) async fn end_or_next(&mut self) -> Result<Option<wire::ServerMessage>, Status> {
        tokio::time::timeout(PATIENCE, self.inbound.message())
            .await
            .expect("something from the server in time")
    }

    /// Nothing comes for a while.
    pub(crate) async fn hears_nothing(&mut self, during: Duration) {
        if let Ok(message) = tokio::time::timeout(during, self.inbound.message()).await {
            panic!("unexpected: {message:?}");
        }
    }

    /// No orders come for a while, whatever else does.
    pub(crate) async fn hears_no_orders(&mut self, during: Duration) {
        let listening = async {
            loop {
                if let FromServer::Overrides(told) = self.next().await {
                    return told;
                }
            }
        };
        if let Ok(told) = tokio::time::timeout(during, listening).await {
            panic!("unexpected: {told:?}");
        }
    }

    pub(crate) async fn push(&mut self) -> ConfigPush {
        match self.next().await {
            FromServer::ConfigPush(push) => push,
            other => panic!("no push: {other:?}"),
        }
    }

    pub(crate) async fn ack(&mut self) -> ReportAck {
        match self.next().await {
            FromServer::ReportAck(ack) => ack,
            other => panic!("no acknowledgement: {other:?}"),
        }
    }

    pub(crate) async fn goodbye(&mut self) -> Goodbye {
        let goodbye = match self.next().await {
            FromServer::Goodbye(goodbye) => goodbye,
            other => panic!("no goodbye: {other:?}"),
        };
        assert_eq!(
            self.end_or_next().await.unwrap(),
            None,
            "nothing follows a goodbye"
        );
        goodbye
    }

    pub(crate) async fn apply(&self, push: &ConfigPush) {
        self.send(FromAgent::ConfigResult(ConfigResult {
            nonce: push.nonce,
            outcome: ConfigOutcome::Applied {
                problems: Vec::new(),
            },
            revision: push.revision,
            hash: push.hash.clone(),
            pools: Vec::new(),
        }))
        .await;
    }

    pub(crate) async fn reject(&self, push: &ConfigPush, serving: u64, hash: &str) {
        self.send(FromAgent::ConfigResult(ConfigResult {
            nonce: push.nonce,
            outcome: ConfigOutcome::Rejected {
                errors: vec![Problem::new("/pools/chat", "unknown_reference", "no lane")],
            },
            revision: serving,
            hash: hash.to_owned(),
            pools: Vec::new(),
        }))
        .await;
    }
}
