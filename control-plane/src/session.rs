//! One agent's session as a plain value: messages and times go in, effects come out. It knows
//! nothing of sockets, stores or clocks, so that every rule of the protocol is tested by a table.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::fleet::Rejected;
use lanekeeper_model::transition::TimelineEntry;
use lanekeeper_model::{AgentRecord, CellReport, PoolName, PoolTraffic, Problem, Report};
use lanekeeper_proto::message::{
    ABILITY_ADVISORIES, ABILITY_DRAIN, ABILITY_OVERRIDES, ABILITY_PROBE_LEASES,
    ABILITY_PROVIDER_CELLS, ABILITY_SPARSE, ABILITY_TRANSITIONS, FromAgent, FromServer, Goodbye,
    GoodbyeReason, Hello, Limits, OverridesResult, ProbeLease, ProbeLeaseRequest, Welcome,
};
use lanekeeper_proto::{Unfit, limits};

use crate::session::advice::AdviceSet;
use crate::session::overrides::ActiveOverrides;
use crate::session::target::Target;

pub(crate) mod advice;
mod asks;
mod greeting;
mod notes;
pub(crate) mod overrides;
pub(crate) mod pools;
mod push;
mod record;
pub(crate) mod target;

use advice::SessionAdvice;
use asks::{Asks, is_in_doubt};
pub(crate) use greeting::{Fault, first, negotiate};
use notes::Notes;
use overrides::SessionOverrides;
use pools::DocumentNames;
use push::InFlight;
use record::{phase, record, states, transitions, unreadable, without_report};

#[cfg(test)]
mod tests;

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
    /// What the gateway's agents must serve; `None` also while the document has not been read.
    pub(crate) target: Option<Arc<Target>>,
    /// The operators' overrides for the gateway's agents; `None` while they have not been read.
    pub(crate) overrides: Option<Arc<ActiveOverrides>>,
    /// What the fleet advises the gateway's agents; `None` while nothing is known.
    pub(crate) advice: Option<Arc<AdviceSet>>,
    /// Whose certificate the agent came with; `None` where sessions carry none.
    pub(crate) identity: Option<String>,
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
    /// Ask these leases of probes, or give them back.
    Leases(ProbeLeaseRequest),
    /// A report came in.
    Reported(Reported),
    /// It said what came of requests, by pool.
    Traffic {
        /// What came of them since the report before.
        pools: Vec<(PoolName, PoolTraffic)>,
        /// How long ago that was.
        over: Duration,
    },
    /// A report brought changes of state, in order: store those that are not stored yet.
    Transitions(Vec<TimelineEntry>),
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

/// An open session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Shared with those who write it; a change makes a copy while they do.
    record: Arc<AgentRecord>,
    /// The applied revision was received under this control epoch, so its number may be compared.
    same_history: bool,
    target: Option<Arc<Target>>,
    in_flight: Option<InFlight>,
    overrides: SessionOverrides,
    advice: SessionAdvice,
    /// The agent makes one probe with the others.
    leases: bool,
    /// What lasting things are measured by.
    report_interval: Duration,
    asks: Asks,
    notes: Notes,
    /// The agent understands that it is taken out of service.
    drains: bool,
    /// What it was last sent about that; `None` while that was in an earlier session.
    drained: Option<bool>,
    /// What this agent refused in this session. Forgotten with the session: after a reconnect the
    /// same revision is tried again.
    refused: Option<(u64, String)>,
    nonce: u64,
    last_heard: Instant,
    closed: bool,
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
            capabilities: vec![
                ABILITY_OVERRIDES.to_owned(),
                ABILITY_SPARSE.to_owned(),
                ABILITY_PROVIDER_CELLS.to_owned(),
                ABILITY_PROBE_LEASES.to_owned(),
                ABILITY_TRANSITIONS.to_owned(),
            ],
        };
        let advised = hello.capabilities.iter().any(|it| it == ABILITY_ADVISORIES);
        let leases = hello
            .capabilities
            .iter()
            .any(|it| it == ABILITY_PROBE_LEASES);
        let advice = SessionAdvice::new(advised, hello.previous_session_epoch.is_none());
        let drains = hello.capabilities.iter().any(|it| it == ABILITY_DRAIN);
        // An agent stays drained from one session to the next, also when it was taken back
        // meanwhile.
        let drained = hello.previous_session_epoch.is_none().then_some(false);
        let mut session = Self {
            record: Arc::new(AgentRecord {
                identity: opening.identity,
                ..record(hello, opening.session_epoch, opening.now_ms)
            }),
            same_history,
            target: opening.target,
            in_flight: None,
            overrides: SessionOverrides::new(opening.overrides),
            advice,
            leases,
            report_interval: rules.report_interval,
            asks: Asks::new(rules.report_interval),
            notes: Notes::default(),
            drains,
            drained,
            refused: None,
            nonce: 0,
            last_heard: opening.now,
            closed: false,
        };
        let mut effects = vec![
            Effect::Send(FromServer::Welcome(welcome)),
            Effect::Record { notable: true },
            Effect::Facts,
        ];
        effects.extend(session.push(opening.now));
        effects.extend(session.order(opening.now, opening.now_ms));
        effects.extend(session.set_advice(opening.advice, opening.now));
        (session, effects)
    }

    /// What the control plane knows about the agent now.
    pub(crate) fn record(&self) -> &Arc<AgentRecord> {
        &self.record
    }

    /// What the document that the agent serves names, as far as it is known here.
    fn names(&self) -> Option<&DocumentNames> {
        let served = self.target.as_ref();
        let served = served.filter(|it| it.revision == self.record.applied_revision);
        served.map(|target| &target.names)
    }

    fn changed(&mut self) -> &mut AgentRecord {
        Arc::make_mut(&mut self.record)
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
            Ok(FromAgent::Report(report)) => Ok(self.reported(report, now, now_ms)),
            Ok(FromAgent::OverridesResult(result)) => Ok(self.obeyed(result, now, now_ms)),
            Ok(FromAgent::ProbeLeases(request)) => Ok(vec![Effect::Leases(request)]),
            Ok(FromAgent::Bye(_)) => {
                self.changed().left = true;
                self.closed = true;
                Ok(vec![
                    Effect::Record { notable: true },
                    Effect::Facts,
                    Effect::Close,
                ])
            }
            Err(unfit) => Ok(self.unfit(unfit, now)),
        }
    }

    /// Takes the newest known revision, or its absence: an agent keeps what it has when its
    /// gateway goes.
    pub(crate) fn set_target(&mut self, target: Option<Arc<Target>>, now: Instant) -> Vec<Effect> {
        self.target = target;
        self.push(now).into_iter().collect()
    }

    /// Takes how often the agent must report from now on.
    pub(crate) fn set_report_interval(&mut self, interval: Duration) {
        self.asks.want_interval(interval);
    }

    /// Takes up to which number the agent's changes of state are stored.
    pub(crate) fn set_transitions_stored(&mut self, through: u64) {
        self.asks.set_transitions_stored(through);
    }

    /// Takes whether the agent is out of service.
    pub(crate) fn drain(&mut self, active: bool, now: Instant) -> Vec<Effect> {
        if self.closed || self.drained == Some(active) {
            return Vec::new();
        }
        self.drained = Some(active);
        if self.drains {
            return vec![Effect::Send(FromServer::Drain(active))];
        }
        self.notes.undrainable(active);
        self.refresh_problems(now)
    }

    /// Takes that a living copy of the agent was turned away, here or elsewhere.
    pub(crate) fn on_duplicate(&mut self, now: Instant) -> Vec<Effect> {
        self.notes.duplicate(now);
        self.refresh_problems(now)
    }

    fn refresh_problems(&mut self, now: Instant) -> Vec<Effect> {
        let problems = self.notes.beside(self.record.problems.clone(), now);
        if problems == self.record.problems {
            return Vec::new();
        }
        self.changed().problems = problems;
        vec![Effect::Record { notable: true }]
    }

    /// Takes the operators' overrides for the gateway's agents.
    pub(crate) fn set_overrides(
        &mut self,
        overrides: Option<Arc<ActiveOverrides>>,
        now: Instant,
        now_ms: u64,
    ) -> Vec<Effect> {
        self.overrides.replace(overrides);
        self.order(now, now_ms).into_iter().collect()
    }

    /// Passes answers about probes on, if the agent knows of them.
    pub(crate) fn pass_leases(&self, lease: ProbeLease) -> Option<Effect> {
        let is_empty = lease.answers.is_empty() && lease.verdicts.is_empty();
        let passes = self.leases && !self.closed && !is_empty;
        passes.then_some(Effect::Send(FromServer::ProbeLeases(lease)))
    }

    /// Takes what the fleet advises the gateway's agents.
    pub(crate) fn set_advice(
        &mut self,
        advice: Option<Arc<AdviceSet>>,
        now: Instant,
    ) -> Option<Effect> {
        self.advice.replace(advice);
        if self.closed {
            return None;
        }
        let advisories = self.advice.next(self.report_interval, now)?;
        Some(Effect::Send(FromServer::Advisories(advisories)))
    }

    /// Looks at the clock.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        let silence_max = self.asks.silence_max();
        if now.saturating_duration_since(self.last_heard) >= silence_max {
            return self.leave(Goodbye {
                reason: GoodbyeReason::Silent,
                detail: format!("nothing was heard for {} s", silence_max.as_secs()),
                reconnect_after: Duration::ZERO,
                jitter: Duration::from_secs(1),
            });
        }
        if let Some(push) = self.in_flight.as_mut()
            && !push.overdue
            && now.saturating_duration_since(push.sent) >= ANSWER_TIMEOUT
        {
            push.overdue = true;
            let revision = push.revision;
            self.changed().last_error = Some(Rejected {
                revision,
                errors: vec![Problem::new("", "unanswered", "the agent did not answer")],
            });
            effects.push(Effect::Record { notable: true });
        }
        effects.extend(self.push(now));
        effects
    }

    /// When [`Session::tick`] has something to look at next.
    pub(crate) fn next_tick(&self) -> Instant {
        let silent = self.last_heard + self.asks.silence_max();
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

    fn obeyed(&mut self, result: OverridesResult, now: Instant, now_ms: u64) -> Vec<Effect> {
        let held = &mut Arc::make_mut(&mut self.record).overrides;
        let Some(obeyed) = self.overrides.answered(result, held, now, now_ms) else {
            return Vec::new();
        };
        let took = obeyed.took.map(|took| Effect::Obeyed { took });
        let changed = obeyed.changed.then_some(Effect::Record { notable: true });
        took.into_iter().chain(changed).collect()
    }

    /// Sends the operators' overrides if the agent lacks them.
    fn order(&mut self, now: Instant, now_ms: u64) -> Option<Effect> {
        if self.closed || !self.record.overrides.understood {
            return None;
        }
        let overrides = self.overrides.next(&self.record.labels, now, now_ms)?;
        Some(Effect::Send(FromServer::Overrides(overrides)))
    }

    fn reported(&mut self, mut report: Report, now: Instant, now_ms: u64) -> Vec<Effect> {
        let seq = report.seq;
        let transitions = transitions(&self.record, &mut report, now_ms);
        if seq <= self.record.seq {
            let ack = self.asks.ack(seq, None, false, now);
            let older = [Effect::Reported(Reported::Older), ack];
            return transitions.into_iter().chain(older).collect();
        }
        let in_doubt = is_in_doubt(self.record.seq, &report);
        let said = pools::split(report.pools, self.names());
        let mut problems = report.problems;
        if said.is_foreign {
            problems.push(pools::FOREIGN.to_owned());
        }
        let problems = self.notes.beside(problems, now);
        let notable = self.record.draining != report.draining
            || self.record.problems != problems
            || self.record.report_received_ms.is_none()
            || states(&self.record.cells).ne(states(&report.cells))
            || pools::lacks(&self.record.pools).ne(pools::lacks(&said.usability));
        // A plainly closed cell says no more than one that is not listed, and a dense report lists
        // hundreds of them.
        let mut cells = report.cells;
        cells.retain(CellReport::is_notable);
        cells.shrink_to_fit();
        self.record = Arc::new(AgentRecord {
            seq,
            report_received_ms: Some(now_ms),
            draining: report.draining,
            problems,
            cells,
            pools: said.usability,
            totals: report.totals,
            ..without_report(&self.record)
        });
        let mut effects: Vec<Effect> = transitions.into_iter().collect();
        effects.push(Effect::Reported(Reported::Accepted));
        effects.push(Effect::Record { notable });
        if !said.traffic.is_empty() {
            effects.push(Effect::Traffic {
                pools: said.traffic,
                over: Duration::from_millis(report.pools_over_ms),
            });
        }
        effects.push(self.asks.ack(seq, None, in_doubt, now));
        effects
    }

    /// A report that cannot be read leaves the record's age alone, so the agent turns stale rather
    /// than look well; the session goes on, since a new one would meet the same report.
    fn unfit(&mut self, unfit: Unfit, now: Instant) -> Vec<Effect> {
        if let Some(nonce) = unfit.push_nonce {
            return self.answered(unreadable(nonce, &unfit, &self.record), now);
        }
        let Some(seq) = unfit.report_seq else {
            return Vec::new();
        };
        let reason = unfit.to_string();
        let problem = format!("a report was refused: {reason}");
        let mut effects = vec![Effect::Reported(Reported::Refused)];
        if !self.record.problems.contains(&problem) {
            self.changed().problems = vec![problem];
            effects.push(Effect::Record { notable: true });
        }
        effects.push(self.asks.ack(seq, Some(reason), true, now));
        effects
    }
}
