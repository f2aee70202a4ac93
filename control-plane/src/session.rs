//! One agent's session as a plain value: messages and times go in, effects come out. It knows
//! nothing of sockets, stores or clocks, so that every rule of the protocol is tested by a table.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::fleet::Rejected;
use lanekeeper_model::{AgentRecord, CellReport, ConfigSource, Problem, Report};
use lanekeeper_proto::message::{
    ABILITY_OVERRIDES, ConfigOutcome, ConfigPush, ConfigResult, FromAgent, FromServer, Goodbye,
    GoodbyeReason, Hello, Limits, OverridesResult, ReportAck, Welcome,
};
use lanekeeper_proto::{Unfit, WireError, limits};

use crate::override_watch::StandingOrders;
use crate::target::Target;

mod overrides;
mod record;

use overrides::Orders;
use record::{phase, record, states};

#[cfg(test)]
mod tests;

/// Report intervals an agent may stay silent before the server leaves.
const SILENT_INTERVALS: u32 = 3;
/// How long a push may go unanswered before a newer one may follow it. Compiling the largest
/// document takes well under a second; the rest is for a starved agent.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The numbers a session runs by.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// How often an agent is told to report.
    pub(crate) report_interval: Duration,
    /// How old a report makes an agent stale.
    pub(crate) stale_after: Duration,
}

/// What the server knows when a Hello arrives.
#[derive(Debug)]
pub(crate) struct Opening {
    /// This session's place among all sessions of the instance.
    pub(crate) session_epoch: u64,
    /// The database's history.
    pub(crate) control_epoch: String,
    /// The gateway's newest revision; `None` while there is no such gateway.
    pub(crate) head: Option<u64>,
    /// What the gateway's agents shall serve; `None` also while the document has not been read.
    pub(crate) target: Option<Arc<Target>>,
    /// The operators' orders for the gateway's agents; `None` while they have not been read.
    pub(crate) orders: Option<Arc<StandingOrders>>,
    /// Monotonic time.
    pub(crate) now: Instant,
    /// Unix milliseconds by the server's clock.
    pub(crate) now_ms: u64,
}

/// What a session wants done, in order.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Send this.
    Send(FromServer),
    /// The record changed: write it to the live view. `notable` when watchers should look now.
    Record {
        /// Something a person would want to see at once.
        notable: bool,
    },
    /// The lasting facts about the agent changed: write them to the store.
    Facts,
    /// A push was answered after this long.
    Answered {
        /// From the push to the answer.
        took: Duration,
        /// The agent took it.
        applied: bool,
    },
    /// A set of overrides was answered after this long.
    Obeyed {
        /// From sending the set to the answer.
        took: Duration,
    },
    /// A report came in.
    Reported(Reported),
    /// The session is over once everything before is sent.
    Close,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reported {
    /// It is the newest word.
    Accepted,
    /// A later one was taken before.
    Older,
    /// It could not be read.
    Refused,
}

/// The stream broke the protocol: nothing in-band can mend it, so it ends with an error status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The first message is no Hello.
    #[error("the first message must be a Hello")]
    Unannounced,
    /// The first message cannot be read.
    #[error("{0}")]
    Unreadable(WireError),
    /// A Hello came later.
    #[error("a second Hello")]
    Repeated,
}

/// Takes the first message of a stream.
///
/// # Errors
///
/// [`Fault`] unless it is a Hello that can be read.
pub(crate) fn first(message: Result<FromAgent, Unfit>) -> Result<Hello, Fault> {
    match message {
        Ok(FromAgent::Hello(hello)) => Ok(hello),
        Ok(
            FromAgent::ConfigResult(_)
            | FromAgent::Report(_)
            | FromAgent::OverridesResult(_)
            | FromAgent::Bye(_),
        ) => Err(Fault::Unannounced),
        Err(unfit) if unfit.report_seq.is_some() => Err(Fault::Unannounced),
        Err(unfit) => Err(Fault::Unreadable(unfit.error)),
    }
}

/// The protocol version to speak with an agent, or the farewell when there is none.
pub(crate) fn negotiate(hello: &Hello) -> Result<u32, Goodbye> {
    let highest = hello.protocol_max.min(limits::PROTOCOL_MAX);
    if highest < hello.protocol_min.max(limits::PROTOCOL_MIN) {
        return Err(Goodbye {
            reason: GoodbyeReason::Protocol,
            detail: format!(
                "this server speaks protocol {} to {}, the agent {} to {}",
                limits::PROTOCOL_MIN,
                limits::PROTOCOL_MAX,
                hello.protocol_min,
                hello.protocol_max
            ),
            reconnect_after: Duration::from_secs(60),
            jitter: Duration::from_secs(60),
        });
    }
    Ok(highest)
}

/// An open session.
#[derive(Debug)]
pub(crate) struct Session {
    record: AgentRecord,
    /// The applied revision was received under this control epoch, so its number may be compared.
    same_history: bool,
    target: Option<Arc<Target>>,
    in_flight: Option<InFlight>,
    orders: Orders,
    /// The agent was told that it is out of service.
    drained: bool,
    /// What this agent refused in this session. Forgotten with the session: after a reconnect the
    /// same revision is tried again.
    refused: Option<(u64, String)>,
    nonce: u64,
    last_heard: Instant,
    silent_after: Duration,
    closed: bool,
}

#[derive(Debug)]
struct InFlight {
    nonce: u64,
    revision: u64,
    hash: String,
    sent: Instant,
    overdue: bool,
}

impl Session {
    /// Opens a session for a Hello whose protocol was negotiated.
    pub(crate) fn open(
        hello: Hello,
        protocol: u32,
        rules: &Rules,
        opening: Opening,
    ) -> (Self, Vec<Effect>) {
        let phase = phase(&hello.instance, rules.report_interval);
        let same_history = hello
            .applied
            .as_ref()
            .is_some_and(|applied| applied.control_epoch.as_ref() == Some(&opening.control_epoch));
        let welcome = Welcome {
            session_epoch: opening.session_epoch,
            control_epoch: opening.control_epoch,
            report_interval: rules.report_interval,
            report_phase: phase,
            stale_after: rules.stale_after,
            target_revision: opening.head.unwrap_or(0),
            protocol,
            gateway_exists: opening.head.is_some(),
            limits: Limits {
                message_bytes: u32::try_from(limits::MESSAGE_BYTES_MAX).unwrap_or(u32::MAX),
                report_cells: u32::try_from(limits::REPORT_CELLS_MAX).unwrap_or(u32::MAX),
            },
            capabilities: vec![ABILITY_OVERRIDES.to_owned()],
        };
        let mut session = Self {
            record: record(hello, opening.session_epoch, opening.now_ms),
            same_history,
            target: opening.target,
            in_flight: None,
            orders: Orders::new(opening.orders),
            drained: false,
            refused: None,
            nonce: 0,
            last_heard: opening.now,
            silent_after: rules.report_interval.saturating_mul(SILENT_INTERVALS),
            closed: false,
        };
        let mut effects = vec![
            Effect::Send(FromServer::Welcome(welcome)),
            Effect::Record { notable: true },
            Effect::Facts,
        ];
        effects.extend(session.push(opening.now));
        effects.extend(session.order(opening.now, opening.now_ms));
        (session, effects)
    }

    /// What the control plane knows about the agent now.
    pub(crate) fn record(&self) -> &AgentRecord {
        &self.record
    }

    /// The session is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes one message.
    ///
    /// # Errors
    ///
    /// [`Fault`] when the stream cannot go on.
    pub(crate) fn receive(
        &mut self,
        message: Result<FromAgent, Unfit>,
        now: Instant,
        now_ms: u64,
    ) -> Result<Vec<Effect>, Fault> {
        self.last_heard = now;
        let mut effects = self.take(message, now, now_ms)?;
        effects.extend(self.order(now, now_ms));
        Ok(effects)
    }

    fn take(
        &mut self,
        message: Result<FromAgent, Unfit>,
        now: Instant,
        now_ms: u64,
    ) -> Result<Vec<Effect>, Fault> {
        match message {
            Ok(FromAgent::Hello(_)) => Err(Fault::Repeated),
            Ok(FromAgent::ConfigResult(result)) => Ok(self.answered(result, now)),
            Ok(FromAgent::Report(report)) => Ok(self.reported(report, now_ms)),
            Ok(FromAgent::OverridesResult(result)) => Ok(self.obeyed(result, now, now_ms)),
            Ok(FromAgent::Bye(_)) => {
                self.record.left = true;
                self.closed = true;
                Ok(vec![
                    Effect::Record { notable: true },
                    Effect::Facts,
                    Effect::Close,
                ])
            }
            Err(unfit) => Ok(self.unfit(unfit)),
        }
    }

    /// Takes the newest known revision, or its absence: an agent keeps what it has when its
    /// gateway goes.
    pub(crate) fn aim(&mut self, target: Option<Arc<Target>>, now: Instant) -> Vec<Effect> {
        self.target = target;
        self.push(now).into_iter().collect()
    }

    /// Takes whether the agent is out of service.
    pub(crate) fn drain(&mut self, active: bool) -> Vec<Effect> {
        if self.closed || self.drained == active {
            return Vec::new();
        }
        self.drained = active;
        vec![Effect::Send(FromServer::Drain(active))]
    }

    /// Takes the operators' orders for the gateway's agents.
    pub(crate) fn command(
        &mut self,
        orders: Option<Arc<StandingOrders>>,
        now: Instant,
        now_ms: u64,
    ) -> Vec<Effect> {
        self.orders.replace(orders);
        self.order(now, now_ms).into_iter().collect()
    }

    /// Looks at the clock.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if now.saturating_duration_since(self.last_heard) >= self.silent_after {
            return self.leave(Goodbye {
                reason: GoodbyeReason::Silent,
                detail: format!("nothing was heard for {} s", self.silent_after.as_secs()),
                reconnect_after: Duration::ZERO,
                jitter: Duration::from_secs(1),
            });
        }
        if let Some(push) = self.in_flight.as_mut()
            && !push.overdue
            && now.saturating_duration_since(push.sent) >= ANSWER_TIMEOUT
        {
            push.overdue = true;
            self.record.last_error = Some(Rejected {
                revision: push.revision,
                errors: vec![Problem::new("", "unanswered", "the agent did not answer")],
            });
            effects.push(Effect::Record { notable: true });
        }
        effects.extend(self.push(now));
        effects
    }

    /// When [`Session::tick`] has something to look at next.
    pub(crate) fn next_tick(&self) -> Instant {
        let silent = self.last_heard + self.silent_after;
        match &self.in_flight {
            Some(push) if !push.overdue => silent.min(push.sent + ANSWER_TIMEOUT),
            Some(_) | None => silent,
        }
    }

    /// Ends the session from this side.
    pub(crate) fn leave(&mut self, goodbye: Goodbye) -> Vec<Effect> {
        self.closed = true;
        vec![Effect::Send(FromServer::Goodbye(goodbye)), Effect::Close]
    }

    fn answered(&mut self, result: ConfigResult, now: Instant) -> Vec<Effect> {
        let Some(push) = self.in_flight.take_if(|push| push.nonce == result.nonce) else {
            return Vec::new();
        };
        let applied = match result.outcome {
            ConfigOutcome::Applied { problems } => {
                self.same_history = true;
                self.record.applied_revision = result.revision;
                self.record.applied_hash = result.hash;
                self.record.config_source = ConfigSource::Live;
                self.record.problems = problems;
                self.record.last_error = None;
                true
            }
            ConfigOutcome::Rejected { errors } => {
                self.record.last_error = Some(Rejected {
                    revision: push.revision,
                    errors,
                });
                self.refused = Some((push.revision, push.hash));
                false
            }
        };
        let mut effects = vec![
            Effect::Answered {
                took: now.saturating_duration_since(push.sent),
                applied,
            },
            Effect::Record { notable: true },
            Effect::Facts,
        ];
        effects.extend(self.push(now));
        effects
    }

    fn obeyed(&mut self, result: OverridesResult, now: Instant, now_ms: u64) -> Vec<Effect> {
        let held = &mut self.record.overrides;
        let Some(obeyed) = self.orders.answered(result, held, now, now_ms) else {
            return Vec::new();
        };
        let took = obeyed.took.map(|took| Effect::Obeyed { took });
        let changed = obeyed.changed.then_some(Effect::Record { notable: true });
        took.into_iter().chain(changed).collect()
    }

    /// Sends the operators' orders if the agent lacks them.
    fn order(&mut self, now: Instant, now_ms: u64) -> Option<Effect> {
        if self.closed || !self.record.overrides.understood {
            return None;
        }
        let overrides = self.orders.next(&self.record.labels, now, now_ms)?;
        Some(Effect::Send(FromServer::Overrides(overrides)))
    }

    fn reported(&mut self, report: Report, now_ms: u64) -> Vec<Effect> {
        let seq = report.seq;
        if seq <= self.record.seq {
            return vec![Effect::Reported(Reported::Older), ack(seq, None)];
        }
        let notable = self.record.draining != report.draining
            || self.record.problems != report.problems
            || self.record.report_received_ms.is_none()
            || states(&self.record.cells).ne(states(&report.cells));
        self.record.seq = seq;
        self.record.report_received_ms = Some(now_ms);
        self.record.draining = report.draining;
        self.record.problems = report.problems;
        // A plainly closed cell says no more than one that is not listed, and a dense report lists
        // hundreds of them.
        self.record.cells = report.cells;
        self.record.cells.retain(CellReport::is_notable);
        self.record.cells.shrink_to_fit();
        self.record.totals = report.totals;
        vec![
            Effect::Reported(Reported::Accepted),
            Effect::Record { notable },
            ack(seq, None),
        ]
    }

    /// A report that cannot be read leaves the record's age alone, so the agent turns stale rather
    /// than look well; the session goes on, since a new one would meet the same report.
    fn unfit(&mut self, unfit: Unfit) -> Vec<Effect> {
        let Some(seq) = unfit.report_seq else {
            return Vec::new();
        };
        let reason = unfit.to_string();
        let problem = format!("a report was refused: {reason}");
        let mut effects = vec![Effect::Reported(Reported::Refused)];
        if !self.record.problems.contains(&problem) {
            self.record.problems = vec![problem];
            effects.push(Effect::Record { notable: true });
        }
        effects.push(ack(seq, Some(reason)));
        effects
    }

    /// Pushes the target if the agent lacks it and nothing forbids it.
    fn push(&mut self, now: Instant) -> Option<Effect> {
        if self.closed || self.in_flight.as_ref().is_some_and(|push| !push.overdue) {
            return None;
        }
        let target = self.target.clone()?;
        let wanted = (target.revision, target.hash.as_str());
        let known = |(revision, hash): (u64, &str)| (revision, hash) == wanted;
        let unanswered = self
            .in_flight
            .as_ref()
            .is_some_and(|push| known((push.revision, &push.hash)));
        let refused = self
            .refused
            .as_ref()
            .is_some_and(|(revision, hash)| known((*revision, hash)));
        let applied = (
            self.record.applied_revision,
            self.record.applied_hash.as_str(),
        );
        // Within one history an agent never goes back: a lower head is a view that lags behind.
        let backwards = self.same_history && target.revision < self.record.applied_revision;
        if unanswered || refused || backwards || (self.same_history && known(applied)) {
            return None;
        }
        self.nonce += 1;
        self.in_flight = Some(InFlight {
            nonce: self.nonce,
            revision: target.revision,
            hash: target.hash.clone(),
            sent: now,
            overdue: false,
        });
        Some(Effect::Send(FromServer::ConfigPush(ConfigPush {
            nonce: self.nonce,
            revision: target.revision,
            document: target.document.clone(),
            hash: target.hash.clone(),
        })))
    }
}

fn ack(seq: u64, refused: Option<String>) -> Effect {
    Effect::Send(FromServer::ReportAck(ReportAck {
        seq,
        want_dense: false,
        next_interval: None,
        refused,
    }))
}
