//! One session over one connection: moves messages between the stream and [`Session`].

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::{ConfigSource, Problem};
use lanekeeper_proto::limits::{MESSAGE_BYTES_MAX, PROTOCOL_MAX, PROTOCOL_MIN};
use lanekeeper_proto::message::{
    ABILITY_DRAIN, ABILITY_OVERRIDES, Bye, ConfigPush, ConfigResult, FromAgent, FromServer,
    Goodbye, Hello, OverridesResult,
};
use lanekeeper_proto::wire::{AgentMessage, ServerMessage, server_message};
use lanekeeper_proto::{FleetClient, WireError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status as GrpcStatus, Streaming};

use super::Control;
use super::dial::DialError;
use super::overrides::Given;
use super::report::{build, fit_errors, fit_texts};
use super::session::{Leave, Session, Step, refusal};
use crate::clock;
use crate::plane::Plane;
use crate::revision::adopt::{Adopted, Expected};
use crate::revision::cache::Entry;
use crate::status::{Topic, VERSION};

/// How long the server may take to open the stream.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last message gets to leave the machine.
const BYE_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that wait for the network. Reports are built when one of these places is free, so a
/// slow link gets fewer and fresher ones.
const OUTBOUND_MAX: usize = 2;
/// Pushes that wait for the trial of another. A server of ours has one on its way at a time; of one
/// that sends more nothing further is read.
pub(super) const HELD_PUSHES_MAX: usize = 4;
/// How long a message may wait for a place before the link counts as dead.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// No connection came about.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The stream was not opened or broke.
    #[error("the stream broke: {}", .0.message())]
    Stream(#[source] GrpcStatus),
    /// The server took too long to open the stream.
    #[error("the server did not open the stream in time")]
    Slow,
    /// The server closed the stream without a word.
    #[error("the server closed the stream")]
    Closed,
    /// Nothing could be sent for too long.
    #[error("nothing could be sent for {} s", STALL_TIMEOUT.as_secs())]
    Stalled,
    /// A rule of the protocol says so.
    #[error(transparent)]
    Left(#[from] Leave),
    /// The agent stops; it has said goodbye.
    #[error("the agent stops")]
    Stopped,
}

impl Ended {
    /// The server's farewell, which may order a wait.
    pub(super) fn goodbye(&self) -> Option<&Goodbye> {
        match self {
            Self::Left(Leave::Goodbye(goodbye)) => Some(goodbye),
            _ => None,
        }
    }
}

/// Where messages go out.
struct Outbound {
    queue: mpsc::Sender<AgentMessage>,
    answers: Answers,
    /// Since when a message has waited for a place.
    waiting_since: Option<Instant>,
}

/// The answers that wait for a place.
#[derive(Default)]
struct Answers {
    /// To the last push. Nothing is read while it waits, so one place is enough.
    push: Option<ConfigResult>,
    /// To the orders that this session was given; a newer one takes its place.
    orders: Option<OverridesResult>,
    /// Those orders.
    given: Option<Given>,
}

impl Answers {
    /// Words the answer to the orders anew, as a new revision may have other cells.
    fn answer_orders(&mut self, plane: &Plane) {
        if let Some(given) = &self.given {
            self.orders = Some(given.answer(&plane.unmet_overrides()));
        }
    }

    fn wait(&self) -> bool {
        self.push.is_some() || self.orders.is_some()
    }

    /// The next one.
    fn take(&mut self) -> Option<FromAgent> {
        let push = self.push.take().map(FromAgent::ConfigResult);
        push.or_else(|| self.orders.take().map(FromAgent::OverridesResult))
    }
}

/// A revision that is being tried beside the session, which goes on reporting meanwhile: a large
/// document takes seconds on a busy machine, and an agent that serves is not silent.
struct Trial {
    push: ConfigPush,
    task: JoinHandle<Result<Adopted, Vec<Problem>>>,
}

/// The end of the running trial; never when there is none.
async fn finished(trial: &mut Option<Trial>) -> Result<Adopted, Vec<Problem>> {
    match trial {
        Some(trial) => (&mut trial.task)
            .await
            .unwrap_or_else(|error| Err(super::failed_task(&error))),
        None => std::future::pending().await,
    }
}

/// What a received message leads to.
enum Taken {
    Nothing,
    Answer(ConfigResult),
    Trial(Trial),
    Orders(Given),
}

fn is_push(message: &ServerMessage) -> bool {
    matches!(
        message.message,
        Some(server_message::Message::ConfigPush(_))
    )
}

impl Control {
    /// Runs one session to its end. `lasted` is told how long it was open.
    pub(super) async fn run_session(&mut self, channel: Channel, lasted: &mut Duration) -> Ended {
        let mut session = Session::new(clock::now());
        let stop = self.stop.clone();
        let opened = tokio::select! {
            () = stop.cancelled() => Err(Ended::Stopped),
            opened = self.open(channel) => opened,
        };
        let ended = match opened {
            Ok((mut inbound, outbound)) => {
                let ended = self.exchange(&mut session, &mut inbound, outbound).await;
                *lasted = session.lasted(clock::now());
                ended
            }
            Err(ended) => ended,
        };
        self.status.set_connected(false);
        ended
    }

    async fn open(&self, channel: Channel) -> Result<(Streaming<ServerMessage>, Outbound), Ended> {
        let (queue, messages) = mpsc::channel(OUTBOUND_MAX);
        let mut client = FleetClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        // The first message waits in the queue, so the server can read it before it answers.
        if queue
            .try_send(FromAgent::Hello(self.hello()).into())
            .is_err()
        {
            return Err(Ended::Closed);
        }
        let response = timeout(OPEN_TIMEOUT, client.session(ReceiverStream::new(messages)))
            .await
            .map_err(|_| Ended::Slow)?
            .map_err(Ended::Stream)?;
        let outbound = Outbound {
            queue,
            answers: Answers::default(),
            waiting_since: None,
        };
        Ok((response.into_inner(), outbound))
    }

    fn hello(&self) -> Hello {
        Hello {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            agent_version: VERSION.to_owned(),
            gateway: self.gateway.clone(),
            name: self.name.clone(),
            labels: self.labels.clone(),
            instance: self.status.instance().to_owned(),
            applied: self.lineage.applied.clone(),
            wall_ms: u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX),
            previous_session_epoch: self.lineage.session_epoch,
            capabilities: vec![ABILITY_OVERRIDES.to_owned(), ABILITY_DRAIN.to_owned()],
        }
    }

    async fn exchange(
        &mut self,
        session: &mut Session,
        inbound: &mut Streaming<ServerMessage>,
        mut outbound: Outbound,
    ) -> Ended {
        let mut trial = None;
        let ended = self
            .converse(session, inbound, &mut outbound, &mut trial)
            .await;
        if matches!(ended, Ended::Stopped) {
            say_bye(outbound.queue, inbound).await;
        }
        // What is being tried becomes the running configuration although the session is over: the
        // next Hello has to name it.
        if trial.is_some() {
            let tried = finished(&mut trial).await;
            if let Some(Trial { push, .. }) = trial {
                self.judge(session, push, tried);
            }
        }
        ended
    }

    async fn converse(
        &mut self,
        session: &mut Session,
        inbound: &mut Streaming<ServerMessage>,
        outbound: &mut Outbound,
        trial: &mut Option<Trial>,
    ) -> Ended {
        let plane = self.plane.clone();
        let (stop, draining) = (self.stop.clone(), self.draining.clone());
        let mut drain_told = false;
        let mut changed = pin!(plane.changed().notified());
        // Pushes that came while another is tried; answers and revisions keep their order.
        let mut held: VecDeque<ServerMessage> = VecDeque::new();
        loop {
            let now = clock::now();
            let report_due = match session.due(now) {
                Ok(due) => due,
                Err(leave) => return leave.into(),
            };
            let mut wake = session.wake_at();
            let sending = report_due || outbound.answers.wait();
            if sending {
                let since = *outbound.waiting_since.get_or_insert(now);
                if now >= since + STALL_TIMEOUT {
                    return Ended::Stalled;
                }
                wake = since + STALL_TIMEOUT;
            }
            if trial.is_none()
                && outbound.answers.push.is_none()
                && let Some(push) = held.pop_front()
            {
                match self.take(session, push) {
                    Ok(taken) => self.follow(taken, &mut outbound.answers, trial),
                    Err(leave) => return leave.into(),
                }
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ended::Stopped,
                place = outbound.queue.reserve(), if sending => {
                    let Ok(place) = place else { return Ended::Closed };
                    outbound.waiting_since = None;
                    let message = outbound.answers.take().or_else(|| self.report(session));
                    if let Some(message) = message {
                        place.send(message.into());
                    }
                }
                tried = finished(trial), if trial.is_some() && outbound.answers.push.is_none() => {
                    if let Some(Trial { push, .. }) = trial.take() {
                        outbound.answers.push = Some(self.judge(session, push, tried));
                        outbound.answers.answer_orders(&plane);
                    }
                }
                received = inbound.message(), if outbound.answers.push.is_none() && held.len() < HELD_PUSHES_MAX => {
                    let message = match received {
                        Ok(Some(message)) => message,
                        Ok(None) => return Ended::Closed,
                        Err(status) => return Ended::Stream(status),
                    };
                    if is_push(&message) && (trial.is_some() || !held.is_empty()) {
                        held.push_back(message);
                        continue;
                    }
                    match self.take(session, message) {
                        Ok(taken) => self.follow(taken, &mut outbound.answers, trial),
                        Err(leave) => return leave.into(),
                    }
                }
                () = changed.as_mut() => {
                    changed.set(plane.changed().notified());
                    session.stir(clock::now());
                }
                () = draining.cancelled(), if !drain_told => {
                    drain_told = true;
                    session.stir(clock::now());
                }
                () = sleep_until(wake.into()) => {}
            }
        }
    }

    /// Does what a message leads to.
    fn follow(&self, taken: Taken, answers: &mut Answers, trial: &mut Option<Trial>) {
        match taken {
            Taken::Nothing => {}
            Taken::Answer(answer) => answers.push = Some(answer),
            Taken::Trial(begun) => *trial = Some(begun),
            Taken::Orders(given) => {
                answers.given = Some(given);
                answers.answer_orders(&self.plane);
            }
        }
    }

    fn report(&self, session: &mut Session) -> Option<FromAgent> {
        let limits = session.limits()?;
        let numbered = session.number(clock::now(), clock::jitter())?;
        let report = build(&self.plane, &self.status, numbered, limits);
        self.plane.report_sent();
        Some(FromAgent::Report(report))
    }

    fn take(&mut self, session: &mut Session, message: ServerMessage) -> Result<Taken, Leave> {
        let push_nonce = match &message.message {
            Some(server_message::Message::ConfigPush(push)) => Some(push.nonce),
            _ => None,
        };
        let message = match FromServer::try_from(message) {
            Ok(message) => message,
            Err(WireError::Empty) => {
                tracing::debug!("skipped a message this version does not know");
                return Ok(Taken::Nothing);
            }
            Err(error) => {
                let Some(nonce) = push_nonce else {
                    return Err(Leave::Protocol(error.to_string()));
                };
                let errors = super::unreadable_push(&error);
                self.plane.config_rejected();
                tracing::error!(%error, "a pushed revision cannot be read");
                return Ok(Taken::Answer(refusal(nonce, errors, &self.lineage)));
            }
        };
        if let FromServer::ReportAck(ack) = &message
            && let Some(reason) = &ack.refused
        {
            tracing::warn!(seq = ack.seq, %reason, "the control plane refused a report");
        }
        match session.receive(message, &mut self.lineage, clock::now())? {
            Step::None => Ok(Taken::Nothing),
            Step::Opened { confirmed } => {
                self.opened(confirmed);
                Ok(Taken::Nothing)
            }
            Step::Answer(answer) => {
                self.plane.config_rejected();
                tracing::warn!(
                    serving = answer.revision,
                    "refused a revision older than the served one"
                );
                Ok(Taken::Answer(answer))
            }
            Step::Adopt(push) => Ok(Taken::Trial(self.adopt(push))),
            Step::Drain(active) => {
                if self.status.set_out_of_service(active) {
                    let word = if active {
                        "out of service"
                    } else {
                        "back in service"
                    };
                    tracing::info!("an operator took this agent {word}");
                    session.stir(clock::now());
                }
                Ok(Taken::Nothing)
            }
            Step::Obey(overrides) => {
                if let Some(writer) = &self.writer {
                    writer.keep_orders(&overrides.entries);
                }
                Ok(Taken::Orders(Given::obey(&self.plane, overrides)))
            }
        }
    }

    fn opened(&self, confirmed: bool) {
        self.status.set_connected(true);
        // Whatever a token was refused for, the certificate at hand was taken.
        self.status.clear(Topic::Identity);
        if confirmed {
            self.status.confirm();
        }
        tracing::info!(gateway = %self.gateway, "connected to the control plane");
    }

    /// Begins to try a revision.
    fn adopt(&self, push: ConfigPush) -> Trial {
        let adopter = Arc::clone(&self.adopter);
        let gateway = self.gateway.clone();
        let (document, hash, revision) = (push.document.clone(), push.hash.clone(), push.revision);
        let task = tokio::task::spawn_blocking(move || {
            let expected = Expected {
                gateway: &gateway,
                hash: &hash,
                revision,
                source: ConfigSource::Live,
            };
            adopter.adopt_json(&document, expected)
        });
        Trial { push, task }
    }

    /// Takes the end of a trial in and words its answer.
    fn judge(
        &mut self,
        session: &Session,
        push: ConfigPush,
        tried: Result<Adopted, Vec<Problem>>,
    ) -> ConfigResult {
        let revision = push.revision;
        let (verdict, document) = match tried {
            Ok(adopted) => (Ok(fit_texts(adopted.problems)), Some(adopted.document)),
            Err(errors) => (Err(fit_errors(errors)), None),
        };
        self.log_verdict(revision, &verdict);
        let answer = session.judged(&push, verdict, &mut self.lineage);
        if let Some(document) = document
            && let Some(applied) = &self.lineage.applied
        {
            self.status.confirm();
            self.status.clear(Topic::RolledBack);
            self.status.clear(Topic::CacheRead);
            if let Some(writer) = &self.writer {
                writer.keep(Entry {
                    gateway: self.gateway.clone(),
                    revision,
                    hash: push.hash,
                    control_epoch: applied.control_epoch.clone().unwrap_or_default(),
                    document,
                });
            }
        }
        answer
    }
}

/// Sends the last message and gives it time to leave.
async fn say_bye(queue: mpsc::Sender<AgentMessage>, inbound: &mut Streaming<ServerMessage>) {
    let farewell = async {
        let bye = FromAgent::Bye(Bye {
            reason: "the agent stops".to_owned(),
        });
        if queue.send(bye.into()).await.is_err() {
            return;
        }
        drop(queue);
        while let Ok(Some(_)) = inbound.message().await {}
    };
    if timeout(BYE_TIMEOUT, farewell).await.is_err() {
        tracing::debug!("the control plane did not close the stream after the goodbye");
    }
}
