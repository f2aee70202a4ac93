//! The body of a provider's answer, which carries its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::error::Error;
use super::http1::Link;
use super::http2::Stream;
use super::idle::IdlePool;
use super::target::TargetKey;

/// The bytes of an answer as they come. Reading to the end makes room for another request on the
/// connection. Dropping it before closes the connection or, where others share it, its stream at
/// once, which is how the provider learns that nobody listens.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Http1(Whole),
    Http2(Box<Stream>),
}

/// A body that has its connection to itself.
#[derive(Debug)]
struct Whole {
    incoming: Incoming,
    carrier: Option<Carrier>,
}

#[derive(Debug)]
struct Carrier {
    link: Box<Link>,
    pool: Arc<IdlePool>,
    key: TargetKey,
}

impl Body {
    pub(super) fn http1(
        incoming: Incoming,
        link: Box<Link>,
        pool: Arc<IdlePool>,
        key: TargetKey,
    ) -> Self {
        let mut body = Whole {
            incoming,
            carrier: Some(Carrier { link, pool, key }),
        };
        if body.incoming.is_end_stream() {
            body.give_back();
        }
        Self(Kind::Http1(body))
    }

    pub(super) fn http2(stream: Stream) -> Self {
        Self(Kind::Http2(Box::new(stream)))
    }
}

impl Whole {
    fn give_back(&mut self) {
        if let Some(Carrier { link, pool, key }) = self.carrier.take() {
            pool.put(&key, link);
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut polled = Pin::new(&mut self.incoming).poll_frame(cx);
        if polled.is_pending() {
            // Asking the body first tells the connection that bytes are wanted.
            if let Some(carrier) = &mut self.carrier {
                carrier.link.drive(cx);
                polled = Pin::new(&mut self.incoming).poll_frame(cx);
            }
        }
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => {
                if self.incoming.is_end_stream() {
                    self.give_back();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.carrier = None;
                Poll::Ready(Some(Err(Error::from_hyper(&error))))
            }
            Poll::Ready(None) => {
                self.give_back();
                Poll::Ready(None)
            }
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut self.get_mut().0 {
            Kind::Http1(whole) => whole.poll_frame(cx),
            Kind::Http2(stream) => stream
                .poll_data(cx)
                .map(|polled| polled.map(|data| data.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Http1(whole) => whole.incoming.is_end_stream(),
            Kind::Http2(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Http1(whole) => whole.incoming.size_hint(),
            Kind::Http2(_) => SizeHint::default(),
        }
    }
}
