//! Sends one request to one target, over an idle connection if there is one.

use std::sync::Arc;
use std::time::Instant;

use http::{Request, Response};
use lanekeeper_model::gateway::HttpVersion;

use super::body::Body;
use super::connect::connect;
use super::error::{Again, Error, ErrorKind};
use super::http1::Link;
use super::idle::IdlePool;
use super::multiplex::{Multiplex, Seen, Way};
use super::target::Target;
use super::tls::{Offer, Tls};
use lanekeeper_protocol::rewrite::BodyChain;

/// The upstream client of one worker. Clones share its connections; connections must not move
/// between runtimes, so every runtime has a client of its own.
#[derive(Clone, Debug)]
pub struct Client {
    idle: Arc<IdlePool>,
    multiplex: Arc<Multiplex>,
    tls: Tls,
}

impl Client {
    /// A client without any connection yet.
    #[must_use]
    pub fn new(tls: Tls) -> Self {
        let idle = Arc::<IdlePool>::default();
        let multiplex = Multiplex::new(Arc::clone(&idle), tls.clone());
        Self {
            idle,
            multiplex: Arc::new(multiplex),
            tls,
        }
    }

    /// Sends what `make` makes and waits for the head of the answer until `deadline`. The URI is
    /// path and query only; `make` must set `Host`.
    ///
    /// A kept connection may have been closed by the peer in this very moment, or the peer may say
    /// that it did not work on the request: a refused stream, a connection going away. When the one
    /// breaks at once and before any byte of an answer, or the other happens, `make` is called once
    /// more and the request goes out on a new connection; nobody is told, because it says nothing
    /// about the provider. A request is never sent a third time. Redirects are answers like any
    /// other.
    ///
    /// # Errors
    ///
    /// No connection, no answer, or neither in time. Dropping the future closes the connection or,
    /// where others share it, its stream.
    pub async fn send(
        &self,
        target: &Target,
        make: impl FnMut() -> Request<BodyChain>,
        deadline: Instant,
    ) -> Result<Response<Body>, Error> {
        tokio::time::timeout_at(deadline.into(), self.exchange(target, make))
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "no answer in time")))
    }

    async fn exchange(
        &self,
        target: &Target,
        mut make: impl FnMut() -> Request<BodyChain>,
    ) -> Result<Response<Body>, Error> {
        let mut may_repeat = true;
        if let Some(mut link) = self.idle.take(target.key()) {
            match link.exchange(make()).await {
                Ok(answer) => return Ok(self.carried(answer, link, target)),
                Err(broken) if broken.again == Again::Yes => may_repeat = false,
                Err(broken) => return Err(broken.error),
            }
        }
        if target.may_multiplex() {
            // On the heap, because the state of a rare path would swell every request.
            let shared = Box::pin(self.over_http2(target, &mut make, &mut may_repeat));
            if let Some(answer) = shared.await? {
                return Ok(answer);
            }
        }
        let mut link = match self.idle.take(target.key()) {
            // The one that showed what the peer speaks.
            Some(link) if may_repeat && target.may_multiplex() => link,
            _ => Box::pin(self.open(target)).await?,
        };
        match link.exchange(make()).await {
            Ok(answer) => Ok(self.carried(answer, link, target)),
            Err(broken) => Err(broken.error),
        }
    }

    async fn open(&self, target: &Target) -> Result<Box<Link>, Error> {
        let transport = connect(target, &self.tls, Offer::Http1).await?;
        Link::open(transport).await
    }

    /// The answer, unless the peer speaks HTTP/1.1.
    async fn over_http2(
        &self,
        target: &Target,
        make: &mut impl FnMut() -> Request<BodyChain>,
        may_repeat: &mut bool,
    ) -> Result<Option<Response<Body>>, Error> {
        let mut seen = Seen::default();
        loop {
            let (lease, place) = match self.multiplex.way(target, seen).await? {
                Way::Stream(lease, place) => (lease, place),
                Way::Http1 => return Ok(None),
            };
            let broken = match lease.exchange(make()).await {
                Ok(answer) => return Ok(Some(answer.map(Body::http2))),
                Err(broken) => broken,
            };
            match broken.again {
                Again::No => return Err(broken.error),
                Again::Yes => self.multiplex.retire(target, place),
                // Where the version is not the peer's to choose, its wish is a refusal.
                Again::OverHttp1 if target.version() == HttpVersion::Http2 => {
                    return Err(broken.error);
                }
                Again::OverHttp1 => self.multiplex.demote(target),
            }
            if !std::mem::replace(may_repeat, false) {
                return Err(broken.error);
            }
            seen = place;
        }
    }

    fn carried(
        &self,
        answer: Response<hyper::body::Incoming>,
        link: Box<Link>,
        target: &Target,
    ) -> Response<Body> {
        let pool = Arc::clone(&self.idle);
        answer.map(|incoming| Body::http1(incoming, link, pool, target.key().clone()))
    }

    /// A client whose shared connections are looked after more often.
    #[cfg(test)]
    pub(super) fn with_beat(tls: Tls, beat: std::time::Duration) -> Self {
        let idle = Arc::<IdlePool>::default();
        let multiplex = Multiplex::with_beat(Arc::clone(&idle), tls.clone(), beat);
        Self {
            idle,
            multiplex: Arc::new(multiplex),
            tls,
        }
    }

    #[cfg(test)]
    pub(super) fn shared_connections(&self) -> usize {
        self.multiplex.connections()
    }

    #[cfg(test)]
    pub(super) fn sweep_idle(&self) {
        self.idle.sweep();
    }

    #[cfg(test)]
    pub(super) fn idle_connections(&self) -> usize {
        self.idle.len()
    }
}
