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
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Pause after an accept error that will not pass at once, such as "too many open files".
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

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
    _slot: OwnedSemaphorePermit,
}

/// The connections of a listener, at most `connections_max` at once; all end when `cut` is
/// cancelled.
pub(crate) fn accept(
    listener: TcpListener,
    connections_max: usize,
    cut: CancellationToken,
) -> impl Stream<Item = io::Result<Connection>> {
    let slots = Arc::new(Semaphore::new(connections_max));
    stream::unfold((listener, slots, cut), async |(listener, slots, cut)| {
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
                _slot: slot,
            };
            return Some((Ok(connection), (listener, slots, cut)));
        }
    })
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
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
