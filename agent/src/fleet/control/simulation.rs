//! One agent process as a plain value, for simulations of whole fleets: messages, time and chance go
//! in, messages come out.
//!
//! Session, backoff, adoption, orders and cells are the agent's own. What [`super::link`] does around
//! them on a connection is done here once more without one, so a change there belongs here as well.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use lanekeeper_breaker::Policy;
use lanekeeper_model::{
    ConfigSource, Gateway, LaneName, PoolName, Problem, ProviderName, Report, Totals, digest,
};
use lanekeeper_proto::limits::{PROTOCOL_MAX, PROTOCOL_MIN};
use lanekeeper_proto::message::{
    ABILITY_DRAIN, ABILITY_OVERRIDES, AppliedRevision, ConfigPush, ConfigResult, FromAgent,
    FromServer, Goodbye, Hello, Overrides, OverridesResult,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::backoff::Backoff;
use super::link::{HELD_PUSHES_MAX, STALL_TIMEOUT};
use super::overrides::Given;
use super::report::{fit_errors, fit_texts, select};
use super::session::{Leave, Lineage, Session, Step};
use crate::lanes::cells::{CellSlot, Label};
use crate::lanes::overrides::{ActiveOverrides, concerns};
use crate::revision::adopt::{Adopter, Expected};
use crate::status::{Status, VERSION};

mod requests;

pub use requests::Attempt;

/// How long a server may take to open the stream.
pub const OPEN_TIMEOUT: Duration = super::link::OPEN_TIMEOUT;

/// Who an agent is.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The gateway it serves.
    pub gateway: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// This start of it.
    pub instance: String,
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
    /// The server's farewell, if it said one.
    pub goodbye: Option<Goodbye>,
}

impl From<Leave> for Ended {
    fn from(leave: Leave) -> Self {
        let reason = leave.to_string();
        let goodbye = match leave {
            Leave::Goodbye(goodbye) => Some(goodbye),
            Leave::Protocol(_) | Leave::NoWelcome | Leave::NoAck => None,
        };
        Self { reason, goodbye }
    }
}

struct Link {
    session: Session,
    push_answer: Option<ConfigResult>,
    orders_answer: Option<OverridesResult>,
    given: Option<Given>,
    held: VecDeque<ConfigPush>,
    waiting_since: Option<Instant>,
}

/// One agent process.
pub struct Agent {
    facts: Facts,
    lineage: Lineage,
    backoff: Backoff,
    adopter: Adopter,
    adopted: Arc<Mutex<Option<Gateway>>>,
    policy: Arc<Policy>,
    orders: ActiveOverrides,
    cells: BTreeMap<(PoolName, LaneName), (ProviderName, Arc<CellSlot>)>,
    changed: Arc<Notify>,
    totals: Totals,
    out_of_service: bool,
    link: Option<Link>,
    trial: Option<ConfigPush>,
    /// The session of a trial that outlives its connection.
    bereft: Option<Session>,
}

impl Agent {
    /// A process that has just started, with what its last-known-good file holds.
    pub fn start(facts: Facts, kept: Option<&Kept>, policy: Arc<Policy>, now: Instant) -> Self {
        let adopted = Arc::<Mutex<Option<Gateway>>>::default();
        let sink = Arc::clone(&adopted);
        let adopter = Adopter::with(Arc::new(Status::new(now)), move |gateway, _| {
            *sink.lock() = Some(gateway);
            Vec::new()
        });
        let mut agent = Self {
            facts,
            lineage: Lineage::default(),
            backoff: Backoff::default(),
            adopter,
            adopted,
            policy,
            orders: ActiveOverrides::default(),
            cells: BTreeMap::new(),
            changed: Arc::default(),
            totals: Totals::default(),
            out_of_service: false,
            link: None,
            trial: None,
            bereft: None,
        };
        if let Some(kept) = kept
            && agent
                .adopt(&kept.document, kept.revision, &kept.hash, now)
                .is_ok()
        {
            agent.lineage.applied = Some(AppliedRevision {
                revision: kept.revision,
                hash: kept.hash.clone(),
                source: ConfigSource::Disk,
                control_epoch: Some(kept.control_epoch.clone()),
            });
        }
        agent
    }

    /// Who it is.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What it serves: revision, hash and the control epoch under which it came.
    pub fn applied(&self) -> Option<(u64, &str, Option<&str>)> {
        let applied = self.lineage.applied.as_ref()?;
        let epoch = applied.control_epoch.as_deref();
        Some((applied.revision, &applied.hash, epoch))
    }

    /// A connection is up and its Hello goes out.
    pub fn dialled(&mut self, wall_ms: u64, now: Instant) -> Hello {
        self.link = Some(Link {
            session: Session::new(now),
            push_answer: None,
            orders_answer: None,
            given: None,
            held: VecDeque::new(),
            waiting_since: None,
        });
        Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            agent_version: VERSION.to_owned(),
            gateway: self.facts.gateway.clone(),
            name: self.facts.name.clone(),
            labels: self.facts.labels.clone(),
            instance: self.facts.instance.clone(),
            applied: self.lineage.applied.clone(),
            wall_ms,
            previous_session_epoch: self.lineage.session_epoch,
            capabilities: vec![ABILITY_OVERRIDES.to_owned(), ABILITY_DRAIN.to_owned()],
        }
    }

    /// The epoch of its latest session.
    pub fn session_epoch(&self) -> Option<u64> {
        self.lineage.session_epoch
    }

    /// A session is open.
    pub fn is_open(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.session.limits().is_some())
    }

    /// The revision that is being tried.
    pub fn trying(&self) -> Option<u64> {
        self.trial.as_ref().map(|push| push.revision)
    }

    /// The next message is read now, and not left on the connection.
    pub fn reads(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.push_answer.is_none() && link.held.len() < HELD_PUSHES_MAX)
    }

    /// Takes a message.
    ///
    /// # Errors
    ///
    /// The session ends.
    pub fn receive(&mut self, message: FromServer, now: Instant) -> Result<(), Ended> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        match message {
            FromServer::ConfigPush(push) if self.trial.is_some() || !link.held.is_empty() => {
                link.held.push_back(push);
                Ok(())
            }
            message => self.take(message, now),
        }
    }

    fn take(&mut self, message: FromServer, now: Instant) -> Result<(), Ended> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        match link.session.receive(message, &mut self.lineage, now)? {
            Step::None | Step::Opened { .. } => {}
            Step::Answer(answer) => link.push_answer = Some(answer),
            Step::Adopt(push) => self.trial = Some(push),
            Step::Drain(active) => {
                if self.out_of_service != active {
                    self.out_of_service = active;
                    link.session.stir(now);
                }
            }
            Step::Obey(overrides) => self.obey(overrides, now),
        }
        self.stir(now);
        Ok(())
    }

    fn obey(&mut self, overrides: Overrides, now: Instant) {
        let resets = self.orders.set_overrides(&overrides.entries, now);
        for (_, cell) in self.cells.values() {
            if resets.iter().any(|scope| concerns(scope, cell)) {
                cell.reset(now);
            }
        }
        self.reach(now);
        if let Some(link) = &mut self.link {
            link.given = Some(Given::of(overrides));
        }
        self.answer_orders();
    }

    fn answer_orders(&mut self) {
        let unmet = self.orders.unmet(self.cells.values().map(|(_, cell)| cell));
        if let Some(link) = &mut self.link
            && let Some(given) = &link.given
        {
            link.orders_answer = Some(given.answer(&unmet));
        }
    }

    fn reach(&self, now: Instant) {
        self.orders
            .reach(self.cells.values().map(|(_, cell)| cell), now);
    }

    /// What cells tell the report at once.
    fn stir(&mut self, now: Instant) {
        if self.changed.notified().now_or_never().is_some()
            && let Some(link) = &mut self.link
        {
            link.session.stir(now);
        }
    }

    /// Ends the running trial, refusing the revision for `obstacle` if there is one. Returns what the
    /// last-known-good file is to keep.
    pub fn tried(&mut self, obstacle: Option<Problem>, now: Instant) -> Option<Kept> {
        let push = self.trial.take()?;
        let verdict = match obstacle {
            Some(problem) => Err(fit_errors(vec![problem])),
            None => self
                .adopt(&push.document, push.revision, &push.hash, now)
                .map(fit_texts)
                .map_err(fit_errors),
        };
        let applied = verdict.is_ok();
        let link = self.link.as_mut();
        let bereft = self.bereft.take();
        let (answer, link) = match (link, bereft) {
            (_, Some(session)) => (session.judged(&push, verdict, &mut self.lineage), None),
            (Some(link), None) => {
                let answer = link.session.judged(&push, verdict, &mut self.lineage);
                (answer, Some(link))
            }
            (None, None) => return None,
        };
        if let Some(link) = link {
            link.push_answer = Some(answer);
            self.answer_orders();
        }
        self.stir(now);
        let control_epoch = self.lineage.applied.as_ref()?.control_epoch.clone()?;
        applied.then_some(Kept {
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
            gateway: &self.facts.gateway,
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

    /// Does what is due: says the next message if there is room for one on the connection.
    ///
    /// # Errors
    ///
    /// The session ends.
    pub fn speak(
        &mut self,
        room: bool,
        now: Instant,
        jitter: f64,
    ) -> Result<Option<FromAgent>, Ended> {
        if let Some(link) = &mut self.link
            && self.trial.is_none()
            && link.push_answer.is_none()
            && let Some(push) = link.held.pop_front()
        {
            self.take(FromServer::ConfigPush(push), now)?;
        }
        let Some(link) = &mut self.link else {
            return Ok(None);
        };
        let due = link.session.due(now)?;
        if !due && link.push_answer.is_none() && link.orders_answer.is_none() {
            return Ok(None);
        }
        let since = *link.waiting_since.get_or_insert(now);
        if now >= since + STALL_TIMEOUT {
            return Err(Ended {
                reason: "nothing could be sent".to_owned(),
                goodbye: None,
            });
        }
        if !room {
            return Ok(None);
        }
        link.waiting_since = None;
        let answer = link.push_answer.take().map(FromAgent::ConfigResult);
        let answer = answer.or_else(|| link.orders_answer.take().map(FromAgent::OverridesResult));
        Ok(answer.or_else(|| self.report(now, jitter)))
    }

    fn report(&mut self, now: Instant, jitter: f64) -> Option<FromAgent> {
        let link = self.link.as_mut()?;
        let limits = link.session.limits()?;
        let numbered = link.session.number(now, jitter)?;
        let cells = self.cells(now);
        let digest = digest(&cells);
        let (cells, _) = select(cells, numbered.dense, limits);
        Some(FromAgent::Report(Report {
            seq: numbered.seq,
            dense: numbered.dense,
            cells,
            totals: self.totals,
            revision: self.lineage.applied.as_ref().map_or(0, |it| it.revision),
            draining: self.out_of_service,
            digest: Some(digest),
            ..Report::default()
        }))
    }

    /// When [`Agent::speak`] has something to do, if nothing happens until then.
    pub fn wake_at(&self) -> Option<Instant> {
        let link = self.link.as_ref()?;
        let stalled = link.waiting_since.map(|since| since + STALL_TIMEOUT);
        let wake = link.session.wake_at();
        Some(stalled.map_or(wake, |stalled| wake.min(stalled)))
    }

    /// The connection is gone, or none came about. Returns the wait before the next dial; what is
    /// being tried is to end before that as well.
    pub fn hung_up(&mut self, goodbye: Option<&Goodbye>, now: Instant, jitter: f64) -> Duration {
        let link = self.link.take();
        let lasted = link
            .as_ref()
            .map_or(Duration::ZERO, |link| link.session.lasted(now));
        if self.trial.is_some() {
            self.bereft = link.map(|link| link.session);
        }
        self.backoff.ended(lasted);
        self.backoff.wait(goodbye, jitter)
    }
}
