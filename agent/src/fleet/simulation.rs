//! One agent process as a plain value, for simulations of whole fleets: messages, time and random
//! numbers go in, messages come out.
//!
//! The link, adoption, overrides and cells are the agent's own; beside them there are only stand-ins
//! for the disk and the requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use lanekeeper_breaker::Policy;
use lanekeeper_model::spec::FleetProbe;
use lanekeeper_model::transition::{ShedTransitions, TransitionReport};
use lanekeeper_model::{
    Advisory, ConfigSource, Gateway, LaneName, Override, PoolName, Problem, ProviderName, Report,
    Totals,
};
use lanekeeper_proto::message::{AppliedRevision, FromAgent, FromServer, Goodbye, Hello};
use parking_lot::Mutex;

use super::link::{Effect, Leave, Link, Outgoing, Received};
use super::report::fit;
use crate::lanes::cells::{CellSlot, Changes, Coordinated, Label};
use crate::lanes::leases::{self, LeaseDesk};
use crate::lanes::overrides::ActiveOverrides;
use crate::revision::adopt::{Adopter, Expected};
use crate::revision::cache::overrides::{self, Held};
use crate::status::Status;

mod requests;

pub use super::link::{Facts, OPEN_TIMEOUT};
pub use lanekeeper_proto::message::{
    ABILITY_ADVISORIES, ABILITY_DRAIN, ABILITY_OVERRIDES, ABILITY_PROBE_LEASES,
};
pub use requests::Attempt;

/// The clocks of a machine that has not started again.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// Wall time in unix milliseconds.
    pub wall_ms: u64,
    /// Milliseconds since the machine's start.
    pub uptime_ms: u64,
}

impl Clocks {
    fn moment(self) -> overrides::Moment {
        overrides::Moment {
            wall_ms: self.wall_ms,
            boot: Some("simulated".to_owned()),
            uptime_ms: self.uptime_ms,
        }
    }
}

/// The overrides of a session as the disk keeps them.
#[derive(Debug, Clone)]
pub struct KeptOverrides(overrides::KeptOverrides);

/// What an agent finds on its disk at start.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    /// The last-known-good configuration.
    pub configuration: Option<Kept>,
    /// The overrides of the last session.
    pub overrides: Option<KeptOverrides>,
}

/// A configuration as the last-known-good file keeps it.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Its number.
    pub revision: u64,
    /// Its content hash.
    pub hash: String,
    /// The control epoch under which it was received.
    pub control_epoch: String,
    /// The document as JSON.
    pub document: Bytes,
}

/// The session is over, or never came about.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Why, for people.
    pub reason: String,
    /// The server's goodbye, if there was one.
    pub goodbye: Option<Goodbye>,
}

impl From<Leave> for Ended {
    fn from(leave: Leave) -> Self {
        Self {
            reason: leave.to_string(),
            goodbye: leave.goodbye().cloned(),
        }
    }
}

/// One agent process.
pub struct Agent {
    link: Link,
    adopter: Adopter,
    adopted: Arc<Mutex<Option<Gateway>>>,
    policy: Arc<Policy>,
    overrides: ActiveOverrides,
    /// The latest set, as it is kept for the next start.
    held: Option<Held>,
    cells: BTreeMap<(PoolName, LaneName), (ProviderName, Arc<CellSlot>)>,
    changed: Arc<Changes>,
    leases: Arc<LeaseDesk>,
    totals: Totals,
}

impl Agent {
    /// A process that has just started, with what its disk holds. `clocks` show `now` by the
    /// machine.
    pub fn start(
        facts: Facts,
        disk: &Disk,
        policy: Arc<Policy>,
        now: Instant,
        clocks: Clocks,
    ) -> Self {
        let adopted = Arc::<Mutex<Option<Gateway>>>::default();
        let sink = Arc::clone(&adopted);
        let adopter = Adopter::with(Arc::new(Status::new(now)), move |gateway, _| {
            *sink.lock() = Some(gateway);
            Vec::new()
        });
        let gateway = facts.gateway.clone();
        let mut agent = Self {
            link: Link::new(facts.clone(), None),
            adopter,
            adopted,
            policy,
            overrides: ActiveOverrides::default(),
            held: None,
            cells: BTreeMap::new(),
            changed: Arc::default(),
            leases: Arc::default(),
            totals: Totals::default(),
        };
        // Before there are cells, so that no request slips past them.
        if let Some(kept) = &disk.overrides {
            agent.apply_overrides(&kept.0.active(&gateway, &clocks.moment()), now);
        }
        if let Some(kept) = &disk.configuration
            && agent
                .adopt(&kept.document, kept.revision, &kept.hash, now)
                .is_ok()
        {
            let applied = AppliedRevision {
                revision: kept.revision,
                hash: kept.hash.clone(),
                source: ConfigSource::Disk,
                control_epoch: Some(kept.control_epoch.clone()),
            };
            agent.link = Link::new(facts, Some(applied));
        }
        agent
    }

    /// Its cells wait without end for other agents' probes: a fault, to see that it is noticed.
    pub fn wait_for_ever(&self) {
        self.leases.wait_for_ever();
    }

    /// Who it is.
    pub fn facts(&self) -> &Facts {
        self.link.facts()
    }

    /// What it serves: revision, hash and the control epoch under which it came.
    pub fn applied(&self) -> Option<(u64, &str, Option<&str>)> {
        let applied = self.link.applied()?;
        let epoch = applied.control_epoch.as_deref();
        Some((applied.revision, &applied.hash, epoch))
    }

    /// A connection is up and its Hello goes out.
    pub fn dialled(&mut self, wall_ms: u64, now: Instant) -> Hello {
        self.link.dialled(wall_ms, now)
    }

    /// The epoch of its latest session.
    pub fn session_epoch(&self) -> Option<u64> {
        self.link.session_epoch()
    }

    /// A session is open.
    pub fn is_open(&self) -> bool {
        self.link.is_open()
    }

    /// An operator took it out of service.
    pub fn is_out_of_service(&self) -> bool {
        self.link.is_out_of_service()
    }

    /// The revision that is being tried.
    pub fn trying(&self) -> Option<u64> {
        self.link.trying()
    }

    /// The next message is read now, and not left on the connection.
    pub fn reads(&self) -> bool {
        self.link.reads()
    }

    /// Takes a message. When it carried overrides, the disk is to keep
    /// [`Agent::kept_overrides`] from now on.
    ///
    /// # Errors
    ///
    /// The session ends.
    pub fn receive(&mut self, message: FromServer, now: Instant) -> Result<(), Ended> {
        let effect = self.link.receive(Received::Message(message), now)?;
        self.follow(effect, now);
        Ok(())
    }

    fn follow(&mut self, effect: Effect, now: Instant) {
        if let Effect::Acknowledged {
            transitions_stored, ..
        } = &effect
            && self.changed.transitions_stored(*transitions_stored)
        {
            self.link.stir(now);
        }
        match &effect {
            Effect::Opened { .. } => self.leases.set_connected(self.link.has_leases()),
            Effect::Leases(lease) => {
                let cells: Vec<_> = self.cells.values().map(|(_, it)| Arc::clone(it)).collect();
                leases::answer(&cells, &lease.answers, &lease.verdicts, now);
            }
            _ => {}
        }
        if let Effect::Advise(advisories) = &effect {
            self.advise(advisories, now);
        }
        if let Effect::Override(overrides) = effect {
            self.held = Some(Held::new(&overrides.entries, now));
            self.apply_overrides(&overrides.entries, now);
            self.answer_overrides();
        }
        self.stir(now);
    }

    fn advise(&mut self, advisories: &[Advisory], now: Instant) {
        self.overrides.set_advisories(advisories, now);
        self.reach(now);
    }

    /// The overrides of this process as the disk is to keep them.
    pub fn kept_overrides(&self, now: Instant, clocks: Clocks) -> Option<KeptOverrides> {
        let active = self.held.as_ref()?.at(now);
        let gateway = self.link.facts().gateway.clone();
        let kept = overrides::KeptOverrides::new(gateway, active, clocks.moment());
        Some(KeptOverrides(kept))
    }

    fn apply_overrides(&mut self, overrides: &[Override], now: Instant) {
        let resets = self.overrides.set_overrides(overrides, now);
        for (_, cell) in self.cells.values() {
            if resets.iter().any(|scope| scope.concerns(cell.label())) {
                cell.reset(now);
            }
        }
        self.reach(now);
    }

    fn answer_overrides(&mut self) {
        let cells = self.cells.values().map(|(_, cell)| cell);
        let unmet = self.overrides.unmet(cells);
        self.link.answer_overrides(&unmet);
    }

    fn reach(&self, now: Instant) {
        self.overrides
            .apply_to(self.cells.values().map(|(_, cell)| cell), now);
    }

    /// What cells ask to be reported at once.
    fn stir(&mut self, now: Instant) {
        if self.changed.notify().notified().now_or_never().is_some() {
            self.link.stir(now);
        }
    }

    /// Ends the running trial, refusing the revision for `obstacle` if there is one. Returns what the
    /// last-known-good file is to keep.
    pub fn tried(&mut self, obstacle: Option<Problem>, now: Instant) -> Option<Kept> {
        let push = self.link.pushed()?;
        let verdict = match obstacle {
            Some(problem) => Err(vec![problem]),
            None => self.adopt(&push.document, push.revision, &push.hash, now),
        };
        let is_applied = verdict.is_ok();
        let push = self.link.tried(verdict)?;
        self.answer_overrides();
        self.stir(now);
        let control_epoch = self.link.applied()?.control_epoch.clone()?;
        is_applied.then_some(Kept {
            revision: push.revision,
            hash: push.hash,
            control_epoch,
            document: push.document,
        })
    }

    fn adopt(
        &mut self,
        document: &[u8],
        revision: u64,
        hash: &str,
        now: Instant,
    ) -> Result<Vec<String>, Vec<Problem>> {
        let expected = Expected {
            gateway: &self.link.facts().gateway.clone(),
            hash,
            revision,
            source: ConfigSource::Live,
        };
        let adopted = self.adopter.adopt_json(document, expected)?;
        if let Some(gateway) = self.adopted.lock().take() {
            let mut before = std::mem::take(&mut self.cells);
            for cell in gateway.cells() {
                if cell.pool.is_empty() {
                    continue;
                }
                let key = (cell.pool.clone(), cell.lane.clone());
                let slot = before.remove(&key).map(|(_, slot)| slot);
                let slot = slot.unwrap_or_else(|| Arc::new(self.new_cell(&key, now)));
                let pool = gateway.pools.get(&key.0);
                let together = pool.is_some_and(|it| it.fleet.probe == FleetProbe::Coordinated);
                slot.coordinate(together.then(|| Coordinated {
                    desk: Arc::clone(&self.leases),
                    subject: 0,
                }));
                self.cells.insert(key, (cell.provider, slot));
            }
        }
        self.reach(now);
        Ok(adopted.problems)
    }

    fn new_cell(&self, (pool, lane): &(PoolName, LaneName), now: Instant) -> CellSlot {
        let label = Label::Member {
            pool: pool.clone(),
            lane: lane.clone(),
        };
        let (policy, changed) = (Arc::clone(&self.policy), Arc::clone(&self.changed));
        CellSlot::new(label, None, policy, None, changed, now)
    }

    /// Does what is due: the next message if there is room for one on the connection.
    ///
    /// # Errors
    ///
    /// The session ends.
    pub fn next_message(
        &mut self,
        room: bool,
        now: Instant,
        jitter: f64,
    ) -> Result<Option<FromAgent>, Ended> {
        let waiting = self.leases.take();
        if waiting != Default::default() {
            self.link.put_leases(waiting);
        }
        let sending = self.link.due(now)?;
        while let Some(effect) = self.link.next_held(now)? {
            self.follow(effect, now);
        }
        if !sending || !room {
            return Ok(None);
        }
        Ok(match self.link.next(now, jitter) {
            Some(Outgoing::Answer(answer)) => Some(answer),
            Some(Outgoing::Report(numbered, limits)) => {
                let (transitions, shed_transitions) = self.pending_transitions(now);
                let all = Report {
                    cells: self.cells(now),
                    totals: self.totals,
                    revision: self.link.applied().map_or(0, |it| it.revision),
                    draining: self.link.is_out_of_service(),
                    transitions,
                    shed_transitions,
                    ..Report::default()
                };
                Some(FromAgent::Report(fit(all, numbered, limits).0))
            }
            None => None,
        })
    }

    /// Changes of state that are not known to be stored, as a report carries them.
    fn pending_transitions(
        &self,
        now: Instant,
    ) -> (Vec<TransitionReport>, Option<ShedTransitions>) {
        let provider_of = |lane: &str| {
            let mut named = self.cells.iter().filter(|((_, name), _)| **name == *lane);
            let provider = named.next().map(|(_, (provider, _))| provider.clone());
            provider.unwrap_or_else(|| ProviderName::from(""))
        };
        self.changed.pending(now, provider_of)
    }

    /// How many changes of state there were since the process started.
    pub fn transitions(&self) -> u64 {
        self.changed.count()
    }

    /// When [`Agent::next_message`] has something to do, if nothing happens until then.
    pub fn wake_at(&self) -> Option<Instant> {
        self.link.wake_at()
    }

    /// The connection is gone, or none came about. Returns the wait before the next dial; what is
    /// being tried is to end before that as well.
    pub fn hung_up(&mut self, goodbye: Option<&Goodbye>, now: Instant, jitter: f64) -> Duration {
        self.leases.set_connected(false);
        self.link.hung_up(goodbye, now, jitter)
    }
}
