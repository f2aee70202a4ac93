//! The invariants, checked at every step against what truly happened.
//!
//! | | |
//! |---|---|
//! | I1 | an agent's revision never goes down within a control epoch |
//! | I2 | after healing all serve the newest revision, obey the overrides and agree |
//! | I3 | a confirmed write is never lost |
//! | I4 | the view never shows an older report after a newer, nor anything that no agent said |
//! | I5 | no cell is counted by an agent that does not report freshly |
//! | I6 | nothing keeps requests from a sound lane but an operator's order in its time |
//! | I7 | at most one probe runs per cell, and one by lease per lane and cooldown |
//! | I8 | every write has exactly one entry in the audit trail |
//! | I9 | a restarted agent obeys the overrides that it kept, for what is left of them |
//! | I10 | after healing exactly the drained agents are out of service, and report so |
//! | I11 | a revoked agent loses its session, and its record goes from the view |
//! | I12 | after healing exactly the agents that have a living copy are shown with that problem |
//! | I13 | after healing agents report at the interval that their replica asks for |
//! | I14 | advice leaves no request without a member that would take it |
//! | I15 | nobody is advised of what fewer agents say than the quorum |
//! | I16 | no agent follows advice that is older than its own success |
//! | I17 | no agent follows advice that it was not given, or whose time is over |
//! | I18 | no cell waits for another agent's probe for longer than one cooldown |

use crate::store::{Done, Store};
use lanekeeper_breaker::limits::PROBE_LEASE_MIN;
use lanekeeper_model::{
    AgentRecord, CellReport, LaneName, Override, OverrideAction, PoolName, Report,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// What the receive times of servers may be off by: their clocks differ.
pub const CLOCKS_DIFFER: Duration = Duration::from_secs(4);
/// What is left of an override is kept in whole milliseconds.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// Gaps between reports that are looked at: changes of cells bring reports forward.
const GAPS: usize = 5;

/// An invariant was broken.
#[derive(Debug, Clone)]
pub struct Violation {
    pub invariant: &'static str,
    pub what: String,
}

struct Sent {
    /// Which report of its instance it is.
    order: u64,
    cells: Vec<CellReport>,
}

#[derive(Default)]
pub struct Checker {
    pub violation: Option<Violation>,
    /// The control epoch of each instance, and its highest revision since it came there.
    served: BTreeMap<String, (String, u64)>,
    reports: BTreeMap<(String, u64, u64), Sent>,
    sent: BTreeMap<String, u64>,
    /// The latest session of each instance, and when it sent its latest reports there.
    sent_at: BTreeMap<String, (u64, VecDeque<Duration>)>,
    /// When a control plane last got a report of each instance.
    heard: BTreeMap<String, Duration>,
    shown: BTreeMap<(usize, String), u64>,
    /// Running probes by cell and its generation, with their beginnings.
    probes: BTreeMap<(String, PoolName, LaneName, u64), Duration>,
    /// Confirmed writes that have not been restored away.
    confirmed: Vec<(u64, Done)>,
    asked: BTreeSet<u64>,
    /// Replicas' clocks are set while they run: what they say of ages means nothing.
    pub clocks_step: bool,
}

impl Checker {
    pub fn new(clocks_step: bool) -> Self {
        Self {
            clocks_step,
            ..Self::default()
        }
    }

    pub fn broken(&mut self, invariant: &'static str, what: String) {
        if self.clocks_step && invariant == "I5" {
            return;
        }
        self.violation.get_or_insert(Violation { invariant, what });
    }

    /// An agent serves a revision.
    pub fn serves(&mut self, instance: &str, revision: u64, epoch: Option<&str>) {
        // Sabotaged agents do not know.
        let Some(epoch) = epoch.filter(|epoch| !epoch.is_empty()) else {
            return;
        };
        let served = self.served.get(instance);
        let highest = served.filter(|(before, _)| before == epoch);
        let highest = highest.map_or(revision, |(_, highest)| *highest);
        if revision < highest {
            let what = format!("{instance} went from revision {highest} to {revision} in {epoch}");
            self.broken("I1", what);
        }
        let now = (epoch.to_owned(), revision.max(highest));
        self.served.insert(instance.to_owned(), now);
    }

    /// An agent sends a report.
    pub fn sends(&mut self, instance: &str, session_epoch: u64, report: &Report, now: Duration) {
        let sent_at = self.sent_at.entry(instance.to_owned()).or_default();
        if sent_at.0 != session_epoch {
            *sent_at = (session_epoch, VecDeque::new());
        }
        if sent_at.1.len() > GAPS {
            sent_at.1.pop_front();
        }
        sent_at.1.push_back(now);
        let order = self.sent.entry(instance.to_owned()).or_default();
        *order += 1;
        let notable = report.cells.iter().filter(|cell| cell.is_notable());
        let sent = Sent {
            order: *order,
            cells: notable.cloned().collect(),
        };
        let key = (instance.to_owned(), session_epoch, report.seq);
        self.reports.insert(key, sent);
    }

    /// The longest of the latest gaps between reports of an instance in its session, the one that
    /// has not ended included.
    pub fn longest_gap(&self, instance: &str, now: Duration) -> Duration {
        let sent_at = self.sent_at.get(instance).map(|(_, sent_at)| sent_at);
        let times = sent_at.into_iter().flatten().copied();
        let next = times.clone().skip(1).chain([now]);
        let gaps = times
            .zip(next)
            .map(|(sent, next)| next.saturating_sub(sent));
        gaps.max().unwrap_or_default()
    }

    /// A control plane takes a report in.
    pub fn hears(&mut self, instance: &str, now: Duration) {
        self.heard.insert(instance.to_owned(), now);
    }

    /// An API shows an agent. `fresh` when it counts it among those that report.
    pub fn shows(&mut self, api: usize, record: &AgentRecord, fresh: bool, now: Duration) {
        let instance = &record.instance;
        if fresh {
            let window = Duration::from_millis(lanekeeper_model::fleet::STALE_AFTER_MS);
            let heard = self.heard.get(instance);
            if heard.is_none_or(|heard| *heard + window + CLOCKS_DIFFER < now) {
                let what = format!("api {api} counts {instance}, last heard of at {heard:?}");
                self.broken("I5", what);
            }
        }
        if record.report_received_ms.is_none() {
            return;
        }
        let key = (instance.clone(), record.session_epoch, record.seq);
        let Some(sent) = self.reports.get(&key) else {
            let what = format!("api {api} shows a report that was never sent: {key:?}");
            return self.broken("I4", what);
        };
        let (order, same) = (sent.order, sent.cells == record.cells);
        let shown = self.shown.entry((api, instance.clone())).or_default();
        let before = *shown;
        *shown = order.max(before);
        if order < before {
            let what = format!("api {api} shows report {order} of {instance} after {before}");
            self.broken("I4", what);
        }
        if !same {
            let what = format!("api {api} shows other cells for {key:?} than were reported");
            self.broken("I4", what);
        }
    }

    /// A probe begins. One whose lease is over does not count.
    pub fn probes(
        &mut self,
        instance: &str,
        cell: &(PoolName, LaneName),
        generation: u64,
        now: Duration,
    ) {
        let key = (
            instance.to_owned(),
            cell.0.clone(),
            cell.1.clone(),
            generation,
        );
        let running = self.probes.insert(key, now);
        if running.is_some_and(|began| began + PROBE_LEASE_MIN > now) {
            let what = format!("{instance} probes {cell:?} twice at once");
            self.broken("I7", what);
        }
    }

    /// A probe ends.
    pub fn probed(&mut self, instance: &str, cell: &(PoolName, LaneName), generation: u64) {
        let key = (
            instance.to_owned(),
            cell.0.clone(),
            cell.1.clone(),
            generation,
        );
        self.probes.remove(&key);
    }

    /// A cell refused for the sake of an order: there has to be one that was given to the agent, in
    /// its time, and an operator who gave it. `given` is the agent's latest set, with its ends.
    pub fn obeys(
        &mut self,
        instance: &str,
        given: &[(Override, Duration)],
        cell: &(PoolName, LaneName),
        store: &Store,
        now: Duration,
    ) {
        let justified = given.iter().any(|(order, until)| {
            let ordered = store
                .overrides_ever
                .iter()
                .any(|row| row.order.id == order.id);
            let concerns = order.pool.as_ref().is_none_or(|pool| *pool == cell.0);
            ordered && concerns && order.lane == cell.1 && now <= *until
        });
        if !justified {
            let what = format!("{instance} refuses {cell:?} without an order in its time");
            self.broken("I6", what);
        }
    }

    /// An agent has started with `kept` overrides on its disk, with their ends.
    pub fn starts(
        &mut self,
        instance: &str,
        cells: &[CellReport],
        kept: &[(Override, Duration)],
        now: Duration,
    ) {
        let active = kept.iter().filter(|(active, until)| {
            active.action != OverrideAction::Reset && *until > now + CLOCK_STEP
        });
        for (active, _) in active {
            let ignored = cells.iter().find(|cell| {
                let in_pool = active.pool.as_ref().is_none_or(|pool| *pool == cell.pool);
                in_pool && cell.lane == active.lane && cell.override_action.is_none()
            });
            if let Some(cell) = ignored {
                let (id, pool, lane) = (&active.id, &cell.pool, &cell.lane);
                let what = format!("{instance} forgets the override {id} on {pool}/{lane}");
                self.broken("I9", what);
            }
        }
    }

    /// An operator begins to ask for something.
    pub fn asks(&mut self, request: u64) {
        self.asked.insert(request);
    }

    /// An operator was told that a write is done.
    pub fn confirms(&mut self, request: u64, done: Done) {
        self.confirmed.push((request, done));
    }

    /// Confirmed writes may be gone: the database is restored from a copy.
    pub fn restored(&mut self) {
        self.confirmed.clear();
        self.asked.clear();
    }

    /// Looks at the database.
    pub fn audits(&mut self, store: &Store) {
        let mut broken = Vec::new();
        for (request, done) in &self.confirmed {
            let lost = match done {
                Done::Revision(number, hash) => {
                    store.revision(*number).is_none_or(|it| it.hash != *hash)
                }
                Done::Override(id) => !store.overrides_ever.iter().any(|row| row.order.id == *id),
                Done::Other | Done::Refused => false,
            };
            if lost {
                broken.push(("I3", format!("{done:?} of request {request} is gone")));
            }
            let entries = store.entries_of(*request);
            if *done != Done::Refused && entries != 1 {
                broken.push(("I8", format!("request {request} has {entries} entries")));
            }
        }
        for request in &self.asked {
            let entries = store.entries_of(*request);
            if entries > 1 {
                broken.push(("I8", format!("request {request} has {entries} entries")));
            }
        }
        for (invariant, what) in broken {
            self.broken(invariant, what);
        }
    }
}
