//! The agents' connections: counted, without Nagle's delay, with or without TLS, and able to be cut
//! from this side, since a peer that stops reading cannot be reached by anything written on the
//! stream.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use crate::clock;
use crate::enrolment::authority::identity_in;
use crate::enrolment::authorization::Proof;
use crate::enrolment::tls::Settings;
use crate::hosting::link::Link;
use crate::listener::flood::Frames;
use crate::listener::pace::Pace;

/// Pause after an accept error that will not pass at once, such as "too many open files".
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Length of what every HTTP/2 client says first, in bytes.
const PREFACE_BYTES: usize = 24;

/// One accepted connection.
pub(crate) struct Connection {
    transport: Transport,
    link: Link,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    preface: Option<Preface>,
    frames: Frames,
    _slot: OwnedSemaphorePermit,
}

/// The bytes' way. A handshake is part of the connection's own reading and writing, so that slow
/// ones keep nobody else waiting.
enum Transport {
    Plain(TcpStream),
    Handshake(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
    Failed,
}

/// What is still to come of the client's first words, and until when.
#[derive(Debug)]
struct Preface {
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

/// The connections of a listener, at most `connections_max` at once; all end when `cut` is
/// cancelled. With `tls` each takes the settings of the moment. One that has not said that it
/// speaks HTTP/2 within `preface_timeout`, handshake included, ends; pings watch over the others.
pub(crate) fn accept(
    listener: TcpListener,
    tls: Option<Settings>,
    connections_max: usize,
    preface_timeout: Duration,
    cut: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    let slots = Arc::new(Semaphore::new(connections_max));
    stream::unfold(
        (listener, tls, slots, cut, Pace::new(clock::now())),
        move |(listener, tls, slots, cut, mut pace)| async move {
            let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
            tokio::time::sleep_until(pace.next(clock::now()).into()).await;
            loop {
                let (stream, peer) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection for now");
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    }
                };
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot turn Nagle's algorithm off");
                }
                let link = Link {
                    cut: cut.child_token(),
                    peer: Some(peer),
                    proof: Arc::default(),
                };
                let transport = match &tls {
                    Some(settings) => {
                        let acceptor = TlsAcceptor::from(settings.borrow().clone());
                        Transport::Handshake(Box::new(acceptor.accept(stream)))
                    }
                    None => {
                        // The cell is new.
                        let _ = link.proof.set(Proof::Unasked);
                        Transport::Plain(stream)
                    }
                };
                let connection = Connection {
                    transport,
                    cut: Box::pin(link.cut.clone().cancelled_owned()),
                    link,
                    preface: Some(Preface {
                        missing: PREFACE_BYTES,
                        deadline: Box::pin(tokio::time::sleep(preface_timeout)),
                    }),
                    frames: Frames::behind(PREFACE_BYTES),
                    _slot: slot,
                };
                return Some((Ok(connection), (listener, tls, slots, cut, pace)));
            }
        },
    )
}

impl Connection {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// Goes on with the handshake; ready once bytes can flow.
    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Transport::Handshake(accept) = &mut self.transport else {
            return Poll::Ready(Ok(()));
        };
        match Pin::new(accept.as_mut()).poll(context) {
            Poll::Ready(Ok(stream)) => {
                let _ = self.link.proof.set(proof(&stream));
                self.transport = Transport::Tls(Box::new(stream));
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                tracing::debug!(peer = ?self.link.peer, %error, "a TLS handshake failed");
                self.transport = Transport::Failed;
                Poll::Ready(Err(error))
            }
            Poll::Pending => self.poll_deadline(context),
        }
    }

    /// Pending until the peer has had its time.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(preface) = &mut self.preface {
            ready!(preface.deadline.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl Transport {
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            Self::Handshake(_) | Self::Failed => Poll::Ready(Err(not_open())),
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, slices),
            Self::Handshake(_) | Self::Failed => Poll::Ready(Err(not_open())),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            Self::Handshake(_) | Self::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Self::Handshake(_) | Self::Failed => Poll::Ready(Ok(())),
        }
    }
}

/// What the client's verified certificate says of it.
fn proof(stream: &TlsStream<TcpStream>) -> Proof {
    let (_, connection) = stream.get_ref();
    match connection
        .peer_certificates()
        .and_then(|chain| chain.first())
    {
        Some(certificate) => Proof::Certificate(identity_in(certificate)),
        None => Proof::Missing,
    }
}

fn not_open() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl Connected for Connection {
    type ConnectInfo = Link;

    fn connect_info(&self) -> Link {
        self.link.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        ready!(self.poll_handshake(context))?;
        let before = buffer.filled().len();
        let read = self.transport.poll_read(context, buffer);
        let new = buffer.filled().get(before..).unwrap_or_default();
        if !self.frames.take(new, clock::now) {
            tracing::warn!(peer = ?self.link.peer, "a flood of frames ends its connection");
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let came = new.len();
        let Some(preface) = &mut self.preface else {
            return read;
        };
        preface.missing = preface.missing.saturating_sub(came);
        if preface.missing == 0 {
            self.preface = None;
        } else if read.is_pending() {
            return self.poll_deadline(context);
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        ready!(self.poll_handshake(context))?;
        self.transport.poll_write(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_shutdown(context)
    }
}
