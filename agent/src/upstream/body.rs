//! The body of a provider's answer, which carries its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::error::Error;
use super::http1::Link;
use super::idle::IdlePool;
use super::target::TargetKey;

/// The bytes of an answer as they come. Reading to the end gives the connection back; dropping it
/// before closes the connection at once, which is how the provider learns that nobody listens.
#[derive(Debug)]
pub struct Body {
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
    pub(super) fn new(
        incoming: Incoming,
        link: Box<Link>,
        pool: Arc<IdlePool>,
        key: TargetKey,
    ) -> Self {
        let mut body = Self {
            incoming,
            carrier: Some(Carrier { link, pool, key }),
        };
        if body.incoming.is_end_stream() {
            body.give_back();
        }
        body
    }

    fn give_back(&mut self) {
        if let Some(Carrier { link, pool, key }) = self.carrier.take() {
            pool.put(&key, link);
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
        let this = self.get_mut();
        let mut polled = Pin::new(&mut this.incoming).poll_frame(cx);
        if polled.is_pending() {
            // Asking the body first tells the connection that bytes are wanted.
            if let Some(carrier) = &mut this.carrier {
                carrier.link.drive(cx);
                polled = Pin::new(&mut this.incoming).poll_frame(cx);
            }
        }
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(frame))) => {
                if this.incoming.is_end_stream() {
                    this.give_back();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.carrier = None;
                Poll::Ready(Some(Err(Error::from_hyper(&error))))
            }
            Poll::Ready(None) => {
                this.give_back();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
