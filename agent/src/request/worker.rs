//! What one worker thread serves requests with, and what it shares with the others.

use crate::lanes::served::Served;
use crate::lanes::snapshot::Snapshot;
use crate::request::guard::Counters;
use crate::request::ingress::budget::BodyRoom;
use crate::request::shutdown_deadline::ShutdownDeadline;
use crate::upstream::Client;
use lanekeeper_model::gateway::Cors;
use opentelemetry_sdk::trace::SdkTracer;
use std::sync::Arc;

/// What all worker threads share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) served: Served,
    pub(crate) counters: Arc<Counters>,
    /// Makes spans, where somebody traces.
    pub(crate) tracer: Option<SdkTracer>,
    /// Room for the bodies of all requests together.
    pub(crate) bodies: Arc<BodyRoom>,
}

/// One worker thread's own. Clones share it.
#[derive(Clone)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
    client: Client,
    deadline: ShutdownDeadline,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, client: Client) -> Self {
        Self {
            shared,
            client,
            deadline: ShutdownDeadline::default(),
        }
    }

    /// The revision that requests beginning now are served under.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.shared.served.snapshot()
    }

    /// Which web pages may call; none before any revision.
    pub(crate) fn cors(&self) -> Cors {
        self.snapshot()
            .map_or(Cors::Off, |snapshot| snapshot.cors.clone())
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// Counts a request that was refused before a pool was found for it.
    pub(crate) fn count_refusal(&self, reason: &'static str) {
        self.shared.served.metrics().refusal(reason);
    }

    /// Room for bodies, which all workers share.
    pub(crate) fn bodies(&self) -> &Arc<BodyRoom> {
        &self.shared.bodies
    }

    /// What makes spans, where somebody traces.
    pub(crate) fn tracer(&self) -> Option<&SdkTracer> {
        self.shared.tracer.as_ref()
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Set when running answers have to end.
    pub(crate) fn deadline(&self) -> ShutdownDeadline {
        self.deadline.clone()
    }
}
