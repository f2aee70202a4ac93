//! The service of one connection: marks requests that state their length twice, knows whether an
//! answer is under way, and ends connections that the listener retires.

use crate::body_end::{BodyEnd, BoxError};
use crate::ending::{Ending, Stage};
use crate::exchange::{ConflictingLength, Exchange};
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

/// The service.
#[derive(Debug)]
pub(crate) struct Marked<S> {
    service: S,
    exchange: Arc<Exchange>,
    ending: Arc<Ending>,
    marks: bool,
    calls: AtomicU64,
}

impl<S> Marked<S> {
    pub(crate) fn new(
        service: S,
        exchange: Arc<Exchange>,
        ending: Arc<Ending>,
        marks: bool,
    ) -> Self {
        Self {
            service,
            exchange,
            ending,
            marks,
            calls: AtomicU64::new(0),
        }
    }
}

impl<S, B> Service<Request<Incoming>> for Marked<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if self.marks {
            let this = self.calls.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            if self.exchange.is_fault(this) {
                request.extensions_mut().insert(ConflictingLength);
            }
        }
        Answering {
            busy: Some(Busy::new(&self.exchange)),
            exchange: Arc::clone(&self.exchange),
            ending: Arc::clone(&self.ending),
            future: self.service.call(request),
        }
    }
}

/// An answer is under way for as long as this lives.
#[derive(Debug)]
struct Busy(Arc<Exchange>);

impl Busy {
    fn new(exchange: &Arc<Exchange>) -> Self {
        exchange.set_busy(true);
        Self(Arc::clone(exchange))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_busy(false);
    }
}

pin_project! {
    /// An answer that is being made.
    pub(crate) struct Answering<F> {
        busy: Option<Busy>,
        exchange: Arc<Exchange>,
        ending: Arc<Ending>,
        #[pin]
        future: F,
    }
}

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Answer<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.future.poll(cx))?;
        if this.ending.stage() >= Stage::Retiring {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        let busy = this.busy.take();
        let exchange = Arc::clone(this.exchange);
        Poll::Ready(Ok(response.map(|body| Answer {
            busy,
            exchange,
            body,
        })))
    }
}

pin_project! {
    /// An answer's body.
    pub(crate) struct Answer<B> {
        busy: Option<Busy>,
        exchange: Arc<Exchange>,
        #[pin]
        body: B,
    }
}

impl<B: Body> Body for Answer<B>
where
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        let error: BoxError = match ready!(this.body.poll_frame(cx)) {
            Some(Err(error)) => error.into(),
            frame => return Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
        };
        match error.downcast_ref() {
            Some(BodyEnd::WithConnection) => {
                this.exchange.end();
                // The library looks at the socket again only when its task is woken.
                cx.waker().wake_by_ref();
                Poll::Ready(None)
            }
            Some(BodyEnd::BrokenOff) | None => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
