//! One session with the control plane as a plain value: messages and times go in, steps come out.
//! It knows what may be said when, and when a report is due; it knows nothing of sockets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lanekeeper_model::{Advisory, ConfigSource, Problem};
use lanekeeper_proto::limits::{PROTOCOL_MAX, PROTOCOL_MIN};
use lanekeeper_proto::message::{
    ABILITY_PROBE_LEASES, ABILITY_PROVIDER_CELLS, ABILITY_SPARSE, ABILITY_TRANSITIONS,
    AppliedRevision, ConfigOutcome, ConfigPush, ConfigResult, FromServer, Goodbye, Limits,
    Overrides, ProbeLease, ReportAck, Welcome,
};

/// How long a server may take to answer the Hello.
const WELCOME_PATIENCE: Duration = Duration::from_secs(10);
/// Report intervals without an acknowledgement after which the agent leaves.
const MISSING_ACKS_MAX: u32 = 2;
/// Least time between a dense report and one that a server asks for: a list of every cell is expensive, and
/// a server that asks each time gets the others in between.
const DENSE_GAP: Duration = Duration::from_secs(5);
/// Time between dense reports.
const DENSE_INTERVAL: Duration = Duration::from_secs(300);
/// A transition waits this long for others to share its report.
const GATHER: Duration = Duration::from_millis(100);
/// Least time between a report and one that a transition asks for. With [`GATHER`] it keeps a
/// transition's report within a second.
const REPORT_GAP: Duration = Duration::from_millis(900);
/// Shortest and longest report interval that a server can set.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// See [`INTERVAL_MIN`].
const INTERVAL_MAX: Duration = Duration::from_secs(300);
/// Share by which an interval varies, each way.
const INTERVAL_SPREAD: f64 = 0.1;
/// How long a message may wait for a place before the link counts as dead.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Unacknowledged reports whose times are kept. More than the acknowledgement deadline lets stand.
const UNACKED_MAX: usize = 1024;

/// What outlives a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lineage {
    /// The configuration that is served.
    pub(crate) applied: Option<AppliedRevision>,
    /// Epoch of the session before.
    pub(crate) session_epoch: Option<u64>,
}

impl Lineage {
    fn revision(&self) -> u64 {
        self.applied.as_ref().map_or(0, |applied| applied.revision)
    }

    /// The served revision when it was received under `control_epoch`: no push may go below it.
    fn floor(&self, control_epoch: &str) -> u64 {
        self.applied
            .as_ref()
            .filter(|applied| applied.control_epoch.as_deref() == Some(control_epoch))
            .map_or(0, |applied| applied.revision)
    }

    /// Takes in how the trial of a push ended that came under `control_epoch`, and makes the
    /// answer.
    pub(crate) fn tried(
        &mut self,
        push: &ConfigPush,
        control_epoch: Option<String>,
        verdict: Result<Vec<String>, Vec<Problem>>,
    ) -> ConfigResult {
        match verdict {
            Ok(problems) => {
                self.applied = Some(AppliedRevision {
                    revision: push.revision,
                    hash: push.hash.clone(),
                    source: ConfigSource::Live,
                    control_epoch,
                });
                ConfigResult {
                    nonce: push.nonce,
                    outcome: ConfigOutcome::Applied { problems },
                    revision: push.revision,
                    hash: push.hash.clone(),
                    pools: Vec::new(),
                }
            }
            Err(errors) => refusal(push.nonce, errors, self),
        }
    }
}

/// Why the agent ends a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Leave {
    /// The server asked for it.
    #[error("the server said goodbye ({}): {}", .0.reason.as_str(), .0.detail)]
    Goodbye(Goodbye),
    /// The server said something out of place.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The Hello was not answered.
    #[error("the server did not answer the Hello in time")]
    NoWelcome,
    /// Reports were not acknowledged.
    #[error("the server acknowledged no report for {MISSING_ACKS_MAX} intervals")]
    NoAck,
    /// Nothing could be sent.
    #[error("nothing could be sent for {} s", STALL_TIMEOUT.as_secs())]
    Stalled,
}

impl Leave {
    /// The server's goodbye, which may ask for a wait.
    pub fn goodbye(&self) -> Option<&Goodbye> {
        match self {
            Self::Goodbye(goodbye) => Some(goodbye),
            Self::Protocol(_) | Self::NoWelcome | Self::NoAck | Self::Stalled => None,
        }
    }
}

/// What a received message asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The session is open.
    Opened {
        /// The server's newest revision is the one that is served.
        confirmed: bool,
    },
    /// Reports were acknowledged.
    Acknowledged {
        /// The acknowledgement.
        ack: ReportAck,
        /// How long the report took that it names, if that is known.
        took: Option<Duration>,
    },
    /// Try this revision, then call [`Lineage::tried`].
    Adopt(ConfigPush),
    /// Send this answer.
    Answer(ConfigResult),
    /// Put these overrides into force and answer.
    Override(Overrides),
    /// Put these advisories into force.
    Advise(Vec<Advisory>),
    /// Take these answers about probes.
    Leases(ProbeLease),
    /// Go out of service, or come back.
    Drain(bool),
}

/// A report that is due, to be filled with the cells of the moment it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// Its number.
    pub seq: u64,
    /// List every cell.
    pub dense: bool,
    /// The server reads providers' own cells.
    pub provider_cells: bool,
    /// The server stores changes of state.
    pub transitions: bool,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    began: Instant,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    since: Instant,
    control_epoch: String,
    limits: Limits,
    /// The server reads providers' own cells.
    provider_cells: bool,
    /// The server gives leases of probes.
    leases: bool,
    /// The server stores changes of state.
    transitions: bool,
    interval: Duration,
    /// Time between dense reports; `None` when the server does without.
    dense_interval: Option<Duration>,
    next_timed: Instant,
    next_dense: Option<Instant>,
    last_dense: Option<Instant>,
    /// An unscheduled report is wanted from this moment on.
    wanted: Option<Instant>,
    last_sent: Option<Instant>,
    seq: u64,
    /// Number and sending time of unacknowledged reports, oldest first.
    unacked: VecDeque<(u64, Instant)>,
}

impl Session {
    /// A session whose Hello goes out now.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            began: now,
            open: None,
        }
    }

    /// Sizes the server accepts, once it said so.
    pub(crate) fn limits(&self) -> Option<Limits> {
        self.open.as_ref().map(|open| open.limits)
    }

    /// The server gives leases of probes.
    pub(crate) fn leases(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.leases)
    }

    /// The control epoch that the session runs under, once it is open.
    pub(crate) fn control_epoch(&self) -> Option<&str> {
        self.open.as_ref().map(|open| open.control_epoch.as_str())
    }

    /// How long the session has been open.
    pub(crate) fn lasted(&self, now: Instant) -> Duration {
        self.open
            .as_ref()
            .map_or(Duration::ZERO, |open| now.duration_since(open.since))
    }

    /// Takes a message in.
    ///
    /// # Errors
    ///
    /// The session must end.
    pub(crate) fn receive(
        &mut self,
        message: FromServer,
        lineage: &mut Lineage,
        now: Instant,
    ) -> Result<Step, Leave> {
        match (message, &mut self.open) {
            (FromServer::Goodbye(goodbye), _) => Err(Leave::Goodbye(goodbye)),
            (FromServer::Welcome(welcome), open @ None) => {
                let speaks = PROTOCOL_MIN..=PROTOCOL_MAX;
                if !speaks.contains(&welcome.protocol) {
                    return Err(Leave::Protocol(format!(
                        "protocol version {} was not offered",
                        welcome.protocol
                    )));
                }
                lineage.session_epoch = Some(welcome.session_epoch);
                let served = lineage.floor(&welcome.control_epoch);
                let confirmed = served > 0 && served == welcome.target_revision;
                *open = Some(Open::new(welcome, now));
                Ok(Step::Opened { confirmed })
            }
            (FromServer::Welcome(_), Some(_)) => {
                Err(Leave::Protocol("a second Welcome".to_owned()))
            }
            (_, None) => Err(Leave::Protocol("no Welcome at first".to_owned())),
            (FromServer::ConfigPush(push), Some(open)) => {
                let floor = lineage.floor(&open.control_epoch);
                if push.revision >= floor {
                    return Ok(Step::Adopt(push));
                }
                let error = Problem {
                    pointer: String::new(),
                    code: "older_revision".to_owned(),
                    message: format!("the agent serves revision {floor} already"),
                };
                Ok(Step::Answer(refusal(push.nonce, vec![error], lineage)))
            }
            (FromServer::ReportAck(ack), Some(open)) => {
                let took = open.acknowledged(&ack, now);
                Ok(Step::Acknowledged { ack, took })
            }
            (FromServer::Overrides(overrides), Some(_)) => Ok(Step::Override(overrides)),
            (FromServer::Advisories(advisories), Some(_)) => Ok(Step::Advise(advisories)),
            (FromServer::ProbeLeases(lease), Some(_)) => Ok(Step::Leases(lease)),
            (FromServer::Drain(active), Some(_)) => Ok(Step::Drain(active)),
        }
    }

    /// Something changed that the control plane should know within a second.
    pub(crate) fn stir(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            open.want(now + GATHER);
        }
    }

    /// Whether a report is to be sent now.
    ///
    /// # Errors
    ///
    /// The session must end.
    pub(crate) fn due(&self, now: Instant) -> Result<bool, Leave> {
        match &self.open {
            None if now >= self.began + WELCOME_PATIENCE => Err(Leave::NoWelcome),
            None => Ok(false),
            Some(open) if now >= open.ack_deadline() => Err(Leave::NoAck),
            Some(open) => Ok(now >= open.next_report()),
        }
    }

    /// When [`Self::due`] will have a different answer, if nothing is received until then.
    pub(crate) fn wake_at(&self) -> Instant {
        match &self.open {
            None => self.began + WELCOME_PATIENCE,
            Some(open) => open.next_report().min(open.ack_deadline()),
        }
    }

    /// Numbers the report that is being sent, for `jitter` in `[0, 1)`. `None` before the session
    /// is open.
    pub(crate) fn number(&mut self, now: Instant, jitter: f64) -> Option<Numbered> {
        self.open.as_mut().map(|open| open.number(now, jitter))
    }
}

impl Open {
    fn new(welcome: Welcome, now: Instant) -> Self {
        let interval = clamp(welcome.report_interval);
        let is_able = |ability| welcome.capabilities.iter().any(|it| it == ability);
        let is_sparse = is_able(ABILITY_SPARSE);
        let provider_cells = is_able(ABILITY_PROVIDER_CELLS);
        Self {
            provider_cells,
            leases: is_able(ABILITY_PROBE_LEASES),
            transitions: is_able(ABILITY_TRANSITIONS),
            since: now,
            control_epoch: welcome.control_epoch,
            limits: welcome.limits,
            interval,
            dense_interval: (!is_sparse).then_some(DENSE_INTERVAL),
            // A phase beyond the interval would make a healthy agent look silent.
            next_timed: now + welcome.report_phase.min(interval),
            next_dense: (!is_sparse).then_some(now),
            last_dense: None,
            wanted: Some(now),
            last_sent: None,
            seq: 0,
            unacked: VecDeque::new(),
        }
    }

    fn want(&mut self, from: Instant) {
        self.wanted = Some(self.wanted.map_or(from, |wanted| wanted.min(from)));
    }

    fn next_report(&self) -> Instant {
        let gap_ends = self.last_sent.map(|sent| sent + REPORT_GAP);
        let wanted = self
            .wanted
            .map(|wanted| gap_ends.map_or(wanted, |end| wanted.max(end)));
        wanted.map_or(self.next_timed, |wanted| wanted.min(self.next_timed))
    }

    fn ack_deadline(&self) -> Instant {
        let oldest = self.unacked.front().map(|(_, sent)| *sent);
        let patience = self.interval.saturating_mul(MISSING_ACKS_MAX);
        // Without an unacknowledged report the next one starts the clock.
        oldest.unwrap_or_else(|| self.next_report()) + patience
    }

    fn number(&mut self, now: Instant, jitter: f64) -> Numbered {
        let dense = self.next_dense.is_some_and(|due| now >= due);
        if dense {
            self.last_dense = Some(now);
            self.next_dense = self.dense_interval.map(|interval| now + interval);
        }
        if now >= self.next_timed {
            let factor = 1.0 - INTERVAL_SPREAD + 2.0 * INTERVAL_SPREAD * jitter;
            let step = self.interval.mul_f64(factor);
            // The phase is kept, unless the link was blocked for so long that it is lost.
            self.next_timed = (self.next_timed + step).max(now + step / 2);
        }
        self.wanted = None;
        self.last_sent = Some(now);
        self.seq += 1;
        if self.unacked.len() < UNACKED_MAX {
            self.unacked.push_back((self.seq, now));
        }
        Numbered {
            seq: self.seq,
            dense,
            provider_cells: self.provider_cells,
            transitions: self.transitions,
        }
    }

    /// Returns how long the report took that the acknowledgement names. It covers all before it,
    /// whose answers were merged into it.
    fn acknowledged(&mut self, ack: &ReportAck, now: Instant) -> Option<Duration> {
        let mut took = None;
        while let Some((seq, sent)) = self.unacked.front().copied()
            && seq <= ack.seq
        {
            self.unacked.pop_front();
            took = (seq == ack.seq).then(|| now.saturating_duration_since(sent));
        }
        if ack.want_dense {
            let earliest = self
                .last_dense
                .map_or(now, |last| now.max(last + DENSE_GAP));
            self.next_dense = Some(earliest);
            self.want(earliest);
        }
        if let Some(interval) = ack.next_interval.map(clamp) {
            if interval < self.interval {
                self.next_timed = self.next_timed.min(now + interval);
            }
            self.interval = interval;
        }
        took
    }
}

fn clamp(interval: Duration) -> Duration {
    interval.clamp(INTERVAL_MIN, INTERVAL_MAX)
}

/// The answer that refuses a push.
pub(crate) fn refusal(nonce: u64, errors: Vec<Problem>, lineage: &Lineage) -> ConfigResult {
    ConfigResult {
        nonce,
        outcome: ConfigOutcome::Rejected { errors },
        revision: lineage.revision(),
        hash: lineage
            .applied
            .as_ref()
            .map(|applied| applied.hash.clone())
            .unwrap_or_default(),
        pools: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
