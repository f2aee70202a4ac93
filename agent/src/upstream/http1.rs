//! One HTTP/1.1 connection that is driven by whoever waits for it.
//!
//! hyper gives a sender and a connection future. Instead of a task of its own, the future is polled
//! by the waiting request and later by its body, so frames that are ready come out one after the
//! other without a task switch, and dropping the request or the body closes the socket at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::error::{Again, Broken, Error, ErrorKind};
use super::transport::{Mark, Traffic, Transport};
use crate::clock;
use lanekeeper_protocol::rewrite::BodyChain;

/// Read buffer of one connection at most, in bytes; also the bound on an answer's headers. Their
/// number is left to the HTTP library's own bound of 100, up to which it sets no memory aside.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// A connection and the means to use it.
#[derive(Debug)]
pub(super) struct Link {
    sender: SendRequest<BodyChain>,
    connection: Connection<TokioIo<Transport>, BodyChain>,
    traffic: Traffic,
    finished: bool,
}

impl Link {
    /// Speaks HTTP/1.1 on a connected socket.
    pub(super) async fn open(transport: Transport) -> Result<Box<Self>, Error> {
        let traffic = transport.traffic();
        let (sender, connection) = Builder::new()
            .max_buf_size(MAX_BUFFER_BYTES)
            .handshake(TokioIo::new(transport))
            .await
            .map_err(|error| Error::from_hyper(&error))?;
        Ok(Box::new(Self {
            sender,
            connection,
            traffic,
            finished: false,
        }))
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) fn exchange(
        &mut self,
        request: Request<BodyChain>,
    ) -> impl Future<Output = Result<Response<Incoming>, Broken>> {
        let mark = self.traffic.begin();
        let body = request.body().len();
        // On the heap, because an async function would hold the large request twice, and with it
        // every connection to a caller.
        let answer = Box::pin(self.sender.send_request(request));
        self.answered(mark, body, answer)
    }

    async fn answered(
        &mut self,
        mark: Mark,
        body: u64,
        mut answer: Pin<Box<impl Future<Output = hyper::Result<Response<Incoming>>>>>,
    ) -> Result<Response<Incoming>, Broken> {
        let connection = &mut self.connection;
        let finished = &mut self.finished;
        let answered = poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(Some(answer));
            }
            if !*finished && Pin::new(&mut *connection).poll(cx).is_ready() {
                *finished = true;
            }
            match answer.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending if *finished => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        let error = match answered {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(error)) => error,
            None => {
                let error = Error::new(ErrorKind::Closed, "no answer");
                return Err(Broken {
                    error,
                    again: Again::when(self.was_stale(mark, body)),
                });
            }
        };
        Err(Broken {
            again: Again::when(self.was_stale(mark, body) && !error.is_user() && !error.is_parse()),
            error: Error::from_hyper(&error),
        })
    }

    /// True when the connection broke without a byte of an answer and the peer cannot have begun to
    /// work on the request: it does not have all of it, or the break came too soon after.
    fn was_stale(&self, mark: Mark, body: u64) -> bool {
        let sent_ago = self.traffic.sent_ago(clock::now());
        !self.traffic.heard_since(mark)
            && (self.traffic.sent_less_than(body)
                || sent_ago.is_none_or(|ago| ago <= self.traffic.stale_within()))
    }

    /// Moves bytes between socket and body; true when the connection has ended.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.finished && Pin::new(&mut self.connection).poll(cx).is_ready() {
            self.finished = true;
        }
        self.finished
    }

    /// True when the connection can take another request, as far as can be seen without waiting.
    pub(super) fn is_reusable(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        !self.drive(&mut cx) && self.sender.is_ready()
    }
}
