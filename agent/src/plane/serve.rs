//! One worker thread of the data plane: its listener, the background work that any of them may do,
//! and how it ends.

use super::Plane;
use crate::clock;
use crate::probe;
use crate::request::ingress;
use crate::request::worker::{Shared, Worker};
use crate::upstream::Client;
use hyper::service::service_fn;
use lanekeeper_serve::{Limits, Unreadable, Waits};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Time between looks at the files of secrets.
const SECRETS_INTERVAL: Duration = Duration::from_secs(1);
/// What a stream that ran into the shutdown deadline gets to write its error event, beyond the
/// grace for running answers.
const SHUTDOWN_FLUSH: Duration = Duration::from_secs(2);

/// How a listener learns that it must end.
#[derive(Debug, Clone)]
pub struct DrainSignal {
    /// Cancelled when the agent begins to drain: every answer from then on ends its connection.
    pub retiring: CancellationToken,
    /// Cancelled when nothing new must be accepted.
    pub closing: CancellationToken,
    /// How long running answers may go on after that; then they end with an error event.
    pub grace: Duration,
}

impl Plane {
    /// Serves callers on `listener` until the drain is over. Each worker thread runs one.
    pub async fn serve(&self, listener: std::net::TcpListener, drain: DrainSignal) {
        match self.worker(listener) {
            Ok((worker, listener)) => self.run(worker, listener, drain).await,
            Err(error) => tracing::error!(%error, "cannot serve callers"),
        }
    }

    fn worker(
        &self,
        listener: std::net::TcpListener,
    ) -> Result<(Worker, tokio::net::TcpListener), String> {
        let tls = self.background.tls.clone()?;
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener))
            .map_err(|error| error.to_string())?;
        let worker = Worker::new(Arc::clone(&self.shared), Client::new(tls));
        Ok((worker, listener))
    }

    async fn run(&self, worker: Worker, listener: tokio::net::TcpListener, drain: DrainSignal) {
        let limits = limits(&worker);
        let waits = waits(Arc::clone(&self.shared), limits.waits());
        let nudge = CancellationToken::new();
        let end = lanekeeper_serve::End {
            retiring: drain.retiring.clone(),
            shutdown: drain.closing.clone(),
            nudge: nudge.clone(),
            grace: drain.grace.saturating_add(SHUTDOWN_FLUSH),
        };
        let (deadline, client) = (worker.deadline(), worker.client());
        let service = service_fn(move |request| {
            let worker = worker.clone();
            async move { Ok::<_, Infallible>(ingress::handle(&worker, request).await) }
        });
        let serving = lanekeeper_serve::serve_adjusted(listener, limits, waits, service, end);
        let background = async {
            self.tend(&client, &drain.closing).await;
            tokio::time::sleep(drain.grace).await;
            deadline.set();
            nudge.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            served = serving => {
                if let Err(error) = served {
                    tracing::error!(%error, "the proxy listener ended");
                }
            }
            () = background => {}
        }
    }

    /// Does the background work, which one worker does for all, until the listener closes.
    async fn tend(&self, client: &Client, closing: &CancellationToken) {
        let (served, probing) = (&self.shared.served, &self.background.probing);
        tokio::select! {
            () = self.watch_secrets() => {}
            () = probe::supervise(served, probing, client) => {}
            () = closing.cancelled() => {}
        }
    }

    /// Ends overrides in time and reads secrets again whose files have changed. Any worker may do
    /// it; one does.
    async fn watch_secrets(&self) {
        loop {
            tokio::time::sleep(SECRETS_INTERVAL).await;
            if !self.claim_secrets(clock::now()) {
                continue;
            }
            self.shared.served.end_overrides(clock::now());
            let shared = Arc::clone(&self.shared);
            let reading = tokio::task::spawn_blocking(move || shared.served.refresh_secrets());
            if let Err(error) = reading.await {
                tracing::error!(%error, "secrets cannot be read");
            }
        }
    }

    fn claim_secrets(&self, now: Instant) -> bool {
        let mut read = self.background.secrets_read.lock();
        let due = now.saturating_duration_since(*read) >= SECRETS_INTERVAL / 2;
        if due {
            *read = now;
        }
        due
    }
}

/// The listener's limits, and how it answers a head that cannot be read.
fn limits(worker: &Worker) -> Limits {
    let refusing = worker.clone();
    Limits {
        tell_conflicting_length: true,
        unreadable: Some(Unreadable::new(move |head| {
            ingress::refuse_unread(&refusing, head)
        })),
        ..Limits::default()
    }
}

/// How long to wait for a head and for the next request, as the served revision has it.
fn waits(shared: Arc<Shared>, before_any_revision: Waits) -> impl Fn() -> Waits {
    move || shared.served.waits().unwrap_or(before_any_revision)
}
