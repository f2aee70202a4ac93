//! One session over one connection: waits for the socket, the plane and the clock, and calls
//! [`Link`](super::Link), which decides.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::{ConfigSource, Override, Problem};
use lanekeeper_proto::FleetClient;
use lanekeeper_proto::limits::MESSAGE_BYTES_MAX;
use lanekeeper_proto::message::{Bye, ConfigPush, FromAgent, Goodbye, Overrides};
use lanekeeper_proto::wire::{AgentMessage, ServerMessage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status as GrpcStatus, Streaming};

use super::state::{Effect, OPEN_TIMEOUT, Outgoing, Received};
use crate::clock;
use crate::fleet::Control;
use crate::fleet::dial::DialError;
use crate::fleet::report::build;
use crate::fleet::session::Leave;
use crate::revision::adopt::{Adopted, Expected};
use crate::revision::cache::Entry;
use crate::status::Topic;

/// How long the last message gets to leave the machine.
const BYE_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages that wait for the network. Reports are built when one of these places is free, so a
/// slow link gets fewer and fresher ones.
const OUTBOUND_MAX: usize = 2;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// No connection came about.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The stream was not opened or broke.
    #[error("the stream broke: {}", .0.message())]
    Stream(#[source] GrpcStatus),
    /// The server took too long to open the stream.
    #[error("the server did not open the stream in time")]
    Slow,
    /// The server closed the stream without a goodbye.
    #[error("the server closed the stream")]
    Closed,
    /// A rule of the protocol says so.
    #[error(transparent)]
    Left(#[from] Leave),
    /// The agent stops; it has said goodbye.
    #[error("the agent stops")]
    Stopped,
}

impl Ended {
    /// The server's goodbye, which may ask for a wait.
    pub(crate) fn goodbye(&self) -> Option<&Goodbye> {
        match self {
            Self::Left(leave) => leave.goodbye(),
            _ => None,
        }
    }
}

type Outbound = mpsc::Sender<AgentMessage>;
/// The task that tries a revision.
type Trial = JoinHandle<Result<Adopted, Vec<Problem>>>;

/// The end of the running trial; never when there is none.
async fn finished(trial: &mut Option<Trial>) -> Result<Adopted, Vec<Problem>> {
    match trial {
        Some(task) => task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "trying a revision failed");
            let message = "the document made the agent fail; its log has more";
            Err(vec![Problem::new("", "internal", message)])
        }),
        None => std::future::pending().await,
    }
}

impl Control {
    /// Runs one session to its end.
    pub(crate) async fn run_session(&mut self, channel: Channel) -> Ended {
        let stop = self.stop.clone();
        let opened = tokio::select! {
            () = stop.cancelled() => Err(Ended::Stopped),
            opened = self.open(channel) => opened,
        };
        let ended = match opened {
            Ok((mut inbound, outbound)) => self.exchange(&mut inbound, outbound).await,
            Err(ended) => ended,
        };
        self.status.set_connected(false);
        self.plane.leases().set_connected(false);
        ended
    }

    async fn open(
        &mut self,
        channel: Channel,
    ) -> Result<(Streaming<ServerMessage>, Outbound), Ended> {
        let (queue, messages) = mpsc::channel(OUTBOUND_MAX);
        let mut client = FleetClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let wall_ms = u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX);
        let hello = self.link.dialled(wall_ms, clock::now());
        // The first message waits in the queue, so the server can read it before it answers.
        if queue.try_send(FromAgent::Hello(hello).into()).is_err() {
            return Err(Ended::Closed);
        }
        let response = timeout(OPEN_TIMEOUT, client.session(ReceiverStream::new(messages)))
            .await
            .map_err(|_| Ended::Slow)?
            .map_err(Ended::Stream)?;
        Ok((response.into_inner(), queue))
    }

    async fn exchange(
        &mut self,
        inbound: &mut Streaming<ServerMessage>,
        outbound: Outbound,
    ) -> Ended {
        let mut trial = None;
        let ended = self.converse(inbound, &outbound, &mut trial).await;
        if matches!(ended, Ended::Stopped) {
            say_bye(outbound, inbound).await;
        }
        // What is being tried becomes the running configuration although the session is over: the
        // next Hello has to name it.
        if trial.is_some() {
            let tried = finished(&mut trial).await;
            self.tried(tried);
        }
        ended
    }

    async fn converse(
        &mut self,
        inbound: &mut Streaming<ServerMessage>,
        outbound: &Outbound,
        trial: &mut Option<Trial>,
    ) -> Ended {
        let plane = self.plane.clone();
        let (stop, draining) = (self.stop.clone(), self.draining.clone());
        let mut drain_reported = false;
        let mut changed = pin!(plane.changed().notified());
        loop {
            let now = clock::now();
            let sending = match self.link.due(now) {
                Ok(sending) => sending,
                Err(leave) => return leave.into(),
            };
            match self.link.next_held(now) {
                Ok(Some(effect)) => {
                    self.follow(effect, trial);
                    continue;
                }
                Ok(None) => {}
                Err(leave) => return leave.into(),
            }
            let wake = self.link.wake_at().unwrap_or(now);
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ended::Stopped,
                place = outbound.reserve(), if sending => {
                    let Ok(place) = place else { return Ended::Closed };
                    if let Some(message) = self.next_message() {
                        place.send(message.into());
                    }
                }
                tried = finished(trial), if trial.is_some() => {
                    *trial = None;
                    self.tried(tried);
                }
                received = inbound.message(), if self.link.reads() => {
                    let message = match received {
                        Ok(Some(message)) => message,
                        Ok(None) => return Ended::Closed,
                        Err(status) => return Ended::Stream(status),
                    };
                    let received = Received::read(message);
                    match received.and_then(|it| self.link.receive(it, clock::now())) {
                        Ok(effect) => self.follow(effect, trial),
                        Err(leave) => return leave.into(),
                    }
                }
                () = changed.as_mut() => {
                    changed.set(plane.changed().notified());
                    self.link.stir(clock::now());
                }
                () = plane.leases().wanted().notified() => {
                    let waiting = plane.leases().take();
                    self.link.put_leases(waiting);
                }
                () = draining.cancelled(), if !drain_reported => {
                    drain_reported = true;
                    self.link.stir(clock::now());
                }
                () = sleep_until(wake.into()) => {}
            }
        }
    }

    fn next_message(&mut self) -> Option<FromAgent> {
        match self.link.next(clock::now(), clock::jitter())? {
            Outgoing::Answer(answer) => Some(answer),
            Outgoing::Report(numbered, limits) => {
                let report = build(&self.plane, &self.status, numbered, limits);
                self.plane.report_sent();
                Some(FromAgent::Report(report))
            }
        }
    }

    /// Does what a message asks for.
    fn follow(&mut self, effect: Effect, trial: &mut Option<Trial>) {
        match effect {
            Effect::None => {}
            Effect::Opened { confirmed } => self.opened(confirmed),
            Effect::Try(push) => *trial = Some(self.begin_trial(push)),
            Effect::RefusedOlder => {
                self.plane.config_rejected();
                tracing::warn!("refused a revision older than the served one");
            }
            Effect::RefusedUnreadable(reason) => {
                self.plane.config_rejected();
                tracing::error!(%reason, "a pushed revision cannot be read");
            }
            Effect::Acknowledged {
                seq,
                refused,
                transitions_stored,
                ..
            } => {
                if self.plane.transitions_stored(transitions_stored) {
                    self.link.stir(clock::now());
                }
                if let Some(reason) = refused {
                    tracing::warn!(seq, %reason, "the control plane refused a report");
                }
            }
            Effect::Override(overrides) => {
                if let Some(writer) = &self.writer {
                    writer.keep_overrides(&overrides.entries);
                }
                log_overrides(&overrides);
                self.plane.apply_overrides(&overrides.entries);
                self.link.answer_overrides(&self.plane.unmet_overrides());
            }
            Effect::Advise(advisories) => self.plane.apply_advisories(&advisories),
            Effect::Leases(lease) => self.plane.apply_leases(&lease.answers, &lease.verdicts),
            Effect::OutOfService(active) => {
                self.status.set_out_of_service(active);
                let service = if active {
                    "out of service"
                } else {
                    "back in service"
                };
                tracing::info!("an operator took this agent {service}");
            }
        }
    }

    fn opened(&self, confirmed: bool) {
        self.status.set_connected(true);
        self.plane.leases().set_connected(self.link.has_leases());
        // Whatever a token was refused for, the certificate at hand was taken.
        self.status.clear(Topic::Identity);
        if confirmed {
            self.status.confirm();
        }
        let gateway = &self.link.facts().gateway;
        tracing::info!(%gateway, "connected to the control plane");
    }

    /// Begins to try a revision.
    fn begin_trial(&self, push: ConfigPush) -> Trial {
        let adopter = Arc::clone(&self.adopter);
        let gateway = self.link.facts().gateway.clone();
        tokio::task::spawn_blocking(move || {
            let expected = Expected {
                gateway: &gateway,
                hash: &push.hash,
                revision: push.revision,
                source: ConfigSource::Live,
            };
            adopter.adopt_json(&push.document, expected)
        })
    }

    /// Takes the end of a trial in.
    fn tried(&mut self, tried: Result<Adopted, Vec<Problem>>) {
        let (verdict, document) = match tried {
            Ok(adopted) => (Ok(adopted.problems), Some(adopted.document)),
            Err(errors) => (Err(errors), None),
        };
        if let Some(revision) = self.link.trying() {
            self.log_verdict(revision, &verdict);
        }
        let push = self.link.tried(verdict);
        self.link.answer_pools(self.plane.usability());
        self.link.answer_overrides(&self.plane.unmet_overrides());
        if let (Some(push), Some(document)) = (push, document) {
            self.status.confirm();
            self.status.clear(Topic::RolledBack);
            self.status.clear(Topic::CacheRead);
            if let Some(writer) = &self.writer {
                let applied = self.link.applied();
                let control_epoch = applied.and_then(|applied| applied.control_epoch.clone());
                writer.keep(Entry {
                    gateway: self.link.facts().gateway.clone(),
                    revision: push.revision,
                    hash: push.hash,
                    control_epoch: control_epoch.unwrap_or_default(),
                    document,
                });
            }
        }
    }
}

fn log_overrides(overrides: &Overrides) {
    let (generation, active) = (overrides.generation, &overrides.entries);
    tracing::info!(generation, overrides = active.len(), "overrides in force");
    for Override {
        id,
        action,
        pool,
        lane,
        provider,
        remaining_ms,
    } in active
    {
        let (action, pool, provider) = (action.as_str(), pool.as_deref(), provider.as_deref());
        tracing::debug!(id, action, pool, %lane, provider, remaining_ms, "override");
    }
    for unreadable in &overrides.unreadable {
        let (id, reason) = (&unreadable.id, &unreadable.reason);
        tracing::warn!(id, reason, "an override cannot be read");
    }
}

/// Sends the last message and gives it time to leave.
async fn say_bye(queue: Outbound, inbound: &mut Streaming<ServerMessage>) {
    let goodbye = async {
        let bye = FromAgent::Bye(Bye {
            reason: "the agent stops".to_owned(),
        });
        if queue.send(bye.into()).await.is_err() {
            return;
        }
        drop(queue);
        while let Ok(Some(_)) = inbound.message().await {}
    };
    if timeout(BYE_TIMEOUT, goodbye).await.is_err() {
        tracing::debug!("the control plane did not close the stream after the goodbye");
    }
}
