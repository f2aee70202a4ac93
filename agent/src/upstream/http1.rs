//! One HTTP/1.1 connection that is driven by whoever waits for it.
//!
//! hyper gives a sender and a connection future. Instead of a task of its own, the future is polled
//! by the waiting request and later by its body, so frames that are ready come out one after the
//! other without a task switch, and dropping the request or the body closes the socket at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::connect::{Heard, Transport, connect};
use super::error::{Error, ErrorKind};
use super::target::Target;
use super::tls::Tls;
use crate::protocol::rewrite::BodyChain;

/// Read buffer of one connection at most, in bytes; also the bound on an answer's headers.
const MAX_BUFFER_BYTES: usize = 64 * 1024;
/// Headers of one answer at most.
const MAX_HEADERS: usize = 128;

/// A connection and the means to use it.
#[derive(Debug)]
pub(super) struct Link {
    sender: SendRequest<BodyChain>,
    connection: Connection<TokioIo<Transport>, BodyChain>,
    heard: Heard,
    finished: bool,
}

/// Why an exchange on a link failed.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) error: Error,
    /// True when the peer sent no byte of an answer, so that the request may be sent again.
    pub(super) unanswered: bool,
}

impl Link {
    /// Opens a connection to a target.
    pub(super) async fn open(target: &Target, tls: &Tls) -> Result<Box<Self>, Error> {
        let transport = connect(target, tls).await?;
        let heard = transport.heard();
        let (sender, connection) = Builder::new()
            .max_buf_size(MAX_BUFFER_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(TokioIo::new(transport))
            .await
            .map_err(|error| Error::from_hyper(&error))?;
        Ok(Box::new(Self {
            sender,
            connection,
            heard,
            finished: false,
        }))
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn exchange(
        &mut self,
        request: Request<BodyChain>,
    ) -> Result<Response<Incoming>, Broken> {
        self.heard.clear();
        let mut answer = pin!(self.sender.send_request(request));
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
                    unanswered: !self.heard.any(),
                });
            }
        };
        let unanswered = !self.heard.any() && !error.is_user() && !error.is_parse();
        Err(Broken {
            error: Error::from_hyper(&error),
            unanswered,
        })
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
