//! Opens a connection: name, address guard, TCP, TLS, all within one bound.
//!
//! The guard looks at resolved addresses, not at names: a public name may be pointed at a private
//! address at any time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::{Error, ErrorKind};
use super::target::Target;
use super::tls::Tls;
use crate::clock;

/// Addresses of one name that are tried at most.
const MAX_ADDRESSES: usize = 8;

/// Connects within the target's connect time-out.
pub(super) async fn connect(target: &Target, tls: &Tls) -> Result<Transport, Error> {
    tokio::time::timeout(target.connect_timeout(), open(target, tls))
        .await
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "connecting took too long")))
}

async fn open(target: &Target, tls: &Tls) -> Result<Transport, Error> {
    let tcp = dial(target).await?;
    tcp.set_nodelay(true)
        .map_err(|error| Error::new(ErrorKind::Connect, error))?;
    let Some(name) = target.tls_name() else {
        return Ok(Transport::plain(tcp));
    };
    let stream = TlsConnector::from(tls.config())
        .connect(name.clone(), tcp)
        .await
        .map_err(|error| Error::new(ErrorKind::Tls, error))?;
    Ok(Transport::tls(stream))
}

async fn dial(target: &Target) -> Result<TcpStream, Error> {
    let addresses = resolve(target).await?;
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = Error::new(ErrorKind::Connect, "no address to try");
    for address in addresses {
        // A share of the time for each, so that one silent address cannot hide a good one.
        let share: Duration = target.connect_timeout() / left;
        left = left.saturating_sub(1).max(1);
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                last = Error::new(ErrorKind::Refused, error);
            }
            Ok(Err(error)) => last = Error::new(ErrorKind::Connect, error),
            Err(_) => last = Error::new(ErrorKind::Timeout, "connecting took too long"),
        }
    }
    Err(last)
}

/// The addresses that may be connected to, in the resolver's order.
async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, Error> {
    let port = target.port();
    let found: Vec<SocketAddr> = match target.host().parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => tokio::net::lookup_host((target.host(), port))
            .await
            .map_err(|error| Error::new(ErrorKind::Dns, error))?
            .take(MAX_ADDRESSES)
            .collect(),
    };
    let mut refused = None;
    let allowed: Vec<SocketAddr> = found
        .into_iter()
        .filter(|address| match target.guard().permit(address.ip()) {
            Ok(()) => true,
            Err(class) => {
                refused = Some(class);
                false
            }
        })
        .collect();
    match (allowed.is_empty(), refused) {
        (false, _) => Ok(allowed),
        (true, Some(class)) => Err(Error::new(
            ErrorKind::Blocked,
            format_args!(
                "the host is at a {} address that is not listed",
                class.as_str()
            ),
        )),
        (true, None) => Err(Error::new(ErrorKind::Dns, "the name has no address")),
    }
}

/// A connected stream that notes what passes.
#[derive(Debug)]
pub(super) struct Transport {
    stream: Stream,
    traffic: Traffic,
}

/// What has passed since the request in flight began, shared with it.
#[derive(Clone, Debug)]
pub(super) struct Traffic(Arc<Noted>);

#[derive(Debug)]
struct Noted {
    /// A byte came in.
    heard: AtomicBool,
    /// Nanoseconds from `opened` to the last byte that went out; 0 while none did.
    sent: AtomicU64,
    opened: Instant,
}

impl Traffic {
    fn new() -> Self {
        Self(Arc::new(Noted {
            heard: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            opened: clock::now(),
        }))
    }

    /// Forgets what passed before this request.
    pub(super) fn clear(&self) {
        self.0.heard.store(false, Ordering::Relaxed);
        self.0.sent.store(0, Ordering::Relaxed);
    }

    /// True when a byte of an answer came in.
    pub(super) fn heard(&self) -> bool {
        self.0.heard.load(Ordering::Relaxed)
    }

    /// How long ago the last byte of the request went out; `None` when none did.
    pub(super) fn sent_ago(&self, now: Instant) -> Option<Duration> {
        let sent = Duration::from_nanos(self.0.sent.load(Ordering::Relaxed));
        let elapsed = now.saturating_duration_since(self.0.opened);
        (!sent.is_zero()).then(|| elapsed.saturating_sub(sent))
    }

    fn note_read(&self) {
        self.0.heard.store(true, Ordering::Relaxed);
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(1..))) {
            let elapsed = clock::now().saturating_duration_since(self.0.opened);
            let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
            self.0.sent.store(nanos.max(1), Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    fn plain(stream: TcpStream) -> Self {
        Self {
            stream: Stream::Plain(stream),
            traffic: Traffic::new(),
        }
    }

    fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self {
            stream: Stream::Tls(Box::new(stream)),
            traffic: Traffic::new(),
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
