//! A connection whose bytes are watched: where a request begins and ends, what is at fault with it,
//! and how long its peer keeps the connection waiting.
//!
//! On the way out only the library's own refusals are of interest: see [`crate::unreadable`].

use crate::exchange::Exchange;
use crate::framing::{Framing, Place};
use crate::limits::Waits;
use crate::patience::{Patience, Wait};
use crate::unreadable::{Bare, Unreadable};
use bytes::{Buf as _, Bytes};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
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

/// The stream.
#[derive(Debug)]
pub(crate) struct Watched {
    stream: TcpStream,
    framing: Framing,
    exchange: Arc<Exchange>,
    patience: Patience,
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
    pub(crate) fn new(
        stream: TcpStream,
        exchange: Arc<Exchange>,
        unreadable: Option<Unreadable>,
        waits: Waits,
    ) -> Self {
        Self {
            stream,
            framing: Framing::default(),
            exchange,
            patience: Patience::new(waits),
            unreadable,
            refusal: None,
        }
    }

    /// What the peer is waited for. While an answer is under way, the next request is not.
    fn wait(&self) -> Wait {
        match self.framing.place() {
            _ if self.exchange.is_busy() => Wait::Other,
            Place::Between => Wait::Idle,
            Place::Head => Wait::Head,
            Place::Body => Wait::Other,
        }
    }

    /// Takes over from the library when `bare` is its own refusal.
    fn refuse(&mut self, bare: Bare<'_>) {
        let Some(unreadable) = &self.unreadable else {
            return;
        };
        self.refusal = Some(Box::new(Refusal {
            left: unreadable.answer(bare, self.framing.target()),
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

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.exchange.is_over() {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(cx, buf) else {
            let wait = this.wait();
            ready!(this.patience.poll_over(cx, wait));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        };
        let heads = this.framing.heads();
        let new = buf.filled().get(before..).unwrap_or_default();
        if let Some(request) = this.framing.read(new) {
            this.exchange.set_fault(request);
        }
        this.patience.heard(this.framing.heads() != heads);
        Poll::Ready(read)
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
