//! The gRPC listener: what a connection may cost, and the way from a call to a session.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request as HttpRequest, Response as HttpResponse};
use lanekeeper_proto::message::{
    EnrollRequest, FromServer, Goodbye, GoodbyeReason, IssuedCertificate, RenewCertRequest,
};
use lanekeeper_proto::{Fleet, FleetCodec, FleetServer, WireError, limits, wire};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codec::Codec;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::enrolment::authorization::Authorization;
use crate::enrolment::enrol::Registrar;
use crate::enrolment::tls::Settings;
use crate::hosting::core::Core;
use crate::hosting::link::Link;
use crate::hosting::stream;
use crate::hosting::writer::{Item, STREAM_BUFFER};
use crate::listener::connection;
use crate::listener::frames;

/// Streams a peer may open and reset before they are served, and resets it may cause, before its
/// connection is closed (the h2 reset floods).
const RESETS_MAX: usize = 20;
/// Wait asked of agents for which there is no room.
const OVERLOADED_WAIT: Duration = Duration::from_secs(10);

/// The call that opens a session.
const SESSION_PATH: &str = "/lanekeeper.fleet.v1.Fleet/Session";

/// How long connections may take to pass the last goodbye on.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// What every connection is held to.
fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(limits::STREAMS_PER_CONNECTION_MAX)
        .http2_max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
        .http2_keepalive_interval(Some(limits::KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(limits::KEEPALIVE_TIMEOUT))
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
        .http2_max_local_error_reset_streams(Some(RESETS_MAX))
}

/// How connections are protected, and who hands out certificates, if anyone does.
#[derive(Default)]
pub(crate) struct Protection {
    /// The listener's TLS; `None` for plaintext.
    pub(crate) tls: Option<Settings>,
    /// Hands out certificates.
    pub(crate) registrar: Option<Arc<Registrar>>,
}

/// Serves agents until `core.closing` is cancelled and they are gone, or until `grace` after that.
///
/// # Errors
///
/// The transport's, when the listener cannot go on.
pub(crate) async fn serve(
    core: Arc<Core>,
    protection: Protection,
    listener: TcpListener,
    connections_max: usize,
    sessions_max: usize,
) -> Result<(), tonic::transport::Error> {
    let cut = CancellationToken::new();
    let sessions = TaskTracker::new();
    let closing = core.closing.clone();
    let grace = core.timing.shutdown_grace;
    let preface_timeout = core.timing.hello_timeout;
    let fleet = Arc::new(FleetService {
        core,
        registrar: protection.registrar,
        room: Arc::new(Semaphore::new(sessions_max)),
        sessions: sessions.clone(),
    });
    let service = Calls {
        unary: FleetServer::from_arc(Arc::clone(&fleet))
            .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::MESSAGE_BYTES_MAX),
        fleet,
    };
    let serving = server().add_service(service).serve_with_incoming_shutdown(
        connection::accept(
            listener,
            protection.tls,
            connections_max,
            preface_timeout,
            cut.clone(),
        ),
        closing.clone().cancelled_owned(),
    );
    let mut serving = pin!(serving);
    let goodbyes = async {
        closing.cancelled().await;
        sessions.close();
        if tokio::time::timeout(grace, sessions.wait()).await.is_ok() {
            tokio::time::sleep(FLUSH_TIME).await;
        }
    };
    // Waiting for peers to close has no bound of its own, so connections are cut in the end.
    let served = tokio::select! {
        served = serving.as_mut() => Some(served),
        () = goodbyes => None,
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

/// The calls of the service. A session is answered by [`frames`], in place of the encoder that the
/// unary calls have.
#[derive(Clone)]
struct Calls {
    fleet: Arc<FleetService>,
    unary: FleetServer<FleetService>,
}

impl NamedService for Calls {
    const NAME: &'static str = <FleetServer<FleetService> as NamedService>::NAME;
}

impl Service<HttpRequest<Body>> for Calls {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<HttpResponse<Body>, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        if request.uri().path() != SESSION_PATH {
            return self.unary.call(request);
        }
        let response = self.fleet.session_over(request);
        Box::pin(std::future::ready(Ok(response)))
    }
}

struct FleetService {
    core: Arc<Core>,
    registrar: Option<Arc<Registrar>>,
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
        let messages = self.open(link, request.into_inner())?;
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn enroll(
        &self,
        request: Request<wire::EnrollRequest>,
    ) -> Result<Response<wire::IssuedCertificate>, Status> {
        let (registrar, peer) = (self.registrar()?, address(&request)?);
        let request = EnrollRequest::try_from(request.into_inner()).map_err(unfit)?;
        answer(registrar.enroll(request, peer).await)
    }

    async fn renew_cert(
        &self,
        request: Request<wire::RenewCertRequest>,
    ) -> Result<Response<wire::IssuedCertificate>, Status> {
        let (registrar, peer) = (self.registrar()?, address(&request)?);
        let authorization = self.authorization(request.extensions().get())?;
        let identity = authorization.identity().ok_or_else(|| {
            Status::unauthenticated("a certificate that names an agent is needed")
        })?;
        let request = RenewCertRequest::try_from(request.into_inner()).map_err(unfit)?;
        answer(registrar.renew(request, identity, peer).await)
    }
}

impl FleetService {
    /// Answers the call that opens a session.
    fn session_over(&self, request: HttpRequest<Body>) -> HttpResponse<Body> {
        let link = request.extensions().get::<Link>().cloned();
        let inbound = Streaming::new_request(
            FleetCodec::<wire::ServerMessage, wire::AgentMessage>::default().decoder(),
            request.into_body(),
            None,
            Some(limits::MESSAGE_BYTES_MAX),
        );
        match self.open(link, inbound) {
            Ok(messages) => {
                let mut response = HttpResponse::new(frames::body(messages));
                let grpc = HeaderValue::from_static("application/grpc");
                response.headers_mut().insert(CONTENT_TYPE, grpc);
                response
            }
            Err(status) => status.into_http(),
        }
    }

    /// Begins a session; what it says is to be read from the channel.
    fn open(
        &self,
        link: Option<Link>,
        inbound: Streaming<wire::AgentMessage>,
    ) -> Result<mpsc::Receiver<Item>, Status> {
        let authorization = self.authorization(link.as_ref())?;
        let (writer, reader) = mpsc::channel(STREAM_BUFFER);
        match Arc::clone(&self.room).try_acquire_owned() {
            Ok(slot) => {
                let core = Arc::clone(&self.core);
                self.sessions.spawn(async move {
                    stream::serve(core, inbound, writer, link, authorization).await;
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
        Ok(reader)
    }

    fn authorization(&self, link: Option<&Link>) -> Result<Authorization, Status> {
        let proof = link.and_then(|link| link.proof.get());
        Authorization::new(
            proof,
            self.registrar.is_some(),
            self.core.revoked.subscribe(),
        )
    }

    fn registrar(&self) -> Result<&Registrar, Status> {
        self.registrar.as_deref().ok_or_else(|| {
            Status::failed_precondition("this control plane hands out no certificates")
        })
    }
}

fn address<T>(request: &Request<T>) -> Result<IpAddr, Status> {
    let link = request.extensions().get::<Link>();
    link.and_then(|link| link.peer)
        .map(|peer| peer.ip())
        .ok_or_else(|| Status::internal("the connection has no other end"))
}

fn unfit(error: WireError) -> Status {
    Status::invalid_argument(error.to_string())
}

fn answer(
    issued: Result<IssuedCertificate, Status>,
) -> Result<Response<wire::IssuedCertificate>, Status> {
    issued.map(|issued| Response::new(issued.into()))
}
