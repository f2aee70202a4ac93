//! What an agent serves now: the compiled revision behind one pointer, the state behind its names,
//! and how revisions, overrides, advisories and credentials change the two together.
//!
//! The order of locks is always the live state first, then one cell. A request takes neither: it
//! loads the pointer once.

mod usability;
mod view;

pub(crate) use usability::Reported;

use crate::clock;
use crate::lanes::cells::{Changes, Coordinated};
use crate::lanes::leases::{self, LeaseDesk};
use crate::lanes::snapshot::compile::compile;
use crate::lanes::snapshot::live::{Live, Wiring};
use crate::lanes::snapshot::{Applied, Snapshot};
use crate::observe::metrics::{Metrics, ProbeOutcome};
use crate::upstream::ProxyEnvironment;
use arc_swap::ArcSwapOption;
use lanekeeper_model::lease::{ProbeAnswer, ProbeVerdict};
use lanekeeper_model::spec::FleetProbe;
use lanekeeper_model::{Advisory, Gateway, LaneName, Override};
use lanekeeper_serve::Waits;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// The served revision and all that outlives it.
pub(crate) struct Served {
    snapshot: ArcSwapOption<Snapshot>,
    live: Mutex<Live>,
    metrics: Metrics,
    changed: Arc<Changes>,
    proxies: ProxyEnvironment,
    leases: Arc<LeaseDesk>,
}

impl Default for Served {
    fn default() -> Self {
        Self {
            snapshot: ArcSwapOption::empty(),
            live: Mutex::new(Live::default()),
            metrics: Metrics::new(),
            changed: Arc::default(),
            proxies: ProxyEnvironment::from_process(),
            leases: Arc::default(),
        }
    }
}

impl Served {
    /// The revision that requests beginning now are served under.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// How long callers' connections wait; `None` before any revision.
    pub(crate) fn waits(&self) -> Option<Waits> {
        let snapshot = self.snapshot.load();
        snapshot.as_ref().map(|it| Waits {
            header: it.limits.header_timeout,
            idle: it.limits.idle_timeout,
        })
    }

    /// The agent's series.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Notified at every transition of a cell, and keeps them until they are stored.
    pub(crate) fn changed(&self) -> &Changes {
        &self.changed
    }

    /// Compiles a revision off the request path and swaps it in. Cells, permits, budgets and counts
    /// of names that stay are kept; running requests end under the revision they began with.
    pub(crate) fn apply(&self, gateway: &Gateway, applied: Applied) {
        let now = clock::now();
        let mut live = self.live.lock();
        let previous = self.snapshot.load_full();
        let revision = applied.revision;
        let wiring = Wiring {
            metrics: &self.metrics,
            changed: &self.changed,
            proxies: &self.proxies,
            now,
        };
        let snapshot = compile(gateway, applied, previous.as_deref(), &mut live, &wiring);
        announce_credentials(&snapshot, &mut live, now);
        self.coordinate(gateway, &snapshot);
        live.overrides.apply_to(snapshot.cells(), now);
        self.metrics.set_revision(revision);
        self.snapshot.store(Some(Arc::new(snapshot)));
    }

    /// Takes the operators' whole set of overrides. Those that are no longer in it are released,
    /// and each ends by itself when its time is over; a reset works once for its id. The set
    /// outlives revisions.
    pub(crate) fn apply_overrides(&self, overrides: &[Override]) {
        let now = clock::now();
        let mut live = self.live.lock();
        let resets = live.overrides.set_overrides(overrides, now);
        if let Some(snapshot) = self.snapshot.load().as_ref() {
            for scope in &resets {
                let meant = snapshot.cells().filter(|cell| scope.concerns(cell.label()));
                meant.for_each(|cell| cell.reset(now));
            }
            live.overrides.apply_to(snapshot.cells(), now);
        }
    }

    /// Takes the fleet's whole set of advisories. Those that are no longer in it are over, and each
    /// ends by itself when it is not given again in time.
    pub(crate) fn apply_advisories(&self, advisories: &[Advisory]) {
        let now = clock::now();
        let mut live = self.live.lock();
        live.overrides.set_advisories(advisories, now);
        if let Some(snapshot) = self.snapshot.load().as_ref() {
            live.overrides.apply_to(snapshot.cells(), now);
            for lane in live.overrides.unknown_advised(snapshot.cells()) {
                tracing::info!(%lane, "the fleet warns of a lane that this agent does not have");
            }
        }
    }

    /// The desk for leases of probes.
    pub(crate) fn leases(&self) -> &Arc<LeaseDesk> {
        &self.leases
    }

    /// Hands the control plane's answers about probes to the cells.
    pub(crate) fn apply_leases(&self, answers: &[ProbeAnswer], verdicts: &[ProbeVerdict]) {
        if let Some(snapshot) = self.snapshot.load().as_ref() {
            let cells: Vec<_> = snapshot.cells().map(Arc::clone).collect();
            leases::answer(&cells, answers, verdicts, clock::now());
        }
    }

    /// Says of each cell whether its probes are the fleet's.
    fn coordinate(&self, gateway: &Gateway, snapshot: &Snapshot) {
        for lane in &snapshot.lanes {
            let subject = leases::subject_of(lane);
            for cell in &lane.cells {
                let pool = cell.pool().and_then(|pool| gateway.pools.get(pool));
                let together = pool.is_some_and(|it| it.fleet.probe == FleetProbe::Coordinated);
                cell.coordinate(together.then(|| Coordinated {
                    desk: Arc::clone(&self.leases),
                    subject,
                }));
            }
        }
    }

    /// The ids of the overrides that concern no cell of the served revision.
    pub(crate) fn unmet_overrides(&self) -> Vec<String> {
        let live = self.live.lock();
        let snapshot = self.snapshot.load();
        let cells = snapshot.iter().flat_map(|snapshot| snapshot.cells());
        live.overrides.unmet(cells)
    }

    /// Releases overrides whose time is over, and brings back those that they hid.
    pub(crate) fn end_overrides(&self, now: Instant) {
        let mut live = self.live.lock();
        let ended = live.overrides.end_expired(now);
        if let Some(snapshot) = self.snapshot.load().as_ref() {
            if ended {
                live.overrides.apply_to(snapshot.cells(), now);
            }
            drop(live);
            for cell in snapshot.cells() {
                cell.end_override(now);
                cell.end_advisory(now);
            }
        }
    }

    /// Looks at the files of all secrets now, and reads those that have changed. This touches the
    /// file system: never on a request's path.
    pub(crate) fn refresh_secrets(&self) {
        let Some(snapshot) = self.snapshot() else {
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
            announce_credentials(&snapshot, &mut self.live.lock(), clock::now());
            for lane in &snapshot.lanes {
                let subject = leases::subject_of(lane);
                lane.cells.iter().for_each(|cell| cell.set_subject(subject));
            }
            self.changed.notify_one();
        }
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

/// Notifies the cells of every provider whose key has changed.
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
