//! A stream that is opened to its caller before any lane has content for it.
//!
//! Balancers and clients give a silent connection up, and a model that thinks is silent for
//! minutes. Where the pool says so, the caller gets its headers and comments meanwhile, and the
//! failover loop goes on behind them: a comment commits to no lane. What can no longer be said by a
//! status is then said by an error event in the caller's dialect.

use crate::request::reply::{self, Body, RequestId};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, response};
use http_body::{Body as _, Frame};
use lanekeeper_protocol::Dialect;
use lanekeeper_protocol::error_body::{self, ErrorKind};
use lanekeeper_protocol::headers;
use lanekeeper_serve::BodyEnd;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// A comment of an event stream, which every client passes over.
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

type Serving = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// What errors are told in.
pub(crate) struct Caller {
    pub(crate) dialect: Dialect,
    pub(crate) request_id: RequestId,
}

/// Waits `after` for the answer; what takes longer is opened at once and kept open.
pub(crate) async fn answer(
    serving: impl Future<Output = Response<Body>> + Send + 'static,
    after: Duration,
    caller: Caller,
) -> Response<Body> {
    let mut serving: Serving = Box::pin(serving);
    match tokio::time::timeout(after, &mut serving).await {
        Ok(answer) => answer,
        Err(_) => open(serving, after, caller),
    }
}

fn open(serving: Serving, every: Duration, caller: Caller) -> Response<Body> {
    let mut head = Response::new(()).into_parts().0;
    let events = HeaderValue::from_static("text/event-stream");
    head.headers.insert(CONTENT_TYPE, events);
    let id = caller.request_id.clone();
    let held = HeldOpen {
        state: State::Waiting {
            serving,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
        },
        every,
        caller,
    };
    reply::relay(head, Body::HeldOpen(Box::new(held)), &id)
}

/// The body of a stream that was opened early.
pub(crate) struct HeldOpen {
    state: State,
    /// Time between two comments.
    every: Duration,
    caller: Caller,
}

enum State {
    /// No lane has content yet.
    Waiting {
        serving: Serving,
        timer: Pin<Box<Sleep>>,
    },
    /// The answer runs.
    Running(Box<Body>),
    /// The error event is queued; the connection ends once it has been written.
    Failed { flushed: bool },
}

impl HeldOpen {
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyEnd>>> {
        loop {
            let answer = match &mut self.state {
                State::Running(body) => return Pin::new(body.as_mut()).poll_frame(cx),
                State::Failed { flushed: true } => {
                    return Poll::Ready(Some(Err(BodyEnd::WithConnection)));
                }
                State::Failed { flushed } => {
                    // The server writes what it has when a body has nothing more to give.
                    *flushed = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Waiting { serving, timer } => match serving.as_mut().poll(cx) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => {
                        ready!(timer.as_mut().poll(cx));
                        timer.set(tokio::time::sleep(self.every));
                        return Poll::Ready(Some(Ok(Frame::data(COMMENT))));
                    }
                },
            };
            let (head, body) = answer.into_parts();
            if head.status.is_success() && headers::is_event_stream(&head.headers) {
                self.state = State::Running(Box::new(body));
                continue;
            }
            let kind = failure(&head, body);
            let id = self.caller.request_id.as_str();
            let event = error_body::stream_event(self.caller.dialect, &kind, id);
            self.state = State::Failed { flushed: false };
            return Poll::Ready(Some(Ok(Frame::data(event))));
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Running(body) => body.is_end_stream(),
            State::Waiting { .. } | State::Failed { .. } => false,
        }
    }
}

/// What an answer that is no stream stands for.
fn failure(head: &response::Parts, body: Body) -> ErrorKind {
    if let Some(kind) = head.extensions.get::<ErrorKind>() {
        return kind.clone();
    }
    let told = match body {
        Body::Whole(Some(bytes)) => message(&bytes),
        _ => None,
    };
    match told {
        Some(message) if head.status.is_client_error() => ErrorKind::BadRequest {
            message,
            field: None,
        },
        _ => ErrorKind::BadGateway,
    }
}

/// The text of a lane's own error, in whichever dialect.
fn message(document: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(document).ok()?;
    let error = document.get("error").unwrap_or(&document);
    let text = error.get("message").or_else(|| error.get("detail"))?;
    text.as_str().map(str::to_owned)
}
