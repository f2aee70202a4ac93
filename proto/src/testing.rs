//! Peers of other releases, for the tests of any crate: what they send is handed to the socket byte
//! by byte, since a generated type would drop whatever this release does not know.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::Path;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{NamedService, StreamingService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming, server};

use crate::wire::{AgentMessage, ServerMessage};

/// Where the session is called.
const SESSION: &str = "/lanekeeper.fleet.v1.Fleet/Session";

/// The bytes of a checked-in message, such as `next/agent/hello`.
pub fn fixture(name: &str) -> Bytes {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let path = folder.join(format!("{name}.bin"));
    let read = std::fs::read(&path);
    read.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .into()
}

/// Sends bytes as they are and reads messages of this release.
#[derive(Debug)]
struct Verbatim<D>(PhantomData<fn() -> D>);

impl<D> Default for Verbatim<D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<D: prost::Message + Default + 'static> Codec for Verbatim<D> {
    type Encode = Bytes;
    type Decode = D;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<D> Encoder for Verbatim<D> {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl<D: prost::Message + Default> Decoder for Verbatim<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        let message = D::decode(buffer).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Some(message))
    }
}

/// Opens a stream as an agent whose messages are `said`.
///
/// # Errors
///
/// The server's, when it does not open the stream.
pub async fn session(
    channel: Channel,
    said: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Streaming<ServerMessage>, Status> {
    let mut client = Grpc::new(channel);
    client
        .ready()
        .await
        .map_err(|error| Status::unavailable(format!("{error:?}")))?;
    let path = PathAndQuery::from_static(SESSION);
    let answer = client.streaming(Request::new(said), path, Verbatim::default());
    Ok(answer.await?.into_inner())
}

/// A control plane that answers whatever `F` makes of an agent's stream. It hands out no
/// certificates.
#[derive(Debug, Clone)]
pub struct Sessions<F>(pub F);

impl<F, S> Service<http::Request<Body>> for Sessions<F>
where
    F: Fn(Streaming<AgentMessage>) -> S + Clone + Send + 'static,
    S: Stream<Item = Result<Bytes, Status>> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let open = Open(self.0.clone());
        Box::pin(async move {
            if request.uri().path() != SESSION {
                return Ok(Status::unimplemented("sessions only").into_http());
            }
            let mut server = server::Grpc::new(Verbatim::default());
            Ok(server.streaming(open, request).await)
        })
    }
}

impl<F> NamedService for Sessions<F> {
    const NAME: &'static str = "lanekeeper.fleet.v1.Fleet";
}

struct Open<F>(F);

impl<F, S> StreamingService<AgentMessage> for Open<F>
where
    F: Fn(Streaming<AgentMessage>) -> S,
    S: Stream<Item = Result<Bytes, Status>> + Send + 'static,
{
    type Response = Bytes;
    type ResponseStream = S;
    type Future = BoxFuture<Response<S>, Status>;

    fn call(&mut self, request: Request<Streaming<AgentMessage>>) -> Self::Future {
        let said = (self.0)(request.into_inner());
        Box::pin(async move { Ok(Response::new(said)) })
    }
}
