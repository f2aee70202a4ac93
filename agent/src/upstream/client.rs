//! Sends one request to one target, over an idle connection if there is one.

use std::sync::Arc;
use std::time::Instant;

use http::{Request, Response};

use super::body::Body;
use super::error::{Error, ErrorKind};
use super::http1::Link;
use super::idle::IdlePool;
use super::target::Target;
use super::tls::Tls;
use crate::protocol::rewrite::BodyChain;

/// The upstream client of one worker. Clones share its idle connections; connections must not move
/// between runtimes, so every runtime has a client of its own.
#[derive(Clone, Debug)]
pub struct Client {
    idle: Arc<IdlePool>,
    tls: Tls,
}

impl Client {
    /// A client without any connection yet.
    #[must_use]
    pub fn new(tls: Tls) -> Self {
        Self {
            idle: Arc::default(),
            tls,
        }
    }

    /// Sends what `make` makes and waits for the head of the answer until `deadline`. The URI is
    /// path and query only; `make` must set `Host`.
    ///
    /// A kept connection may have been closed by the peer in this very moment. When it breaks at
    /// once and before any byte of an answer, `make` is called once more and the request goes out
    /// on a new connection; nobody is told, because it says nothing about the provider. Redirects are
    /// answers like any other.
    ///
    /// # Errors
    ///
    /// No connection, no answer, or neither in time. Dropping the future closes the connection.
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
        if let Some(mut link) = self.idle.take(target.key()) {
            match link.exchange(make()).await {
                Ok(answer) => return Ok(self.carried(answer, link, target)),
                Err(broken) if broken.was_stale => {}
                Err(broken) => return Err(broken.error),
            }
        }
        let mut link = Link::open(target, &self.tls).await?;
        match link.exchange(make()).await {
            Ok(answer) => Ok(self.carried(answer, link, target)),
            Err(broken) => Err(broken.error),
        }
    }

    fn carried(
        &self,
        answer: Response<hyper::body::Incoming>,
        link: Box<Link>,
        target: &Target,
    ) -> Response<Body> {
        let pool = Arc::clone(&self.idle);
        answer.map(|incoming| Body::new(incoming, link, pool, target.key().clone()))
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
