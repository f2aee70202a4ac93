//! What one worker thread of the data plane serves with.

use super::Inner;
use crate::lanes::snapshot::Snapshot;
use crate::request::cut::Cut;
use crate::request::ingress::budget::BodyRoom;
use crate::request::visit::Counters;
use crate::upstream::Client;
use opentelemetry_sdk::trace::SdkTracer;
use std::sync::Arc;

/// Clones share it.
#[derive(Clone)]
pub(crate) struct Worker {
    inner: Arc<Inner>,
    client: Client,
    cut: Cut,
}

impl Worker {
    pub(crate) fn new(inner: Arc<Inner>, client: Client) -> Self {
        Self {
            inner,
            client,
            cut: Cut::default(),
        }
    }

    /// The revision that requests beginning now are served under.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.inner.snapshot()
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.inner.counters
    }

    /// Counts a request that was refused before a pool was found for it.
    pub(crate) fn count_refusal(&self, reason: &'static str) {
        self.inner.metrics.refusal(reason);
    }

    /// Room for bodies, which all workers share.
    pub(crate) fn bodies(&self) -> &Arc<BodyRoom> {
        &self.inner.bodies
    }

    /// What makes spans, where somebody traces.
    pub(crate) fn tracer(&self) -> Option<&SdkTracer> {
        self.inner.tracer.as_ref()
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Set when running answers have to end.
    pub(crate) fn cut(&self) -> Cut {
        self.cut.clone()
    }
}
