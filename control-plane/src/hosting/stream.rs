//! Runs one session on its stream: reads and writes, waits and wakes, and carries out what the
//! session wants done. All rules are in [`crate::session`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lanekeeper_model::transition::TimelineEntry;
use lanekeeper_model::{AgentRecord, GatewayName, PoolName, PoolTraffic};
use lanekeeper_proto::message::{FromAgent, FromServer, Goodbye, Hello, ProbeLeaseRequest};
use lanekeeper_proto::wire;
use lanekeeper_store::AgentFacts;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::clock;
use crate::enrolment::authorization::Authorization;
use crate::hosting::core::Core;
use crate::hosting::duplicates::{is_living, later_session, turn_away};
use crate::hosting::host::{Admitted, Host, Surroundings};
use crate::hosting::link::Link;
use crate::hosting::news::Subscriptions;
use crate::hosting::sessions::Duplicate;
use crate::hosting::writer::{Item, Stalled, Writer};
use crate::publish::outbox::Key;
use crate::session::{Effect, Fault, first, negotiate};
use crate::trace::SessionTrace;

/// How long the last write of a record may be under way.
pub(crate) const FORGET_DELAY: Duration = Duration::from_secs(2);

/// Serves one stream from its first message to its end.
pub(crate) async fn serve(
    core: Arc<Core>,
    mut inbound: Streaming<wire::AgentMessage>,
    writer: mpsc::Sender<Item>,
    link: Option<Link>,
    authorization: Authorization,
) {
    let mut stream = Writer::new(writer, core.timing.stall_timeout);
    let ended = match greet(&core, &mut inbound).await {
        Ok(hello) => converse(&core, hello, authorization, &mut inbound, &mut stream).await,
        Err(ended) => Err(ended),
    };
    let goodbye = match ended {
        Ok(()) | Err(End::Gone) => Ok(()),
        Err(End::Goodbye(goodbye)) => {
            core.metrics.goodbye(goodbye.reason);
            stream.put(FromServer::Goodbye(goodbye));
            stream.finish().await
        }
        Err(End::Fault(status)) => {
            tracing::debug!(%status, "a stream is ended");
            stream.fail(status).await
        }
        Err(End::Stalled) => Err(Stalled),
    };
    if goodbye.is_err() {
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
    Goodbye(Goodbye),
    /// The protocol was broken.
    Fault(Status),
    /// The agent does not read.
    Stalled,
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        match fault.goodbye() {
            Some(goodbye) => Self::Goodbye(goodbye),
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
        () = core.closing.cancelled() => return Err(End::Goodbye(core.shutdown_goodbye())),
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
    authorization: Authorization,
    inbound: &mut Streaming<wire::AgentMessage>,
    stream: &mut Writer,
) -> Result<(), End> {
    authorization.admits(&hello.gateway).map_err(End::Fault)?;
    let protocol = negotiate(&hello).map_err(End::Goodbye)?;
    let subscription = core
        .watch
        .subscribe(&hello.gateway, &hello.name, &hello.labels);
    let control_epoch = core.watch.epoch();
    let now_ms = clock::unix_ms();
    let previous = hello.previous_session_epoch;
    let later = later_session(core, &hello).await;
    if let Some(later) = &later
        && is_living(later, &core.rules, now_ms)
    {
        return Err(End::Goodbye(turn_away(core, &hello).await));
    }
    // Also beyond a session that the agent never learnt of, whose records would else hide its own.
    let passed = previous.max(later.map(|later| later.session_epoch));
    let session_epoch = core.epochs.lock().next(now_ms, passed);
    let key = (hello.gateway.clone(), hello.instance.clone());
    let entered = match core.sessions.enter(key, session_epoch, previous) {
        Ok(entered) => entered,
        Err(Duplicate) => return Err(End::Goodbye(turn_away(core, &hello).await)),
    };
    let admitted = Admitted {
        protocol,
        session_epoch,
        head: subscription.head,
        entered,
        subscriptions: Subscriptions {
            targets: subscription.targets,
            overrides: core.overrides.subscribe(&hello.gateway),
            advice: core.advice.subscribe(&hello.gateway),
            drains: core.drains.subscribe(),
            control_epoch,
            closing: core.closing.clone(),
        },
        authorization,
        goodbye_jitter: core.timing.reconnect_jitter,
    };
    let identity = admitted.authorization.identity().cloned();
    let (host, effects) = Host::open(hello, &core.rules, admitted, clock::now(), now_ms);
    tracing::info!(
        gateway = %host.record().gateway,
        agent = host.record().name,
        instance = host.record().instance,
        identity = identity.as_ref().map(|it| it.id.as_str()),
        "session open"
    );
    let around = Around::new(core, SessionTrace::open(host.record()), stream);
    let mut hosted = Hosted { host, around };
    let Hosted { host, around } = &mut hosted;
    host.carry_out(effects, around);
    let ended = until_closed(host, inbound, around).await;
    host.finish(around);
    match ended {
        Ok(()) => around.stream.finish().await.map_err(End::from),
        Err(end) => Err(end),
    }
}

/// A session on its stream. It leaves the register and gives its record up when this is dropped, so
/// also when its task panics or is aborted.
struct Hosted<'a> {
    host: Host,
    around: Around<'a>,
}

impl Drop for Hosted<'_> {
    fn drop(&mut self) {
        self.host.close(&mut self.around);
    }
}

async fn until_closed(
    host: &mut Host,
    inbound: &mut Streaming<wire::AgentMessage>,
    around: &mut Around<'_>,
) -> Result<(), End> {
    while !host.is_over() {
        let next_tick = host.next_tick();
        let waits = around.stream.has_outgoing();
        tokio::select! {
            message = inbound.next() => match message {
                Some(Ok(envelope)) => {
                    let message = FromAgent::try_from(envelope);
                    host.receive(message, clock::now(), clock::unix_ms(), around)?;
                }
                Some(Err(status)) => return Err(End::Fault(status)),
                None => return Err(End::Gone),
            },
            written = around.stream.write(), if waits => written?,
            () = tokio::time::sleep_until(next_tick.into()) => host.tick(clock::now(), around),
            news = host.next_news() => host
                .on_news(news, clock::now(), clock::unix_ms(), around)
                .map_err(End::Fault)?,
        }
    }
    Ok(())
}

/// What is around a session on a stream: the process, its spans and its connection.
struct Around<'a> {
    core: &'a Arc<Core>,
    trace: SessionTrace,
    stream: &'a mut Writer,
}

impl<'a> Around<'a> {
    fn new(core: &'a Arc<Core>, trace: SessionTrace, stream: &'a mut Writer) -> Self {
        core.metrics.sessions.inc();
        Self {
            core,
            trace,
            stream,
        }
    }
}

impl Drop for Around<'_> {
    fn drop(&mut self) {
        self.core.metrics.sessions.dec();
    }
}

impl Surroundings for Around<'_> {
    fn send(&mut self, message: FromServer) {
        self.stream.put(message);
    }

    fn put_record(&mut self, key: Key, record: &Arc<AgentRecord>, notable: bool) {
        let records = &self.core.records;
        records.keep(key, record.session_epoch, Arc::clone(record), notable);
    }

    fn put_facts(&mut self, key: Key, facts: AgentFacts) {
        self.core
            .facts
            .once(key, facts.session_epoch, Arc::new(facts));
    }

    fn add_traffic(
        &mut self,
        gateway: &GatewayName,
        pools: &[(PoolName, PoolTraffic)],
        over: Duration,
    ) {
        self.core.traffic.take(gateway, pools, over, clock::now());
    }

    fn release(&mut self, key: &Key) {
        self.core.records.release(key);
        self.core.transitions.release(key);
    }

    fn put_transitions(&mut self, key: Key, entries: Vec<TimelineEntry>) {
        self.core.transitions.put(key, entries);
    }

    fn transitions_stored(&self, key: &Key) -> u64 {
        self.core.transitions.stored(key)
    }

    fn lease(&mut self, key: Key, request: ProbeLeaseRequest) {
        self.core.leases.put(key, request);
    }

    fn forget(&mut self, key: &Key) {
        // There is no runtime left when a task is dropped with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(forget_record(Arc::clone(self.core), key.clone()));
        }
    }

    fn report_interval(&self) -> Duration {
        self.core.report_interval()
    }

    fn observe(&mut self, effect: &Effect, record: &AgentRecord) {
        let metrics = &self.core.metrics;
        match effect {
            Effect::Send(message) => {
                self.trace.sends(message);
                if let FromServer::Goodbye(goodbye) = message {
                    metrics.goodbye(goodbye.reason);
                }
            }
            Effect::Answered { took, applied } => {
                metrics.answered(*took, *applied);
                self.trace.answered(*applied);
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
            Effect::Obeyed { took } => metrics.obeyed(*took),
            Effect::Reported(reported) => metrics.reported(*reported),
            Effect::Close => self.trace.closes(),
            Effect::Record { .. }
            | Effect::Facts
            | Effect::Traffic { .. }
            | Effect::Leases(_)
            | Effect::Transitions(_) => {}
        }
    }
}

/// Takes the record of an agent that was sent away out of the live view, once what was being
/// written of it has been. The view drops it by itself where that fails.
async fn forget_record(core: Arc<Core>, (gateway, instance): Key) {
    tokio::time::sleep(FORGET_DELAY).await;
    if let Err(error) = core.live.forget(&gateway, &instance).await {
        tracing::debug!(
            ?error,
            "the record of an agent that was sent away stays for a while"
        );
    }
}
