//! The data plane as the rest of the agent sees it: apply a revision, serve, and read.

mod worker;

pub(crate) use worker::Worker;

use crate::clock;
use crate::lanes::orders;
use crate::lanes::snapshot::Snapshot;
use crate::lanes::snapshot::compile::compile;
use crate::lanes::snapshot::live::{Live, Wiring};
use crate::lanes::stats::{self, LaneStats, PoolStats, Stats};
use crate::observe::metrics::Metrics;
use crate::probe::{self, ProbeOutcome, Probing};
use crate::request::ingress;
use crate::request::ingress::budget::BodyRoom;
use crate::request::visit::Counters;
use crate::upstream::{Client, Tls};
use arc_swap::ArcSwapOption;
use hyper::service::service_fn;
use lanekeeper_model::{Advisory, CellReport, ConfigSource, Gateway, LaneName, Override, Totals};
use lanekeeper_serve::{Unreadable, Waits};
use opentelemetry_sdk::trace::SdkTracer;
use parking_lot::Mutex;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Time between looks at the files of secrets.
const SECRETS_INTERVAL: Duration = Duration::from_secs(1);
/// What a cut stream gets to write its error event, beyond the grace for running answers.
const CUT_FLUSH: Duration = Duration::from_secs(2);

/// Which revision is served, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The revision's number; 0 for a local file.
    pub revision: u64,
    /// SHA-256 of the canonical document, in hexadecimal.
    pub hash: String,
    /// Where the document came from.
    pub source: ConfigSource,
}

/// How a listener learns that it shall end.
#[derive(Debug, Clone)]
pub struct DrainSignal {
    /// Cancelled when the agent begins to drain: every answer from then on ends its connection.
    pub retiring: CancellationToken,
    /// Cancelled when nothing new must be accepted.
    pub closing: CancellationToken,
    /// How long running answers may go on after that; then they end with an error event.
    pub grace: Duration,
}

/// The data plane. Clones share it.
#[derive(Clone)]
pub struct Plane {
    inner: Arc<Inner>,
}

/// What the clones of a plane share.
pub(crate) struct Inner {
    snapshot: ArcSwapOption<Snapshot>,
    live: Mutex<Live>,
    metrics: Metrics,
    counters: Arc<Counters>,
    changed: Arc<Notify>,
    tls: Result<Tls, String>,
    /// When the secrets' files were looked at last.
    secrets_read: Mutex<Instant>,
    probing: Probing,
    tracer: Option<SdkTracer>,
    bodies: Arc<BodyRoom>,
}

impl Inner {
    /// The served revision.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// What the workers share about probes.
    pub(crate) fn probing(&self) -> &Probing {
        &self.probing
    }

    /// Counts one turn of a lane's probe; false when the lane has left, whose series must not come
    /// back.
    pub(crate) fn count_probe(&self, lane: &LaneName, outcome: ProbeOutcome) -> bool {
        let live = self.live.lock();
        let known = live.has_lane(lane);
        if known {
            self.metrics.probe(lane, outcome);
        }
        known
    }
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
            inner: Arc::new(Inner {
                snapshot: ArcSwapOption::empty(),
                live: Mutex::new(Live::default()),
                metrics: Metrics::new(),
                counters: Arc::default(),
                changed: Arc::new(Notify::new()),
                tls,
                secrets_read: Mutex::new(clock::now()),
                probing: Probing::default(),
                tracer,
                bodies: Arc::default(),
            }),
        }
    }

    /// Compiles a revision off the request path and swaps it in. Returns what keeps parts of it
    /// from working here, such as a missing secret. Cells, permits, budgets and counts of names
    /// that stay are kept; running requests end under the revision they began with.
    pub fn apply(&self, gateway: Gateway, applied: Applied) -> Vec<String> {
        let inner = &self.inner;
        let now = clock::now();
        let mut live = inner.live.lock();
        let previous = inner.snapshot.load_full();
        let revision = applied.revision;
        let wiring = Wiring {
            metrics: &inner.metrics,
            changed: &inner.changed,
            now,
        };
        let snapshot = compile(&gateway, applied, previous.as_deref(), &mut live, &wiring);
        announce_credentials(&snapshot, &mut live, now);
        live.orders.reach(snapshot.cells(), now);
        inner.metrics.set_revision(revision);
        inner.snapshot.store(Some(Arc::new(snapshot)));
        drop(live);
        inner.probing.configured();
        self.problems()
    }

    /// Takes the operators' whole set of orders. Those that are no longer in it are released, and
    /// each ends by itself when its time is over; a reset works once for its id. The set outlives
    /// revisions.
    pub fn apply_overrides(&self, overrides: &[Override]) {
        let now = clock::now();
        let mut live = self.inner.live.lock();
        let resets = live.orders.set_overrides(overrides, now);
        if let Some(snapshot) = self.inner.snapshot.load().as_ref() {
            for scope in &resets {
                let meant = snapshot
                    .cells()
                    .filter(|cell| orders::concerns(scope, cell));
                meant.for_each(|cell| cell.reset(now));
            }
            live.orders.reach(snapshot.cells(), now);
        }
    }

    /// Takes the fleet's whole set of hints about lanes that fail elsewhere. Those that are no
    /// longer in it are over, and each ends by itself when it is not given again in time.
    pub fn apply_advisories(&self, advisories: &[Advisory]) {
        let now = clock::now();
        let mut live = self.inner.live.lock();
        live.orders.set_advisories(advisories, now);
        if let Some(snapshot) = self.inner.snapshot.load().as_ref() {
            live.orders.reach(snapshot.cells(), now);
        }
    }

    /// The ids of the operators' orders that concern no cell of the served revision.
    pub fn unmet_overrides(&self) -> Vec<String> {
        let live = self.inner.live.lock();
        let snapshot = self.inner.snapshot.load();
        let cells = snapshot.iter().flat_map(|snapshot| snapshot.cells());
        live.orders.unmet(cells)
    }

    /// Tells of orders whose time is over, and brings back those that they hid.
    fn end_overrides(&self, now: Instant) {
        let mut live = self.inner.live.lock();
        let ended = live.orders.end_standing(now);
        if let Some(snapshot) = self.inner.snapshot.load().as_ref() {
            if ended {
                live.orders.reach(snapshot.cells(), now);
            }
            drop(live);
            snapshot.cells().for_each(|cell| cell.end_override(now));
        }
    }

    /// The served revision.
    pub fn applied(&self) -> Option<Applied> {
        self.inner
            .snapshot
            .load()
            .as_ref()
            .map(|snapshot| snapshot.applied.clone())
    }

    /// What keeps parts of the served revision from working here, as of now.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self
            .inner
            .snapshot
            .load()
            .as_ref()
            .map(|snapshot| snapshot.problems())
            .unwrap_or_default();
        problems.extend(self.inner.tls.as_ref().err().cloned());
        problems.extend(self.inner.probing.problems());
        problems
    }

    /// Every cell, closed ones included, sorted by pool, lane and endpoint.
    pub fn cells(&self) -> Vec<CellReport> {
        let now = clock::now();
        let snapshot = self.inner.snapshot.load();
        let mut cells: Vec<CellReport> = snapshot
            .iter()
            .flat_map(|snapshot| &snapshot.lanes)
            .flat_map(|lane| {
                lane.cells
                    .iter()
                    .filter_map(move |cell| cell.report(&lane.provider.name, now))
            })
            .collect();
        cells.sort_by(|a, b| (&a.pool, &a.lane, &a.endpoint).cmp(&(&b.pool, &b.lane, &b.endpoint)));
        cells
    }

    /// The `lanes`, `pools` and `providers` parts of `/stats`.
    pub fn stats(&self) -> Stats {
        let now = clock::now();
        let guard = self.inner.snapshot.load();
        let Some(snapshot) = guard.as_ref() else {
            return Stats::default();
        };
        Stats {
            lanes: snapshot
                .lanes
                .iter()
                .map(|lane| LaneStats::of(lane, now))
                .collect(),
            pools: snapshot
                .pools
                .values()
                .map(|pool| PoolStats {
                    pool: pool.name.clone(),
                    queued: pool.state.queued(),
                    members: pool
                        .members
                        .iter()
                        .map(|member| member.lane.name().clone())
                        .collect(),
                })
                .collect(),
            providers: stats::of_providers(&snapshot.providers, now),
        }
    }

    /// Requests since the plane was made.
    pub fn totals(&self) -> Totals {
        self.inner.counters.totals()
    }

    /// Notified at every transition of a cell.
    pub fn changed(&self) -> &Notify {
        &self.inner.changed
    }

    /// True while some lane would take a request.
    pub fn any_lane_usable(&self) -> bool {
        let now = clock::now();
        self.inner
            .snapshot
            .load()
            .iter()
            .flat_map(|snapshot| &snapshot.lanes)
            .any(|lane| stats::is_usable(lane, now))
    }

    /// Counts a revision that was refused.
    pub fn config_rejected(&self) {
        self.inner.metrics.config_rejected();
    }

    /// Counts a report that was sent.
    pub fn report_sent(&self) {
        self.inner.metrics.report_sent();
    }

    /// Appends every series of the agent, and the end mark, in the OpenMetrics text format.
    pub fn encode_metrics(&self, out: &mut String) {
        let metrics = &self.inner.metrics;
        let now = clock::now();
        // A revision that is swapped in meanwhile must not find its dropped series set again.
        let live = self.inner.live.lock();
        for snapshot in self.inner.snapshot.load().iter() {
            for lane in &snapshot.lanes {
                let view = lane.state.view();
                metrics.set_lane(lane.name(), view.inflight, view.permits_available);
                for cell in &lane.cells {
                    cell.show_state(now);
                }
            }
            let own = snapshot.providers.iter().flat_map(|it| it.own_cells());
            for cell in own {
                cell.show_state(now);
            }
            for pool in snapshot.pools.values() {
                metrics.set_queued(&pool.name, pool.state.queued());
            }
        }
        drop(live);
        metrics.set_panics(self.inner.counters.panics());
        metrics.encode(out);
    }

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
        let tls = self.inner.tls.clone()?;
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener))
            .map_err(|error| error.to_string())?;
        let worker = Worker::new(Arc::clone(&self.inner), Client::new(tls));
        Ok((worker, listener))
    }

    async fn run(&self, worker: Worker, listener: tokio::net::TcpListener, drain: DrainSignal) {
        let refusing = worker.clone();
        let limits = lanekeeper_serve::Limits {
            tell_conflicting_length: true,
            unreadable: Some(Unreadable::new(move |head| {
                ingress::refuse_unread(&refusing, head)
            })),
            ..lanekeeper_serve::Limits::default()
        };
        let before_any_revision = limits.waits();
        let inner = Arc::clone(&self.inner);
        let waits = move || {
            let snapshot = inner.snapshot.load();
            let limits = snapshot.as_ref().map(|snapshot| &snapshot.limits);
            Waits {
                header: limits.map_or(before_any_revision.header, |it| it.header_timeout),
                idle: before_any_revision.idle,
            }
        };
        let (cut, nudge) = (worker.cut(), CancellationToken::new());
        let client = worker.client();
        let service = service_fn(move |request| {
            let worker = worker.clone();
            async move { Ok::<_, Infallible>(ingress::handle(&worker, request).await) }
        });
        let serving = lanekeeper_serve::serve_adjusted(
            listener,
            limits,
            waits,
            service,
            lanekeeper_serve::End {
                retiring: drain.retiring.clone(),
                shutdown: drain.closing.clone(),
                nudge: nudge.clone(),
                grace: drain.grace.saturating_add(CUT_FLUSH),
            },
        );
        let background = async {
            tokio::select! {
                () = self.watch_secrets() => {}
                () = probe::supervise(&self.inner, &client) => {}
                () = drain.closing.cancelled() => {}
            }
            tokio::time::sleep(drain.grace).await;
            cut.set();
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

    /// Reads secrets again whose files have changed. Any worker may do it; one does.
    async fn watch_secrets(&self) {
        loop {
            tokio::time::sleep(SECRETS_INTERVAL).await;
            if !self.claim_secrets(clock::now()) {
                continue;
            }
            self.end_overrides(clock::now());
            let plane = self.clone();
            if let Err(error) = tokio::task::spawn_blocking(move || plane.refresh_secrets()).await {
                tracing::error!(%error, "secrets cannot be read");
            }
        }
    }

    fn claim_secrets(&self, now: Instant) -> bool {
        let mut read = self.inner.secrets_read.lock();
        let due = now.saturating_duration_since(*read) >= SECRETS_INTERVAL / 2;
        if due {
            *read = now;
        }
        due
    }

    /// Looks at the files of all secrets now.
    pub(crate) fn refresh_secrets(&self) {
        let Some(snapshot) = self.inner.snapshot.load_full() else {
            return;
        };
        let mut moved = false;
        for provider in &snapshot.providers {
            if provider.credential.refresh() {
                tracing::info!(provider = %provider.name, "the credential's file was read again");
                moved = true;
            }
        }
        if moved {
            announce_credentials(&snapshot, &mut self.inner.live.lock(), clock::now());
            self.inner.changed.notify_one();
        }
    }
}

/// Tells the cells of every provider whose key is another one than before.
fn announce_credentials(snapshot: &Snapshot, live: &mut Live, now: Instant) {
    for provider in &snapshot.providers {
        if !live.credential_is_new(&provider.name, provider.credential.fingerprint()) {
            continue;
        }
        let cells = snapshot
            .lanes
            .iter()
            .filter(|lane| lane.provider.name == provider.name)
            .flat_map(|lane| &lane.cells);
        for cell in cells.chain(provider.own_cells()) {
            cell.credential_changed(now);
        }
    }
}
