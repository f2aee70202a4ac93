//! The agents' connections: counted, without Nagle's delay, and able to be cut from this side, since
//! a peer that stops reading cannot be reached by anything written on the stream.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Pause after an accept error that will not pass at once, such as "too many open files".
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Length of what every HTTP/2 client says first, in bytes.
const PREFACE_BYTES: usize = 24;

/// What a request knows of its connection.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// Closes the connection at once.
    pub(crate) cut: CancellationToken,
    /// The other end.
    pub(crate) peer: Option<SocketAddr>,
}

/// One accepted connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    link: Link,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    preface: Option<Preface>,
    _slot: OwnedSemaphorePermit,
}

/// What is still to come of the client's first words, and until when.
#[derive(Debug)]
struct Preface {
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

/// The connections of a listener, at most `connections_max` at once; all end when `cut` is
/// cancelled. One that has not said that it speaks HTTP/2 within `preface_timeout` ends; pings watch
/// over the others.
pub(crate) fn accept(
    listener: TcpListener,
    connections_max: usize,
    preface_timeout: Duration,
    cut: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    let slots = Arc::new(Semaphore::new(connections_max));
    stream::unfold(
        (listener, slots, cut),
        move |(listener, slots, cut)| async move {
            let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
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
                };
                let connection = Connection {
                    stream,
                    cut: Box::pin(link.cut.clone().cancelled_owned()),
                    link,
                    preface: Some(Preface {
                        missing: PREFACE_BYTES,
                        deadline: Box::pin(tokio::time::sleep(preface_timeout)),
                    }),
                    _slot: slot,
                };
                return Some((Ok(connection), (listener, slots, cut)));
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(preface) = &mut self.preface else {
            return read;
        };
        let came = buffer.filled().len().saturating_sub(before);
        preface.missing = preface.missing.saturating_sub(came);
        if preface.missing == 0 {
            self.preface = None;
        } else if read.is_pending() && preface.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
