//! Runs one session on its stream: reads and writes, waits and wakes, and carries out what the
//! session wants done. All rules are in [`crate::session`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lanekeeper_proto::message::{FromAgent, FromServer, Goodbye, GoodbyeReason, Hello};
use lanekeeper_proto::wire;
use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};

use crate::clock;
use crate::enrolment::authorization::Standing;
use crate::follow::overrides::Subscription;
use crate::follow::target::{Target, Targets};
use crate::hosting::core::Core;
use crate::hosting::duplicates::{is_living, later_session, turn_away};
use crate::hosting::outgoing::Outgoing;
use crate::hosting::sessions::{Duplicate, Entered};
use crate::listener::connection::Link;
use crate::publish::intake::facts;
use crate::publish::outbox::Key;
use crate::session::{Effect, Fault, Opening, Session, first, negotiate};
use crate::trace::SessionTrace;

/// Messages between a session and its connection; more wait in [`Outgoing`], where they coalesce.
pub(crate) const STREAM_BUFFER: usize = 1;

/// How long the last write of a record may be under way.
const FORGET_DELAY: Duration = Duration::from_secs(2);

/// What the response stream is fed with.
pub(crate) type Item = Result<wire::ServerMessage, Status>;

/// Serves one stream from its first message to its end.
pub(crate) async fn serve(
    core: Arc<Core>,
    mut inbound: Streaming<wire::AgentMessage>,
    writer: mpsc::Sender<Item>,
    link: Option<Link>,
    standing: Standing,
) {
    let mut stream = Writer {
        writer,
        outgoing: Outgoing::default(),
        progress: clock::now(),
        stall_timeout: core.timing.stall_timeout,
    };
    let ended = match greet(&core, &mut inbound).await {
        Ok(hello) => converse(&core, hello, standing, &mut inbound, &mut stream).await,
        Err(ended) => Err(ended),
    };
    let farewell = match ended {
        Ok(()) | Err(End::Gone) => Ok(()),
        Err(End::Farewell(goodbye)) => {
            core.metrics.goodbye(goodbye.reason);
            stream.outgoing.put(FromServer::Goodbye(goodbye));
            stream.finish().await
        }
        Err(End::Fault(status)) => {
            tracing::debug!(%status, "a stream is ended");
            stream.fail(status).await
        }
        Err(End::Stalled) => Err(Stalled),
    };
    if farewell.is_err() {
        tracing::warn!(
            peer = ?link.as_ref().and_then(|link| link.peer),
            "an agent does not read what it is sent; its connection is cut"
        );
        if let Some(link) = link {
            link.cut.cancel();
        }
    }
}

/// Why a stream ends other than by the agent's Bye.
enum End {
    /// The other end is gone.
    Gone,
    /// This side leaves in-band.
    Farewell(Goodbye),
    /// The protocol was broken.
    Fault(Status),
    /// The agent does not read.
    Stalled,
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        match fault.farewell() {
            Some(goodbye) => Self::Farewell(goodbye),
            None => Self::Fault(Status::invalid_argument(fault.to_string())),
        }
    }
}

impl From<Stalled> for End {
    fn from(_: Stalled) -> Self {
        Self::Stalled
    }
}

async fn greet(core: &Core, inbound: &mut Streaming<wire::AgentMessage>) -> Result<Hello, End> {
    let message = tokio::select! {
        biased;
        () = core.closing.cancelled() => return Err(End::Farewell(core.shutdown_goodbye())),
        message = tokio::time::timeout(core.timing.hello_timeout, inbound.next()) => message,
    };
    match message {
        Ok(Some(Ok(envelope))) => Ok(first(FromAgent::try_from(envelope))?),
        Ok(Some(Err(status))) => Err(End::Fault(status)),
        Ok(None) => Err(End::Gone),
        Err(_) => Err(End::Fault(Status::deadline_exceeded("no Hello in time"))),
    }
}

async fn converse(
    core: &Arc<Core>,
    hello: Hello,
    standing: Standing,
    inbound: &mut Streaming<wire::AgentMessage>,
    stream: &mut Writer,
) -> Result<(), End> {
    standing.admits(&hello.gateway).map_err(End::Fault)?;
    let protocol = negotiate(&hello).map_err(End::Farewell)?;
    let subscription = core
        .watch
        .subscribe(&hello.gateway, &hello.name, &hello.labels);
    let mut targets = subscription.targets;
    let mut orders = core.overrides.subscribe(&hello.gateway);
    let mut control_epoch = core.watch.epoch();
    let now_ms = clock::unix_ms();
    let previous = hello.previous_session_epoch;
    let later = later_session(core, &hello).await;
    if let Some(later) = &later
        && is_living(later, &core.rules, now_ms)
    {
        return Err(End::Farewell(turn_away(core, &hello).await));
    }
    // Also beyond a session that the agent never learnt of, whose records would else hide its own.
    let passed = previous.max(later.map(|later| later.session_epoch));
    let session_epoch = core.epochs.lock().next(now_ms, passed);
    let key = (hello.gateway.clone(), hello.instance.clone());
    let entered = match core.sessions.enter(key, session_epoch, previous) {
        Ok(entered) => entered,
        Err(Duplicate) => return Err(End::Farewell(turn_away(core, &hello).await)),
    };
    let mut open = OpenSession::new(core, entered, standing);
    let opening = Opening {
        session_epoch,
        control_epoch: control_epoch.borrow_and_update().clone(),
        head: subscription.head,
        target: target_of(newest(&mut targets), &hello.name, &hello.labels),
        orders: orders.borrow_and_update().clone(),
        now: clock::now(),
        now_ms,
    };
    let (mut session, effects) = Session::open(hello, protocol, &core.rules, opening);
    tracing::info!(
        gateway = %session.record().gateway,
        agent = session.record().name,
        instance = session.record().instance,
        identity = open.standing.identity().map(|it| it.id.as_str()),
        "session open"
    );
    open.trace = SessionTrace::open(session.record());
    open.carry_out(effects, &session, stream);
    let ended = until_closed(
        &mut open,
        &mut session,
        inbound,
        stream,
        targets,
        orders,
        control_epoch,
    )
    .await;
    if !open.sent_away {
        // When the agent was last heard of.
        open.carry_out(vec![Effect::Facts], &session, stream);
    }
    ended?;
    stream.finish().await?;
    Ok(())
}

async fn until_closed(
    open: &mut OpenSession,
    session: &mut Session,
    inbound: &mut Streaming<wire::AgentMessage>,
    stream: &mut Writer,
    mut targets: watch::Receiver<Option<Arc<Targets>>>,
    mut orders: Subscription,
    mut control_epoch: watch::Receiver<String>,
) -> Result<(), End> {
    let core = Arc::clone(&open.core);
    let mut drained = core.drains.subscribe();
    drained.mark_changed();
    while !session.is_closed() {
        let effects = tokio::select! {
            message = inbound.next() => match message {
                Some(Ok(envelope)) => {
                    open.heard_ms = clock::unix_ms();
                    session.pace(core.report_interval());
                    session.receive(
                        FromAgent::try_from(envelope),
                        clock::now(),
                        open.heard_ms,
                    )?
                }
                Some(Err(status)) => return Err(End::Fault(status)),
                None => return Err(End::Gone),
            },
            written = stream.write(), if !stream.outgoing.is_empty() => {
                written?;
                Vec::new()
            }
            Ok(()) = targets.changed() => {
                let (targets, record) = (newest(&mut targets), session.record());
                let target = target_of(targets, &record.name, &record.labels);
                session.aim(target, clock::now())
            }
            Ok(()) = orders.changed() => {
                session.command(newest(&mut orders), clock::now(), clock::unix_ms())
            }
            Ok(()) = drained.changed() => {
                let active = drained.borrow_and_update().contains(&session.record().instance);
                session.drain(active, clock::now())
            }
            () = tokio::time::sleep_until(session.next_tick().into()) => {
                session.tick(clock::now())
            }
            status = open.standing.lost() => {
                open.sent_away = true;
                return Err(End::Fault(status));
            }
            () = open.entered.copied.notified() => session.copied(clock::now()),
            () = core.closing.cancelled() => session.leave(core.shutdown_goodbye()),
            () = open.entered.replaced.cancelled() => session.leave(Goodbye {
                reason: GoodbyeReason::Replaced,
                detail: "this agent instance opened a newer session".to_owned(),
                reconnect_after: Duration::ZERO,
                jitter: core.timing.reconnect_jitter,
            }),
            Ok(()) = control_epoch.changed() => session.leave(Goodbye {
                reason: GoodbyeReason::Restored,
                detail: "the configuration database has another history now".to_owned(),
                reconnect_after: Duration::ZERO,
                jitter: core.timing.reconnect_jitter,
            }),
        };
        open.carry_out(effects, session, stream);
    }
    Ok(())
}

fn newest<T>(followed: &mut watch::Receiver<Option<Arc<T>>>) -> Option<Arc<T>> {
    followed.borrow_and_update().clone()
}

/// What one agent shall serve.
fn target_of(
    targets: Option<Arc<Targets>>,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Option<Arc<Target>> {
    targets.map(|targets| Arc::clone(targets.of(name, labels)))
}

/// A session in the register and in the counts, for as long as it lives.
struct OpenSession {
    core: Arc<Core>,
    entered: Entered,
    standing: Standing,
    trace: SessionTrace,
    /// When the agent's last message came, unix milliseconds: a session may end long after.
    heard_ms: u64,
    /// The agent lost its right to be here.
    sent_away: bool,
}

impl OpenSession {
    fn new(core: &Arc<Core>, entered: Entered, standing: Standing) -> Self {
        core.metrics.sessions.inc();
        Self {
            core: Arc::clone(core),
            entered,
            standing,
            trace: SessionTrace::none(),
            heard_ms: clock::unix_ms(),
            sent_away: false,
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>, session: &Session, stream: &mut Writer) {
        let record = session.record();
        for effect in effects {
            match effect {
                Effect::Send(message) => {
                    self.trace.sends(&message);
                    if let FromServer::Goodbye(goodbye) = &message {
                        self.core.metrics.goodbye(goodbye.reason);
                    }
                    stream.put(message);
                }
                Effect::Record { notable } => {
                    let key = self.entered.key().clone();
                    self.core
                        .records
                        .keep(key, record.session_epoch, Arc::clone(record), notable);
                }
                Effect::Facts => {
                    let identity = self.standing.identity().map(|it| it.id.as_str());
                    let facts = Arc::new(facts(record, identity, self.heard_ms));
                    let key = self.entered.key().clone();
                    self.core.facts.once(key, record.session_epoch, facts);
                }
                Effect::Answered { took, applied } => {
                    self.core.metrics.answered(took, applied);
                    self.trace.answered(applied);
                    if let (false, Some(rejected)) = (applied, &record.last_error) {
                        tracing::warn!(
                            gateway = %record.gateway,
                            agent = record.name,
                            revision = rejected.revision,
                            errors = rejected.errors.len(),
                            "an agent refused a revision"
                        );
                    }
                }
                Effect::Obeyed { took } => self.core.metrics.obeyed(took),
                Effect::Reported(reported) => {
                    self.entered.note_heard();
                    self.core.metrics.reported(reported);
                }
                Effect::Close => self.trace.closes(),
            }
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.core.metrics.sessions.dec();
        // A newer session of the instance has taken the place and keeps it.
        if !self.entered.is_latest() {
            return;
        }
        let key = self.entered.key();
        self.core.records.release(key);
        if self.sent_away {
            let forgetting = forget_record(Arc::clone(&self.core), key.clone());
            tokio::spawn(forgetting);
        }
    }
}

/// Takes the record of an agent that was sent away out of the live view, once what was being written
/// of it has been. The view drops it by itself where that fails.
async fn forget_record(core: Arc<Core>, (gateway, instance): Key) {
    tokio::time::sleep(FORGET_DELAY).await;
    if let Err(error) = core.live.forget(&gateway, &instance).await {
        tracing::debug!(
            ?error,
            "the record of an agent that was sent away stays for a while"
        );
    }
}

/// The agent has not read for too long.
struct Stalled;

/// The sending half of a stream, with what waits for it.
struct Writer {
    writer: mpsc::Sender<Item>,
    outgoing: Outgoing,
    /// When something was last taken by the connection, or began to wait.
    progress: Instant,
    stall_timeout: Duration,
}

impl Writer {
    fn put(&mut self, message: FromServer) {
        if self.outgoing.is_empty() {
            self.progress = clock::now();
        }
        self.outgoing.put(message);
    }

    /// Hands one message over. Safe to be dropped half-way: nothing is taken before there is room.
    async fn write(&mut self) -> Result<(), Stalled> {
        let deadline = self.progress + self.stall_timeout;
        match tokio::time::timeout_at(deadline.into(), self.writer.reserve()).await {
            Ok(Ok(room)) => {
                if let Some(message) = self.outgoing.take() {
                    room.send(Ok(message.into()));
                }
                self.progress = clock::now();
                Ok(())
            }
            Ok(Err(_)) => {
                // The stream is gone, which its reading half tells too.
                self.outgoing = Outgoing::default();
                Ok(())
            }
            Err(_) => Err(Stalled),
        }
    }

    /// Hands over everything that waits.
    async fn finish(&mut self) -> Result<(), Stalled> {
        while !self.outgoing.is_empty() {
            self.write().await?;
        }
        Ok(())
    }

    /// Ends the stream with an error.
    async fn fail(&mut self, status: Status) -> Result<(), Stalled> {
        let sent = self.writer.send(Err(status));
        match tokio::time::timeout(self.stall_timeout, sent).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Stalled),
        }
    }
}
