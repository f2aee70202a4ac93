//! The data plane as the rest of the agent sees it: apply a revision, serve, and read.

mod serve;

pub use crate::lanes::snapshot::Applied;
pub use serve::DrainSignal;

use crate::clock;
use crate::lanes::leases::LeaseDesk;
use crate::lanes::served::Reported;
use crate::lanes::stats::Stats;
use crate::probe::Probing;
use crate::request::worker::Shared;
use crate::upstream::Tls;
use lanekeeper_model::lease::{ProbeAnswer, ProbeVerdict};
use lanekeeper_model::transition::{ShedTransitions, TransitionReport};
use lanekeeper_model::{
    Advisory, CellReport, Gateway, Override, PoolReport, PoolUsability, Totals,
};
use opentelemetry_sdk::trace::SdkTracer;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The data plane. Clones share it.
#[derive(Clone)]
pub struct Plane {
    /// What requests need.
    shared: Arc<Shared>,
    /// What only background work needs.
    background: Arc<Background>,
}

/// What the clones of a plane share beyond what requests need.
struct Background {
    tls: Result<Tls, String>,
    /// When the secrets' files were looked at last.
    secrets_read: Mutex<Instant>,
    probing: Probing,
    /// What reports have carried so far.
    reported: Mutex<Reported>,
}

impl Default for Plane {
    fn default() -> Self {
        Self::new()
    }
}

impl Plane {
    /// A plane that serves nothing yet and traces nothing.
    pub fn new() -> Self {
        Self::traced(None)
    }

    /// A plane that serves nothing yet; each request and attempt becomes a span of `tracer`.
    pub fn traced(tracer: Option<SdkTracer>) -> Self {
        Self::with(Tls::from_env().map_err(|error| error.to_string()), tracer)
    }

    /// A plane that serves nothing yet and trusts the providers that `tls` trusts.
    pub fn trusting(tls: Tls) -> Self {
        Self::with(Ok(tls), None)
    }

    fn with(tls: Result<Tls, String>, tracer: Option<SdkTracer>) -> Self {
        Self {
            shared: Arc::new(Shared {
                tracer,
                ..Shared::default()
            }),
            background: Arc::new(Background {
                tls,
                secrets_read: Mutex::new(clock::now()),
                probing: Probing::default(),
                reported: Mutex::new(Reported::nothing(clock::now())),
            }),
        }
    }

    /// Compiles a revision off the request path and swaps it in. Returns what keeps parts of it
    /// from working here, such as a missing secret. Cells, permits, budgets and counts of names
    /// that stay are kept; running requests end under the revision they began with.
    pub fn apply(&self, gateway: Gateway, applied: Applied) -> Vec<String> {
        self.shared.served.apply(&gateway, applied);
        self.background.probing.configured();
        self.problems()
    }

    /// Takes the operators' whole set of overrides. Those that are no longer in it are released,
    /// and each ends by itself when its time is over; a reset works once for its id. The set
    /// outlives revisions.
    pub fn apply_overrides(&self, overrides: &[Override]) {
        self.shared.served.apply_overrides(overrides);
    }

    /// Takes the fleet's whole set of advisories about lanes that fail elsewhere. Those that are no
    /// longer in it are over, and each ends by itself when it is not given again in time.
    pub fn apply_advisories(&self, advisories: &[Advisory]) {
        self.shared.served.apply_advisories(advisories);
    }

    /// The desk for leases of probes, which the session empties.
    pub(crate) fn leases(&self) -> &Arc<LeaseDesk> {
        self.shared.served.leases()
    }

    /// Hands the control plane's answers about probes to the cells.
    pub(crate) fn apply_leases(&self, answers: &[ProbeAnswer], verdicts: &[ProbeVerdict]) {
        self.shared.served.apply_leases(answers, verdicts);
    }

    /// The ids of the operators' overrides that concern no cell of the served revision.
    pub fn unmet_overrides(&self) -> Vec<String> {
        self.shared.served.unmet_overrides()
    }

    /// The served revision.
    pub fn applied(&self) -> Option<Applied> {
        self.shared.served.applied()
    }

    /// What keeps parts of the served revision from working here, as of now.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.shared.served.problems();
        problems.extend(self.background.tls.as_ref().err().cloned());
        problems.extend(self.background.probing.problems());
        problems
    }

    /// Every cell, closed ones included, sorted by pool, lane and endpoint.
    pub fn cells(&self) -> Vec<CellReport> {
        self.shared.served.cells()
    }

    /// The pools of which a report has anything to tell, and how long ago the report before was
    /// made. What came of requests is told once.
    pub fn report_pools(&self) -> (Vec<PoolReport>, Duration) {
        let mut reported = self.background.reported.lock();
        self.shared.served.report_pools(&mut reported)
    }

    /// What each pool can serve with now.
    pub fn usability(&self) -> Vec<PoolUsability> {
        self.shared.served.usability()
    }

    /// The `lanes`, `pools` and `providers` parts of `/stats`.
    pub fn stats(&self) -> Stats {
        self.shared.served.stats()
    }

    /// The latest outcomes of every cell, one JSON object a line: what `lanekeeper replay` reads.
    pub fn journal(&self) -> String {
        self.shared.served.journal()
    }

    /// Requests since the plane was made.
    pub fn totals(&self) -> Totals {
        self.shared.counters.totals()
    }

    /// Notified at every transition of a cell.
    pub fn changed(&self) -> &Notify {
        self.shared.served.changed().notify()
    }

    /// Changes of cells' states that are not known to be stored, the earliest first, as many as one
    /// report carries; and those that could not be kept until then.
    pub fn transitions(&self) -> (Vec<TransitionReport>, Option<ShedTransitions>) {
        self.shared.served.transitions()
    }

    /// Changes of state up to this number are stored. True when more wait than the last report
    /// carried.
    pub fn transitions_stored(&self, through: u64) -> bool {
        self.shared.served.changed().transitions_stored(through)
    }

    /// True while some lane would take a request.
    pub fn any_lane_usable(&self) -> bool {
        self.shared.served.any_lane_usable()
    }

    /// True while some pool has a member that can be selected.
    pub fn has_usable_pool(&self) -> bool {
        self.shared.served.has_usable_pool()
    }

    /// Counts a revision that was refused.
    pub fn config_rejected(&self) {
        self.shared.served.metrics().config_rejected();
    }

    /// Counts a report that was sent.
    pub fn report_sent(&self) {
        self.shared.served.metrics().report_sent();
    }

    /// Appends every series of the agent, labelled with its gateway, and the end mark, in the
    /// OpenMetrics text format.
    pub fn encode_metrics(&self, gateway: &str, out: &mut String) {
        self.shared.served.set_gauges();
        let metrics = self.shared.served.metrics();
        metrics.set_panics(self.shared.counters.panics());
        metrics.encode(gateway, out);
    }
}
