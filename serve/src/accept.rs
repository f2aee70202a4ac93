//! Accepts connections and serves them over HTTP/1.1 until told to stop.

use crate::Limits;
use crate::body_end::BoxError;
use crate::ending::{Ending, Stage};
use crate::exchange::Exchange;
use crate::limits::MAX_HEADERS;
use crate::limits::Waits;
use crate::marked::Marked;
use crate::watched::Watched;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use std::future::{Future as _, pending};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Pause after an accept error that will not pass at once, such as "too many open files".
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Why a listener ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket can no longer be accepted on.
    #[error("the listener failed")]
    Accept(#[source] io::Error),
}

/// Serves HTTP/1.1 connections of `listener` with a clone of `service` each.
///
/// When `shutdown` is cancelled no further connection is accepted, idle ones close, and running
/// requests have `grace` to end before their connections are dropped. Returns when all are gone.
///
/// # Errors
///
/// [`Error::Accept`] when the socket itself is broken. Errors of one connection end only it.
pub async fn serve<S, B>(
    listener: TcpListener,
    limits: Limits,
    service: S,
    shutdown: CancellationToken,
    grace: Duration,
) -> Result<(), Error>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let waits = limits.waits();
    let end = End {
        retiring: CancellationToken::new(),
        shutdown,
        nudge: CancellationToken::new(),
        grace,
    };
    serve_adjusted(listener, limits, move || waits, service, end).await
}

/// How a listener ends.
#[derive(Debug)]
pub struct End {
    /// When it is cancelled every further answer ends its connection (`connection: close`), so that
    /// callers which keep connections go elsewhere while requests are still taken.
    pub retiring: CancellationToken,
    /// When it is cancelled no further connection is accepted, and idle ones close.
    pub shutdown: CancellationToken,
    /// When it is cancelled after that, the services and bodies that still run are polled once more:
    /// they have to end for a reason that wakes nobody.
    pub nudge: CancellationToken,
    /// What running requests have to end, from the shutdown on.
    pub grace: Duration,
}

/// Like [`serve`], with waits that may change while the listener runs.
///
/// `waits` is asked once for each accepted connection, in place of those in `limits`; a connection
/// keeps the ones it began with.
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_adjusted<S, B>(
    listener: TcpListener,
    limits: Limits,
    waits: impl Fn() -> Waits + Send,
    service: S,
    end: End,
) -> Result<(), Error>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut http = http1::Builder::new();
    // The stream keeps the waits for requests itself: the library has one timer for two of them.
    http.timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes())
        // The buffer alone may grow beyond its bound by what one read brings.
        .max_header_size(limits.head_bytes())
        .half_close(false);
    // Naming the bound, even the same one, makes the library set memory aside for every request.
    if limits.max_headers != MAX_HEADERS {
        http.max_headers(limits.max_headers);
    }
    let open = Arc::new(Semaphore::new(limits.max_connections));
    let connections = TaskTracker::new();
    let ending = Arc::<Ending>::default();
    let End {
        retiring,
        shutdown,
        nudge,
        grace,
    } = end;

    let mut retired = false;
    let ended = loop {
        let slot = tokio::select! {
            biased;
            () = shutdown.cancelled() => break Ok(()),
            () = retiring.cancelled(), if !retired => {
                retired = true;
                ending.advance(Stage::Retiring);
                continue;
            }
            slot = Arc::clone(&open).acquire_owned() => match slot {
                Ok(slot) => slot,
                Err(_) => break Ok(()),
            },
        };
        let stream = tokio::select! {
            biased;
            () = shutdown.cancelled() => break Ok(()),
            () = retiring.cancelled(), if !retired => {
                retired = true;
                ending.advance(Stage::Retiring);
                continue;
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) if passes(&error) => continue,
                Err(error) if exhausted(&error) => {
                    tracing::warn!(%error, "cannot accept a connection for now");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
                Err(error) => break Err(Error::Accept(error)),
            },
        };
        // Nobody reads or writes while a peer's window is shut, so only the kernel can tell the time.
        let stalled = Some(limits.peer_stall_timeout);
        if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(stalled) {
            tracing::debug!(%error, "cannot bound the time a peer takes nothing");
        }
        // On the heap, because the task would hold it twice: as what it is given and as what it runs.
        let mut connection = Box::pin(connect(
            &http,
            stream,
            service.clone(),
            &limits,
            waits(),
            &ending,
        ));
        let ending = Arc::clone(&ending);
        connections.spawn(async move {
            let _slot = slot;
            let ended = ending.outlive(|cx, stage| {
                if stage.is_some_and(|stage| stage >= Stage::Draining) {
                    connection.as_mut().graceful_shutdown();
                }
                Pin::new(&mut connection).poll(cx)
            });
            if let Some(Err(error)) = ended.await {
                tracing::debug!(%error, "connection ended with an error");
            }
        });
    };

    drop(listener);
    connections.close();
    ending.advance(Stage::Draining);
    let nudging = async {
        nudge.cancelled().await;
        ending.advance(Stage::Nudged);
        pending().await
    };
    let in_time = tokio::time::timeout(grace, async {
        tokio::select! {
            () = connections.wait() => {}
            () = nudging => {}
        }
    });
    if in_time.await.is_err() {
        ending.advance(Stage::Cut);
        connections.wait().await;
    }
    ended
}

fn connect<S, B>(
    http: &http1::Builder,
    stream: TcpStream,
    service: S,
    limits: &Limits,
    waits: Waits,
    ending: &Arc<Ending>,
) -> http1::Connection<TokioIo<Watched>, Marked<S>>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    // Small answers would otherwise wait for the peer's delayed acknowledgement (40 ms).
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot turn Nagle's algorithm off");
    }
    let exchange = Arc::<Exchange>::default();
    let watched = Watched::new(
        stream,
        Arc::clone(&exchange),
        limits.unreadable.clone(),
        waits,
    );
    let marks = limits.tell_conflicting_length;
    let service = Marked::new(service, exchange, Arc::clone(ending), marks);
    http.serve_connection(TokioIo::new(watched), service)
}

/// The peer went away between its handshake and our accept: nothing to do with the listener.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// The process or the system is out of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM).
fn exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 23 | 24 | 105))
}
