//! The gRPC listener: what a connection may cost, and the way from a call to a session.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_proto::message::{FromServer, Goodbye, GoodbyeReason};
use lanekeeper_proto::{Fleet, FleetServer, limits, wire};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use crate::config::Timing;
use crate::core::Core;
use crate::link::{self, Link};
use crate::stream::{self, Item};

/// Streams a peer may open and reset before they are served, and resets it may cause, before its
/// connection is closed (the h2 reset floods).
const RESETS_MAX: usize = 20;
/// Wait asked of agents for which there is no room.
const OVERLOADED_WAIT: Duration = Duration::from_secs(10);

/// How long connections may take to pass the last farewell on.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// What every connection is held to.
///
/// # Errors
///
/// The certificates do not fit together.
pub(crate) fn server(
    timing: &Timing,
    tls: Option<ServerTlsConfig>,
) -> Result<Server, tonic::transport::Error> {
    let server = Server::builder()
        .max_concurrent_streams(limits::STREAMS_PER_CONNECTION_MAX)
        .http2_max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
        .http2_keepalive_interval(Some(limits::KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(limits::KEEPALIVE_TIMEOUT))
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
        .http2_max_local_error_reset_streams(Some(RESETS_MAX));
    match tls {
        Some(tls) => server.tls_config(tls.timeout(timing.hello_timeout)),
        None => Ok(server),
    }
}

/// Serves agents until `core.closing` is cancelled and they are gone, or until `grace` after that.
///
/// # Errors
///
/// The transport's, when the listener cannot go on.
pub(crate) async fn serve(
    core: Arc<Core>,
    mut server: Server,
    listener: TcpListener,
    connections_max: usize,
    sessions_max: usize,
) -> Result<(), tonic::transport::Error> {
    let cut = CancellationToken::new();
    let sessions = TaskTracker::new();
    let closing = core.closing.clone();
    let grace = core.timing.shutdown_grace;
    let preface_timeout = core.timing.hello_timeout;
    let service = FleetServer::new(FleetService {
        core,
        room: Arc::new(Semaphore::new(sessions_max)),
        sessions: sessions.clone(),
    })
    .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
    .max_encoding_message_size(limits::MESSAGE_BYTES_MAX);
    let serving = server.add_service(service).serve_with_incoming_shutdown(
        link::accept(listener, connections_max, preface_timeout, cut.clone()),
        closing.clone().cancelled_owned(),
    );
    let mut serving = pin!(serving);
    let farewells = async {
        closing.cancelled().await;
        sessions.close();
        if tokio::time::timeout(grace, sessions.wait()).await.is_ok() {
            tokio::time::sleep(FLUSH_TIME).await;
        }
    };
    // Waiting for peers to close has no bound of its own, so connections are cut in the end.
    let served = tokio::select! {
        served = serving.as_mut() => Some(served),
        () = farewells => None,
    };
    cut.cancel();
    let served = match served {
        Some(served) => served,
        None => serving.await,
    };
    closing.cancel();
    sessions.close();
    sessions.wait().await;
    served
}

struct FleetService {
    core: Arc<Core>,
    room: Arc<Semaphore>,
    sessions: TaskTracker,
}

#[tonic::async_trait]
impl Fleet for FleetService {
    type SessionStream = ReceiverStream<Item>;

    async fn session(
        &self,
        request: Request<Streaming<wire::AgentMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let link = request.extensions().get::<Link>().cloned();
        let (writer, reader) = mpsc::channel(stream::STREAM_BUFFER);
        match Arc::clone(&self.room).try_acquire_owned() {
            Ok(slot) => {
                let core = Arc::clone(&self.core);
                self.sessions.spawn(async move {
                    stream::serve(core, request.into_inner(), writer, link).await;
                    drop(slot);
                });
            }
            Err(_) => {
                self.core.metrics.goodbye(GoodbyeReason::Overloaded);
                let goodbye = FromServer::Goodbye(Goodbye {
                    reason: GoodbyeReason::Overloaded,
                    detail: "no more sessions can be served here".to_owned(),
                    reconnect_after: OVERLOADED_WAIT,
                    jitter: OVERLOADED_WAIT,
                });
                // The channel is new and has room for one.
                let _ = writer.try_send(Ok(goodbye.into()));
            }
        }
        Ok(Response::new(ReceiverStream::new(reader)))
    }
}
