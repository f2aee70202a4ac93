//! A connection whose bytes are watched, and the service that is told what was seen.
//!
//! On the way out only the library's own refusals are of interest: see [`crate::unreadable`].

use crate::framing::Framing;
use crate::limits::Limits;
use crate::unreadable::{Bare, Unreadable};
use bytes::{Buf as _, Bytes};
use http::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// Longest time a refused peer gets to end what it sends.
const LINGER_MAX: Duration = Duration::from_secs(1);
/// Most bytes of a refused peer that are read and thrown away.
const LINGER_MAX_BYTES: usize = 1024 * 1024;
/// Bytes thrown away at a time.
const LINGER_READ_BYTES: usize = 4096;

/// An extension of a request that stated its body's length twice, in `content-length` and in
/// `transfer-encoding`, and must be answered 400. The connection ends after the answer. Given only
/// with [`crate::Limits::tell_conflicting_length`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictingLength;

/// Which request of a connection is at fault, counted from 1; 0 while none is.
#[derive(Debug, Default)]
struct Fault(AtomicU64);

/// The two halves of a watch over one connection.
pub(crate) fn watch<S>(stream: TcpStream, service: S, limits: &Limits) -> (Watched, Told<S>) {
    let fault = limits.tell_conflicting_length.then(Arc::<Fault>::default);
    let stream = Watched {
        stream,
        watch: fault.clone().map(|fault| (Framing::default(), fault)),
        unreadable: limits.unreadable.clone(),
        refusal: None,
    };
    let service = Told {
        service,
        fault,
        calls: AtomicU64::new(0),
    };
    (stream, service)
}

/// The stream.
#[derive(Debug)]
pub(crate) struct Watched {
    stream: TcpStream,
    watch: Option<(Framing, Arc<Fault>)>,
    unreadable: Option<Unreadable>,
    /// Set once the connection's last request is refused.
    refusal: Option<Box<Refusal>>,
}

/// The last answer of a connection, in place of the library's own.
#[derive(Debug)]
struct Refusal {
    /// What is left to write.
    left: Bytes,
    /// Bytes read and thrown away since.
    discarded: usize,
    /// When the peer's time to read it is over; set when all of it is written.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Watched {
    /// Takes over from the library when `bare` is its own refusal.
    fn refuse(&mut self, bare: Bare<'_>) {
        let Some(unreadable) = &self.unreadable else {
            return;
        };
        let target = self.watch.as_ref().map(|(framing, _)| framing.target());
        self.refusal = Some(Box::new(Refusal {
            left: unreadable.answer(bare, target.unwrap_or_default()),
            discarded: 0,
            patience: None,
        }));
    }

    /// Writes what is left of a refusal.
    fn poll_refusal(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(refusal) = &mut self.refusal
            && !refusal.left.is_empty()
        {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &refusal.left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            refusal.left.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what a refused peer still sends. Closing a socket with unread bytes resets the
    /// connection, and the reset may overtake the answer.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(refusal) = &mut self.refusal else {
            return Poll::Ready(Ok(()));
        };
        let patience = refusal
            .patience
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER_MAX)));
        if patience.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut bytes = [0; LINGER_READ_BYTES];
        while refusal.discarded < LINGER_MAX_BYTES {
            let mut buf = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf));
            if read.is_err() || buf.filled().is_empty() {
                break;
            }
            refusal.discarded += buf.filled().len();
        }
        Poll::Ready(Ok(()))
    }
}

/// The service.
#[derive(Debug)]
pub(crate) struct Told<S> {
    service: S,
    fault: Option<Arc<Fault>>,
    calls: AtomicU64,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for Told<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> S::Future {
        if let Some(fault) = &self.fault {
            let this = self.calls.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            if fault.0.load(Ordering::Relaxed) == this {
                request.extensions_mut().insert(ConflictingLength);
            }
        }
        self.service.call(request)
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        if let Some((framing, fault)) = &mut this.watch {
            let new = buf.filled().get(before..).unwrap_or_default();
            if let Some(request) = framing.read(new) {
                fault.0.store(request, Ordering::Relaxed);
            }
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.unreadable.is_some()
            && let Some(bare) = Bare::of(buf)
        {
            this.refuse(bare);
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut this.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.unreadable.is_some()
            && let Some((before, last, bare)) = Bare::last_of(bufs)
        {
            if before.iter().all(|buf| buf.is_empty()) {
                this.refuse(bare);
                return Poll::Ready(Ok(last.len()));
            }
            // It comes again by itself.
            return Pin::new(&mut this.stream).poll_write_vectored(cx, before);
        }
        Pin::new(&mut this.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_refusal(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_refusal(cx))?;
        ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        this.poll_linger(cx)
    }
}
