//! A connected socket that notes what passes over it.
//!
//! Whether a request may be sent a second time hangs on what its connection has seen: how long ago
//! its last byte went out, and whether the peer has said anything since.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::tls::HTTP2;
use crate::clock;

/// Longest time after a request in which a break still says that the request came too late.
const STALE_WITHIN_MAX: Duration = Duration::from_millis(250);
/// What either side's scheduler may add to the round trips: on a busy machine a thread waits tens
/// of milliseconds for its turn, and a stale connection must not look like a failed lane because of
/// it.
const SCHEDULING: Duration = Duration::from_millis(100);

/// A connected stream that notes what passes.
#[derive(Debug)]
pub(super) struct Transport {
    stream: Stream,
    traffic: Traffic,
}

/// What has passed, shared with the requests in flight.
#[derive(Clone, Debug)]
pub(super) struct Traffic(Arc<Noted>);

#[derive(Debug)]
struct Noted {
    /// Reads that brought bytes.
    reads: AtomicU64,
    /// Bytes that went out since a request began.
    bytes_sent: AtomicU64,
    /// Nanoseconds from `opened` to the last byte that went out; 0 while none did.
    sent: AtomicU64,
    opened: Instant,
    stale_within: Duration,
}

/// How much had been heard when a request began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(u64);

impl Traffic {
    fn new(round_trip: Duration) -> Self {
        Self(Arc::new(Noted {
            reads: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            opened: clock::now(),
            stale_within: stale_within(round_trip),
        }))
    }

    /// Forgets what was sent before this request.
    pub(super) fn begin(&self) -> Mark {
        self.0.sent.store(0, Ordering::Relaxed);
        self.0.bytes_sent.store(0, Ordering::Relaxed);
        self.mark()
    }

    /// True when fewer bytes went out since the request began than its body has.
    pub(super) fn sent_less_than(&self, body: u64) -> bool {
        self.0.bytes_sent.load(Ordering::Relaxed) < body
    }

    /// What has been heard up to now.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.0.reads.load(Ordering::Relaxed))
    }

    /// True when a byte came in after `mark`.
    pub(super) fn heard_since(&self, mark: Mark) -> bool {
        self.0.reads.load(Ordering::Relaxed) != mark.0
    }

    /// How long ago the last byte of the request went out; `None` when none did.
    pub(super) fn sent_ago(&self, now: Instant) -> Option<Duration> {
        let sent = Duration::from_nanos(self.0.sent.load(Ordering::Relaxed));
        let elapsed = now.saturating_duration_since(self.0.opened);
        (!sent.is_zero()).then(|| elapsed.saturating_sub(sent))
    }

    /// A kept connection that breaks within this time of a request, without a byte of an answer,
    /// was closed by the peer before the request came.
    pub(super) fn stale_within(&self) -> Duration {
        self.0.stale_within
    }

    fn note_read(&self) {
        // One task reads, so nothing can come between.
        let reads = self.0.reads.load(Ordering::Relaxed);
        self.0.reads.store(reads.wrapping_add(1), Ordering::Relaxed);
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes @ 1..)) = written {
            // One task writes, as one reads.
            let before = self.0.bytes_sent.load(Ordering::Relaxed);
            let after = before.saturating_add(*bytes as u64);
            self.0.bytes_sent.store(after, Ordering::Relaxed);
            let elapsed = clock::now().saturating_duration_since(self.0.opened);
            let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
            self.0.sent.store(nanos.max(1), Ordering::Relaxed);
        }
    }
}

/// The peer's refusal takes one round trip. A break that comes later is the answer of a peer that
/// had begun to work, and sending again would make it work twice.
fn stale_within(round_trip: Duration) -> Duration {
    round_trip
        .saturating_mul(2)
        .saturating_add(SCHEDULING)
        .min(STALE_WITHIN_MAX)
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    pub(super) fn plain(stream: TcpStream, round_trip: Duration) -> Self {
        Self {
            stream: Stream::Plain(stream),
            traffic: Traffic::new(round_trip),
        }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>, round_trip: Duration) -> Self {
        Self {
            stream: Stream::Tls(Box::new(stream)),
            traffic: Traffic::new(round_trip),
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// True when the peer chose HTTP/2.
    pub(super) fn speaks_http2(&self) -> bool {
        match &self.stream {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(HTTP2),
        }
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        if buf.filled().len() > before {
            this.traffic.note_read();
        }
        polled
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        this.traffic.note_write(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        this.traffic.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
