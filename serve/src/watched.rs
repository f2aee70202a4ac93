//! A connection whose bytes are watched, and the service that is told what was seen.

use crate::framing::Framing;
use http::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// An extension of a request that stated its body's length twice, in `content-length` and in
/// `transfer-encoding`, and must be answered 400. The connection ends after the answer. Given only
/// with [`crate::Limits::tell_conflicting_length`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConflictingLength;

/// Which request of a connection is at fault, counted from 1; 0 while none is.
#[derive(Debug, Default)]
struct Fault(AtomicU64);

/// The two halves of a watch over one connection.
pub(crate) fn watch<S>(stream: TcpStream, service: S, watched: bool) -> (Watched, Told<S>) {
    let fault = watched.then(Arc::<Fault>::default);
    let stream = Watched {
        stream,
        watch: fault.clone().map(|fault| (Framing::default(), fault)),
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
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
