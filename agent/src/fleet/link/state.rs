//! The link as a plain value that outlives connections: what was received, what is being tried,
//! which answers wait for a place, when a report is due and when to dial again. Messages and times
//! go in, effects and messages come out. The socket loop, the simulation and the synthetic fleet
//! all drive this one value.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use lanekeeper_model::{Advisory, PoolUsability, Problem};
use lanekeeper_proto::WireError;
use lanekeeper_proto::limits::{PROBE_LEASES_MAX, PROTOCOL_MAX, PROTOCOL_MIN};
use lanekeeper_proto::message::{
    AppliedRevision, ConfigOutcome, ConfigPush, ConfigResult, FromAgent, FromServer, Goodbye,
    Hello, Limits, Overrides, OverridesResult, ProbeLease, ProbeLeaseRequest,
};
use lanekeeper_proto::wire::{ServerMessage, server_message};

use super::overrides::Given;
use crate::fleet::backoff::Backoff;
use crate::fleet::report::{fit_errors, fit_texts, fit_usability};
use crate::fleet::session::{Leave, Lineage, Numbered, STALL_TIMEOUT, Session, Step, refusal};
use crate::status::VERSION;

/// How long a server may take to open the stream.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pushes that wait for the trial of another. A server of ours has one on its way at a time; of one
/// that sends more nothing further is read.
const HELD_PUSHES_MAX: usize = 4;

/// Who an agent is.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The gateway it serves.
    pub gateway: String,
    /// Its display name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Names this process: fresh at each start.
    pub instance: String,
    /// What it can do beside the protocol's core, as the Hello says.
    pub capabilities: Vec<String>,
}

/// A message of the server as far as this version can read it.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Message(FromServer),
    /// A push that is no valid message: it is refused, the session goes on.
    UnreadablePush {
        /// Which push it is.
        nonce: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A message of a later version, to be passed over.
    Unknown,
}

impl Received {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// The session must end.
    pub fn read(message: ServerMessage) -> Result<Self, Leave> {
        let push_nonce = match &message.message {
            Some(server_message::Message::ConfigPush(push)) => Some(push.nonce),
            _ => None,
        };
        let is_advice = matches!(
            &message.message,
            Some(server_message::Message::Advisories(_) | server_message::Message::ProbeLease(_))
        );
        match (FromServer::try_from(message), push_nonce) {
            (Ok(message), _) => Ok(Self::Message(message)),
            // Advice is nothing to end a session for; what was given before ends by itself.
            (Err(error), _) if is_advice => {
                tracing::warn!(%error, "what the fleet advises cannot be read");
                Ok(Self::Unknown)
            }
            (Err(WireError::Empty), _) => Ok(Self::Unknown),
            (Err(error), Some(nonce)) => Ok(Self::UnreadablePush {
                nonce,
                reason: error.to_string(),
            }),
            (Err(error), None) => Err(Leave::Protocol(error.to_string())),
        }
    }

    fn is_push(&self) -> bool {
        match self {
            Self::Message(message) => matches!(message, FromServer::ConfigPush(_)),
            Self::UnreadablePush { .. } => true,
            Self::Unknown => false,
        }
    }
}

/// What a received message asks of the process around the link. The link has seen to the rest.
#[derive(Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// The session is open.
    Opened {
        /// The server's newest revision is the one that is served.
        confirmed: bool,
    },
    /// Try this revision, then call [`Link::tried`].
    Try(ConfigPush),
    /// A push was refused, being older than the served revision.
    RefusedOlder,
    /// A push was refused, being unreadable for this reason.
    RefusedUnreadable(String),
    /// A report was acknowledged.
    Acknowledged {
        /// How long the report took that the acknowledgement names, if that is known.
        took: Option<Duration>,
        /// Number of that report.
        seq: u64,
        /// Why the control plane did not take it, if so.
        refused: Option<String>,
        /// Changes of state up to this number are stored and need not be kept.
        transitions_stored: u64,
    },
    /// Put this set of overrides into force, then call [`Link::answer_overrides`].
    Override(Overrides),
    /// Put this set of advisories into force.
    Advise(Vec<Advisory>),
    /// Take these answers about probes.
    Leases(ProbeLease),
    /// The agent goes out of service, or comes back.
    OutOfService(bool),
}

/// The next message.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, taken apart at once"
)]
pub enum Outgoing {
    /// An answer, as it is.
    Answer(FromAgent),
    /// A report of the cells of this moment, within these limits.
    Report(Numbered, Limits),
}

/// One connection.
#[derive(Debug)]
struct Connection {
    session: Session,
    /// Answer to the last push. Nothing is read while it waits, so one place is enough.
    push_answer: Option<ConfigResult>,
    /// Answer to the overrides of this session; a newer one takes its place.
    overrides_answer: Option<OverridesResult>,
    /// Questions about probes that wait for a place.
    leases: Option<ProbeLeaseRequest>,
    /// Those overrides.
    given: Option<Given>,
    /// Pushes that came while another is tried; answers and revisions keep their order.
    held: VecDeque<Received>,
    /// Since when a message has waited for a place.
    waiting_since: Option<Instant>,
}

/// A revision that is being tried beside the session, which goes on reporting meanwhile: a large
/// document takes seconds on a busy machine, and an agent that serves is not silent.
#[derive(Debug)]
struct Trial {
    push: ConfigPush,
    control_epoch: Option<String>,
}

/// The agent's side of the fleet protocol, from the first dial to the last.
#[derive(Debug)]
pub struct Link {
    facts: Facts,
    lineage: Lineage,
    backoff: Backoff,
    connection: Option<Connection>,
    trial: Option<Trial>,
    out_of_service: bool,
    troubled: bool,
}

impl Link {
    /// The link of a process that serves `applied` so far.
    pub fn new(facts: Facts, applied: Option<AppliedRevision>) -> Self {
        Self {
            facts,
            lineage: Lineage {
                applied,
                session_epoch: None,
            },
            backoff: Backoff::default(),
            connection: None,
            trial: None,
            out_of_service: false,
            troubled: false,
        }
    }

    /// Who the agent is.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The configuration that is served.
    pub fn applied(&self) -> Option<&AppliedRevision> {
        self.lineage.applied.as_ref()
    }

    /// Epoch of the latest session.
    pub fn session_epoch(&self) -> Option<u64> {
        self.lineage.session_epoch
    }

    /// A session is open.
    pub fn is_open(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|it| it.session.limits().is_some())
    }

    /// The last dial led to no session.
    pub fn is_troubled(&self) -> bool {
        self.troubled
    }

    /// An operator took the agent out of service.
    pub fn is_out_of_service(&self) -> bool {
        self.out_of_service
    }

    /// The revision that is being tried.
    pub fn trying(&self) -> Option<u64> {
        self.trial.as_ref().map(|trial| trial.push.revision)
    }

    /// The push that is being tried.
    pub fn pushed(&self) -> Option<ConfigPush> {
        self.trial.as_ref().map(|trial| trial.push.clone())
    }

    /// A connection is up: this message goes out first.
    pub fn dialled(&mut self, wall_ms: u64, now: Instant) -> Hello {
        self.connection = Some(Connection {
            session: Session::new(now),
            push_answer: None,
            overrides_answer: None,
            leases: None,
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
            capabilities: self.facts.capabilities.clone(),
        }
    }

    /// The next message is read now, and not left on the connection.
    pub fn reads(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|it| it.push_answer.is_none() && it.held.len() < HELD_PUSHES_MAX)
    }

    /// Takes a message.
    ///
    /// # Errors
    ///
    /// The session must end.
    pub fn receive(&mut self, received: Received, now: Instant) -> Result<Effect, Leave> {
        if let Some(connection) = &mut self.connection
            && received.is_push()
            && (self.trial.is_some() || !connection.held.is_empty())
        {
            connection.held.push_back(received);
            return Ok(Effect::None);
        }
        self.take_in(received, now)
    }

    /// Takes the next held push, if its turn has come.
    ///
    /// # Errors
    ///
    /// The session must end.
    pub fn next_held(&mut self, now: Instant) -> Result<Option<Effect>, Leave> {
        if let Some(connection) = &mut self.connection
            && self.trial.is_none()
            && connection.push_answer.is_none()
            && let Some(push) = connection.held.pop_front()
        {
            return self.take_in(push, now).map(Some);
        }
        Ok(None)
    }

    fn take_in(&mut self, received: Received, now: Instant) -> Result<Effect, Leave> {
        let Some(connection) = &mut self.connection else {
            return Ok(Effect::None);
        };
        let message = match received {
            Received::Message(message) => message,
            Received::UnreadablePush { nonce, reason } => {
                let errors = vec![Problem::new("", "unreadable", &reason)];
                connection.push_answer = Some(refusal(nonce, fit_errors(errors), &self.lineage));
                return Ok(Effect::RefusedUnreadable(reason));
            }
            Received::Unknown => return Ok(Effect::None),
        };
        let step = connection
            .session
            .receive(message, &mut self.lineage, now)?;
        Ok(match step {
            Step::Opened { confirmed } => Effect::Opened { confirmed },
            Step::Acknowledged { ack, took } => Effect::Acknowledged {
                took,
                seq: ack.seq,
                refused: ack.refused,
                transitions_stored: ack.transitions_stored,
            },
            Step::Answer(answer) => {
                connection.push_answer = Some(answer);
                Effect::RefusedOlder
            }
            Step::Adopt(push) => {
                self.trial = Some(Trial {
                    push: push.clone(),
                    control_epoch: connection.session.control_epoch().map(str::to_owned),
                });
                Effect::Try(push)
            }
            Step::Override(overrides) => {
                connection.given = Some(Given::new(&overrides));
                Effect::Override(overrides)
            }
            Step::Advise(advisories) => Effect::Advise(advisories),
            Step::Leases(lease) => Effect::Leases(lease),
            Step::Drain(active) if self.out_of_service == active => Effect::None,
            Step::Drain(active) => {
                self.out_of_service = active;
                connection.session.stir(now);
                Effect::OutOfService(active)
            }
        })
    }

    /// Ends the running trial: with the problems that did not prevent it, or the errors that did.
    /// Returns the push that was tried. The next Hello names what is applied, even when the session
    /// is over that brought it.
    pub fn tried(&mut self, verdict: Result<Vec<String>, Vec<Problem>>) -> Option<ConfigPush> {
        let Trial {
            push,
            control_epoch,
        } = self.trial.take()?;
        let verdict = verdict.map(fit_texts).map_err(fit_errors);
        let answer = self.lineage.tried(&push, control_epoch, verdict);
        if let Some(connection) = &mut self.connection {
            connection.push_answer = Some(answer);
        }
        Some(push)
    }

    /// Adds to the answer of the trial that just ended which pools lack a member now.
    pub fn answer_pools(&mut self, pools: Vec<PoolUsability>) {
        if let Some(connection) = &mut self.connection
            && let Some(limits) = connection.session.limits()
            && let Some(answer) = &mut connection.push_answer
            && matches!(answer.outcome, ConfigOutcome::Applied { .. })
        {
            answer.pools = fit_usability(pools, limits);
        }
    }

    /// Makes the answer to this session's overrides, given the ids of those that concern no cell
    /// here. To be called again for each new revision, which may have other cells.
    pub fn answer_overrides(&mut self, unmet: &[String]) {
        if let Some(connection) = &mut self.connection
            && let Some(given) = &connection.given
        {
            connection.overrides_answer = Some(given.answer(unmet));
        }
    }

    /// The session is open, and its server gives leases of probes.
    pub fn has_leases(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|it| it.session.leases())
    }

    /// Takes questions about probes, and what leased ones proved, to be sent as soon as there is a
    /// place. Without a server that knows of them they are dropped.
    pub fn put_leases(&mut self, request: ProbeLeaseRequest) {
        if let Some(connection) = &mut self.connection
            && connection.session.leases()
        {
            let waiting = connection.leases.get_or_insert_default();
            waiting.asks.extend(request.asks);
            waiting.verdicts.extend(request.verdicts);
            waiting.returned.extend(request.returned);
            waiting.asks.truncate(PROBE_LEASES_MAX);
            waiting.verdicts.truncate(PROBE_LEASES_MAX);
            waiting.returned.truncate(PROBE_LEASES_MAX);
        }
    }

    /// Something changed that the control plane should know within a second.
    pub fn stir(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection {
            connection.session.stir(now);
        }
    }

    /// Whether a message is to be sent now: call [`Link::next`] as soon as there is a place for it.
    ///
    /// # Errors
    ///
    /// The session must end.
    pub fn due(&mut self, now: Instant) -> Result<bool, Leave> {
        let Some(connection) = &mut self.connection else {
            return Ok(false);
        };
        let report_due = connection.session.due(now)?;
        let answers = connection.push_answer.is_some()
            || connection.overrides_answer.is_some()
            || connection.leases.is_some();
        if !report_due && !answers {
            return Ok(false);
        }
        let since = *connection.waiting_since.get_or_insert(now);
        if now >= since + STALL_TIMEOUT {
            return Err(Leave::Stalled);
        }
        Ok(true)
    }

    /// The message that is due, for `jitter` in `[0, 1)`: answers first. Reports are numbered when
    /// there is a place for them, so a slow link gets fewer and fresher ones.
    pub fn next(&mut self, now: Instant, jitter: f64) -> Option<Outgoing> {
        let connection = self.connection.as_mut()?;
        connection.waiting_since = None;
        if let Some(answer) = connection.push_answer.take() {
            return Some(Outgoing::Answer(FromAgent::ConfigResult(answer)));
        }
        if let Some(answer) = connection.overrides_answer.take() {
            return Some(Outgoing::Answer(FromAgent::OverridesResult(answer)));
        }
        if let Some(leases) = connection.leases.take() {
            return Some(Outgoing::Answer(FromAgent::ProbeLeases(leases)));
        }
        let limits = connection.session.limits()?;
        let numbered = connection.session.number(now, jitter)?;
        Some(Outgoing::Report(numbered, limits))
    }

    /// When [`Link::due`] will have a different answer, if nothing is received until then. `None`
    /// without a connection.
    pub fn wake_at(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let stalled = connection.waiting_since.map(|since| since + STALL_TIMEOUT);
        Some(stalled.unwrap_or_else(|| connection.session.wake_at()))
    }

    /// The connection is gone, or none came about. Returns the wait before the next dial, for
    /// `jitter` in `[0, 1)`; what is being tried is to end before that as well.
    pub fn hung_up(&mut self, goodbye: Option<&Goodbye>, now: Instant, jitter: f64) -> Duration {
        let connection = self.connection.take();
        let lasted = connection.map_or(Duration::ZERO, |it| it.session.lasted(now));
        self.troubled = lasted.is_zero();
        self.backoff.ended(lasted);
        self.backoff.wait(goodbye, jitter)
    }
}
