//! A control plane that does what a test tells it to, on a real socket.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use lanekeeper_model::{Report, content_hash};
use lanekeeper_proto::message::{
    ConfigPush, ConfigResult, FromAgent, FromServer, Goodbye, GoodbyeReason, Hello, Limits,
    ReportAck, Welcome,
};
use lanekeeper_proto::testing::Sessions;
use lanekeeper_proto::wire::{AgentMessage, ServerMessage};
use prost::Message as _;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Status, Streaming};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The server.
pub struct Scripted {
    pub address: SocketAddr,
    peers: mpsc::UnboundedReceiver<Peer>,
    task: JoinHandle<()>,
}

impl Scripted {
    pub async fn start() -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap()).await
    }

    pub async fn start_on(address: SocketAddr) -> Self {
        Self::start_with(address, Server::builder())
    }

    pub async fn start_tls(tls: ServerTlsConfig) -> Self {
        let server = Server::builder().tls_config(tls).unwrap();
        Self::start_with("127.0.0.1:0".parse().unwrap(), server)
    }

    fn start_with(address: SocketAddr, mut server: Server) -> Self {
        let listener =
            tokio::net::TcpListener::from_std(lanekeeper_serve::bind(address, false).unwrap())
                .unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, peers) = mpsc::unbounded_channel();
        let door = Sessions(move |inbound| {
            let (outbound, said) = mpsc::channel(16);
            // A server that is over has nobody who would miss the peer.
            let _ = sender.send(Peer { inbound, outbound });
            ReceiverStream::new(said)
        });
        let task = tokio::spawn(async move {
            server
                .add_service(door)
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
                .unwrap();
        });
        Self {
            address,
            peers,
            task,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next session that an agent opens.
    pub async fn peer(&mut self) -> Peer {
        tokio::time::timeout(PATIENCE, self.peers.recv())
            .await
            .expect("an agent dials in time")
            .expect("the server runs")
    }

    /// Sessions opened within `window` when each is closed at once.
    pub async fn count_and_close(&mut self, window: Duration) -> usize {
        let mut count = 0;
        let counting = async {
            while let Some(peer) = self.peers.recv().await {
                drop(peer);
                count += 1;
            }
        };
        let _ = tokio::time::timeout(window, counting).await;
        count
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One session, seen from the server.
pub struct Peer {
    inbound: Streaming<AgentMessage>,
    outbound: mpsc::Sender<Result<Bytes, Status>>,
}

impl Peer {
    pub async fn next(&mut self) -> Option<FromAgent> {
        tokio::time::timeout(PATIENCE, self.inbound.message())
            .await
            .expect("the agent speaks in time")
            .ok()
            .flatten()
            .map(|message| FromAgent::try_from(message).expect("a valid message"))
    }

    pub async fn send(&self, message: FromServer) {
        self.send_wire(message.into()).await;
    }

    pub async fn send_wire(&self, message: ServerMessage) {
        self.send_bytes(message.encode_to_vec().into()).await;
    }

    /// Sends a message that this release may not know.
    pub async fn send_bytes(&self, message: Bytes) {
        self.outbound.send(Ok(message)).await.unwrap();
    }

    pub async fn hello(&mut self) -> Hello {
        match self.next().await {
            Some(FromAgent::Hello(hello)) => hello,
            other => panic!("no Hello at first: {other:?}"),
        }
    }

    /// Reads the Hello and answers it.
    pub async fn open(&mut self, control_epoch: &str, target_revision: u64) -> Hello {
        self.open_with(control_epoch, target_revision, Duration::from_secs(10))
            .await
    }

    pub async fn open_with(
        &mut self,
        control_epoch: &str,
        target_revision: u64,
        report_interval: Duration,
    ) -> Hello {
        let hello = self.hello().await;
        let welcome = Welcome {
            session_epoch: 1,
            control_epoch: control_epoch.to_owned(),
            report_interval,
            report_phase: report_interval,
            stale_after: Duration::from_secs(30),
            target_revision,
            protocol: 1,
            gateway_exists: true,
            limits: Limits {
                message_bytes: 1 << 24,
                report_cells: 1000,
            },
            capabilities: Vec::new(),
        };
        self.send(FromServer::Welcome(welcome)).await;
        hello
    }

    pub async fn push(&self, revision: u64, document: &Value) {
        self.push_as(revision, document, &content_hash(document))
            .await;
    }

    pub async fn push_as(&self, revision: u64, document: &Value, hash: &str) {
        let push = ConfigPush {
            nonce: revision + 1000,
            revision,
            document: Bytes::from(serde_json::to_vec(document).unwrap()),
            hash: hash.to_owned(),
        };
        self.send(FromServer::ConfigPush(push)).await;
    }

    /// The next answer to a push; reports on the way are acknowledged.
    pub async fn result(&mut self) -> ConfigResult {
        loop {
            match self.next().await {
                Some(FromAgent::ConfigResult(result)) => return result,
                Some(FromAgent::Report(report)) => self.acknowledge(report.seq).await,
                other => panic!("no answer to the push: {other:?}"),
            }
        }
    }

    /// The next report, acknowledged.
    pub async fn report(&mut self) -> Report {
        match self.next().await {
            Some(FromAgent::Report(report)) => {
                self.acknowledge(report.seq).await;
                report
            }
            other => panic!("no report: {other:?}"),
        }
    }

    async fn acknowledge(&self, seq: u64) {
        let ack = ReportAck {
            seq,
            want_dense: false,
            next_interval: None,
            refused: None,
            transitions_stored: 0,
        };
        self.send(FromServer::ReportAck(ack)).await;
    }

    pub async fn goodbye(self, reconnect_after: Duration) {
        let goodbye = Goodbye {
            reason: GoodbyeReason::Shutdown,
            detail: "restart".to_owned(),
            reconnect_after,
            jitter: Duration::ZERO,
        };
        self.send(FromServer::Goodbye(goodbye)).await;
    }
}
