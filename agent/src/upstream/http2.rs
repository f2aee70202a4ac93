//! One HTTP/2 connection, and one request on it.
//!
//! A connection has a task of its own, because no single request may drive what many share. The
//! `h2` crate is used without hyper around it: it says how many streams the peer takes and whether
//! the peer worked on a request that failed, and a request costs no task.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Scheme, Uri};
use http::{Request, Response, Version};
use http_body::Body as _;
use tokio::sync::Notify;

use super::error::{Again, Broken, Error, ErrorKind};
use super::transport::{Mark, Traffic, Transport};
use crate::clock;
use lanekeeper_protocol::rewrite::BodyChain;

/// Requests on one connection at most, whatever more the peer takes.
pub const MAX_STREAMS: usize = 100;
/// Bytes of one answer that may wait here for a slow caller; beyond it the peer has to wait.
pub const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// Bytes of all answers of a connection that may wait. Every stream has its whole window within it,
/// so that callers who stall cannot hold up the others.
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * 100;
/// Bytes of one request body that are handed to the connection ahead of the socket.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Bound on an answer's headers, as for HTTP/1.1.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// Stands for the number of streams until the peer has named its own; no peer can name this one.
const UNNAMED: usize = usize::MAX - 1;
/// Headers that describe a hop of HTTP/1.1 and are an error in HTTP/2.
const HOP_HEADERS: [HeaderName; 6] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    TE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// The connection's own side, which its task drives.
pub(super) type Driven = Connection<Transport, Bytes>;

/// Begins HTTP/2 on a connected socket and waits until the peer has said how many streams it takes.
pub(super) async fn open(transport: Transport) -> Result<(Channel, Driven), Error> {
    let traffic = transport.traffic();
    let is_tls = transport.is_tls();
    let mut builder = Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .initial_max_send_streams(UNNAMED)
        .enable_push(false);
    let (sender, mut connection) = builder
        .handshake(transport)
        .await
        .map_err(|error| Error::from_h2(&error))?;
    poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(Err(Error::from_h2(&error))),
        Poll::Ready(Ok(())) => {
            let error = Error::new(ErrorKind::Closed, "closed before its settings");
            Poll::Ready(Err(error))
        }
        Poll::Pending if connection.max_concurrent_send_streams() == UNNAMED => Poll::Pending,
        Poll::Pending => Poll::Ready(Ok(())),
    })
    .await?;
    let channel = Channel {
        sender,
        traffic,
        is_tls,
        load: Arc::default(),
    };
    Ok((channel, connection))
}

/// The means to use a connection.
#[derive(Debug)]
pub(super) struct Channel {
    sender: SendRequest<Bytes>,
    traffic: Traffic,
    is_tls: bool,
    load: Arc<Load>,
}

/// How much a connection is used.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Requests that hold a place.
    open: AtomicUsize,
    /// Requests that ever did.
    served: AtomicUsize,
}

impl Load {
    /// Requests that hold a place.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Requests that ever held a place.
    pub(super) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }
}

impl Channel {
    /// False once the peer takes no more requests, even if it still answers some.
    pub(super) fn is_live(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        !matches!(self.sender.poll_ready(&mut cx), Poll::Ready(Err(_)))
    }

    /// A place for a request, if the peer takes another one. `room` is told when it is free again.
    pub(super) fn lease(&mut self, room: &Arc<Notify>) -> Option<Lease> {
        let most = self.sender.current_max_send_streams().min(MAX_STREAMS);
        if self.load.open() >= most {
            return None;
        }
        self.load.open.fetch_add(1, Ordering::Relaxed);
        let before = self.load.served.fetch_add(1, Ordering::Relaxed);
        Some(Lease {
            sender: self.sender.clone(),
            traffic: self.traffic.clone(),
            is_tls: self.is_tls,
            is_kept: before > 0,
            _place: Place {
                load: Arc::clone(&self.load),
                room: Arc::clone(room),
            },
        })
    }

    /// The connection's load, readable after the channel is gone.
    pub(super) fn load(&self) -> Arc<Load> {
        Arc::clone(&self.load)
    }
}

/// A place on a connection; dropping it gives it to another request.
#[derive(Debug)]
struct Place {
    load: Arc<Load>,
    room: Arc<Notify>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.load.open.fetch_sub(1, Ordering::Relaxed);
        self.room.notify_one();
    }
}

/// A place for one request and its answer.
#[derive(Debug)]
pub(super) struct Lease {
    sender: SendRequest<Bytes>,
    traffic: Traffic,
    is_tls: bool,
    /// The connection has carried a request before.
    is_kept: bool,
    _place: Place,
}

impl Lease {
    /// Sends a request and waits for the head of its answer. Dropping the future resets the stream.
    pub(super) async fn exchange(
        mut self,
        request: Request<BodyChain>,
    ) -> Result<Response<Stream>, Broken> {
        let (head, body) = head_of(request, self.is_tls)?;
        let (began, mark) = (clock::now(), self.traffic.mark());
        let sent = poll_fn(|cx| self.sender.poll_ready(cx)).await;
        let sent = sent.and_then(|()| self.sender.send_request(head, body.is_end_stream()));
        let (mut answer, stream) = match sent {
            Ok(sent) => sent,
            Err(error) => {
                return Err(Broken {
                    // The peer has never seen it, unless the fault is the request's own.
                    again: Again::when(error.is_io() || error.is_go_away()),
                    error: Error::from_h2(&error),
                });
            }
        };
        let mut upload = Upload::new(stream, body);
        let answered = poll_fn(|cx| {
            upload.advance(cx);
            Pin::new(&mut answer).poll(cx)
        })
        .await;
        match answered {
            Ok(mut answer) => {
                // What follows compares versions of the agent's own two sides.
                *answer.version_mut() = Version::HTTP_11;
                Ok(answer.map(|received| Stream {
                    received,
                    upload,
                    lease: Some(self),
                    ended: false,
                }))
            }
            Err(error) => {
                let age = clock::now().saturating_duration_since(began);
                let again = match refusal(&error) {
                    Again::No => Again::when(self.was_stale(&error, mark, age)),
                    again => again,
                };
                Err(Broken {
                    again,
                    error: Error::from_h2(&error),
                })
            }
        }
    }

    /// True when a kept connection broke at once and the peer said nothing at all meanwhile.
    fn was_stale(&self, error: &h2::Error, mark: Mark, age: Duration) -> bool {
        self.is_kept
            && error.is_io()
            && age <= self.traffic.stale_within()
            && !self.traffic.heard_since(mark)
    }
}

/// What the peer says of a request it did not work on: it refused the stream, or the stream is
/// above the last one it will work on. (RFC 9113, 8.7)
fn refusal(error: &h2::Error) -> Again {
    if !error.is_remote() {
        return Again::No;
    }
    match error.reason() {
        Some(Reason::HTTP_1_1_REQUIRED) => Again::OverHttp1,
        Some(Reason::REFUSED_STREAM) => Again::Yes,
        _ => Again::when(error.is_go_away()),
    }
}

/// The head as HTTP/2 has it, and the body.
fn head_of(request: Request<BodyChain>, is_tls: bool) -> Result<(Request<()>, BodyChain), Broken> {
    let (mut head, body) = request.into_parts();
    for name in HOP_HEADERS {
        head.headers.remove(name);
    }
    let mut uri = head.uri.into_parts();
    uri.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
    if let Some(host) = head.headers.remove(HOST) {
        uri.authority = http::uri::Authority::try_from(host.as_bytes()).ok();
    }
    head.uri = Uri::from_parts(uri).map_err(|error| Broken {
        error: Error::new(ErrorKind::Protocol, error),
        again: Again::No,
    })?;
    head.version = Version::HTTP_2;
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    Ok((Request::from_parts(head, ()), body))
}

/// The rest of a request body on its way.
#[derive(Debug)]
struct Upload {
    stream: SendStream<Bytes>,
    body: BodyChain,
    /// The part of the body that is being sent.
    part: Bytes,
    done: bool,
}

impl Upload {
    fn new(stream: SendStream<Bytes>, body: BodyChain) -> Self {
        Self {
            done: body.is_end_stream(),
            stream,
            body,
            part: Bytes::new(),
        }
    }

    /// Hands over as much as the peer takes. A fault shows in the answer, where it is judged.
    fn advance(&mut self, cx: &mut Context<'_>) {
        while !self.done {
            if self.part.is_empty() {
                match Pin::new(&mut self.body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        self.part = frame.into_data().unwrap_or_default();
                    }
                    Poll::Ready(Some(Err(never))) => match never {},
                    Poll::Ready(None) => self.done = true,
                    Poll::Pending => return,
                }
                continue;
            }
            self.stream.reserve_capacity(self.part.len());
            match self.stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(0))) => {}
                Poll::Ready(Some(Ok(room))) => {
                    let chunk = self.part.split_to(room.min(self.part.len()));
                    let last = self.part.is_empty() && self.body.is_empty();
                    self.done = self.stream.send_data(chunk, last).is_err() || last;
                }
                Poll::Ready(Some(Err(_)) | None) => self.done = true,
                Poll::Pending => return,
            }
        }
    }
}

/// The body of an answer. Dropping it before its end resets the stream, which tells the peer that
/// nobody listens; the connection lives on.
#[derive(Debug)]
pub(super) struct Stream {
    received: RecvStream,
    upload: Upload,
    lease: Option<Lease>,
    ended: bool,
}

impl Stream {
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.upload.advance(cx);
        let polled = self.received.poll_data(cx);
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(bytes))) => {
                // Whoever asks has room for it. It fails only on a stream that has ended.
                let _ = self.received.flow_control().release_capacity(bytes.len());
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.end();
                Poll::Ready(Some(Err(Error::from_h2(&error))))
            }
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.ended || self.received.is_end_stream()
    }

    fn end(&mut self) {
        self.ended = true;
        self.lease = None;
    }
}
