//! One control-plane process as a plain value, for simulations of whole fleets: messages, readings of
//! the database and times go in, messages and values to be written come out.
//!
//! Sessions, their register, outboxes and what is known of the database are the control plane's own.
//! What `stream`, `config_watch`, `override_watch` and `outbox` do around them with sockets and stores
//! is done here, or by whoever simulates, once more without any.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::AgentRecord;
use lanekeeper_proto::message::{FromAgent, FromServer, Goodbye, GoodbyeReason, Hello};
use lanekeeper_store::{AgentFacts, Course, Revision, Standing};
use tokio::sync::watch;

use crate::follow::config;
use crate::follow::overrides;
use crate::follow::target::Targets;
use crate::hosting::duplicates::{DUPLICATE_WAIT, is_living};
use crate::hosting::epoch::SessionEpochs;
use crate::hosting::outgoing::Outgoing;
use crate::hosting::sessions::{Entered, Sessions};
use crate::publish::intake::facts;
use crate::publish::outbox::{Key, Outcome, Shelf};
use crate::session::{Effect, Opening, Rules, Session, negotiate};

/// Writes to the live view that run at once.
pub const LIVE_WRITERS: usize = crate::publish::intake::LIVE_WRITERS;
/// Writes of facts that run at once.
pub const FACTS_WRITERS: usize = crate::publish::intake::FACTS_WRITERS;
/// Pause of a writer whose store is away.
pub const RETRY_DELAY: Duration = crate::publish::outbox::RETRY_DELAY;

/// Values that may wait in each outbox.
const OUTBOX_MAX: usize = 10_000;

/// What came of writing a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is stored, or was not needed.
    Done,
    /// A later session of the agent is there.
    Older,
    /// The store did not answer.
    Away,
}

impl From<Written> for Outcome {
    fn from(written: Written) -> Self {
        match written {
            Written::Done | Written::Older => Self::Written,
            Written::Away => Self::Away,
        }
    }
}

/// A value to be written to a store.
#[derive(Debug, Clone)]
pub struct Due<T> {
    /// Gateway and instance.
    pub key: (String, String),
    /// The value.
    pub value: Arc<T>,
    /// Watchers should look now.
    pub notable: bool,
}

/// One control-plane process.
pub struct Replica {
    rules: Rules,
    goodbye_jitter: Duration,
    sessions: Arc<Sessions>,
    epochs: SessionEpochs,
    config: config::Known,
    control_epoch: watch::Sender<String>,
    orders: overrides::Known,
    records: Shelf<Arc<AgentRecord>>,
    facts: Shelf<Arc<AgentFacts>>,
    streams: BTreeMap<u64, Stream>,
}

struct Stream {
    outgoing: Outgoing,
    open: Option<Open>,
}

struct Open {
    session: Session,
    entered: Entered,
    targets: watch::Receiver<Option<Arc<Targets>>>,
    orders: overrides::Subscription,
    control_epoch: watch::Receiver<String>,
}

impl Default for Replica {
    fn default() -> Self {
        Self::new()
    }
}

impl Replica {
    /// A process that has just started, with the usual timing.
    pub fn new() -> Self {
        let timing = crate::Timing::default();
        Self {
            rules: Rules {
                report_interval: timing.report_interval,
                stale_after: timing.stale_after,
            },
            goodbye_jitter: timing.reconnect_jitter,
            sessions: Arc::default(),
            epochs: SessionEpochs::default(),
            config: config::Known::default(),
            control_epoch: watch::Sender::new(String::new()),
            orders: overrides::Known::default(),
            records: Shelf::new(OUTBOX_MAX),
            facts: Shelf::new(OUTBOX_MAX),
            streams: BTreeMap::new(),
        }
    }

    /// Everything was read once, so agents are served.
    pub fn is_ready(&self) -> bool {
        !self.control_epoch.borrow().is_empty()
    }

    /// Takes what the database says of revisions; the value is which documents are to be read, by
    /// gateway and number. [`Replica::take_epoch`] ends the reading.
    pub fn take_courses(
        &mut self,
        epoch: &str,
        courses: BTreeMap<String, Course>,
    ) -> Vec<(String, u64)> {
        let restored = *self.control_epoch.borrow() != *epoch;
        self.config.take_courses(courses, restored);
        self.config.lacking()
    }

    /// Takes a document.
    pub fn take_document(&mut self, gateway: &str, revision: Revision) {
        self.config.take_document(gateway, revision);
    }

    /// Takes the control epoch that courses were read under.
    pub fn take_epoch(&mut self, epoch: String) {
        self.control_epoch.send_if_modified(|current| {
            let changed = *current != epoch;
            *current = epoch;
            changed
        });
    }

    /// Takes the counts of orders; the value is the gateways whose orders are to be read.
    pub fn take_order_counts(
        &mut self,
        epoch: String,
        counts: &BTreeMap<String, u64>,
    ) -> Vec<String> {
        self.orders.take(epoch, counts)
    }

    /// Takes the orders of a gateway.
    pub fn take_orders(&mut self, gateway: &str, standing: Standing) {
        self.orders.learn(gateway, standing.into());
    }

    /// Takes the first message of a stream. `later` is what the live view knows of a later session of
    /// the instance than the one that the Hello names.
    pub fn open(
        &mut self,
        stream: u64,
        hello: Hello,
        later: Option<&AgentRecord>,
        now: Instant,
        now_ms: u64,
    ) {
        let mut outgoing = Outgoing::default();
        let open = match self.enter(hello, later, now, now_ms) {
            Ok((open, effects)) => {
                self.carry_out(&open, effects, &mut outgoing, now_ms);
                Some(open)
            }
            Err(goodbye) => {
                outgoing.put(FromServer::Goodbye(goodbye));
                None
            }
        };
        self.streams.insert(stream, Stream { outgoing, open });
    }

    fn enter(
        &mut self,
        hello: Hello,
        later: Option<&AgentRecord>,
        now: Instant,
        now_ms: u64,
    ) -> Result<(Open, Vec<Effect>), Goodbye> {
        let protocol = negotiate(&hello)?;
        let duplicate = || Goodbye {
            reason: GoodbyeReason::Duplicate,
            detail: String::new(),
            reconnect_after: DUPLICATE_WAIT,
            jitter: DUPLICATE_WAIT,
        };
        if later.is_some_and(|later| is_living(later, &self.rules, now_ms)) {
            return Err(duplicate());
        }
        let (subscription, _) = self
            .config
            .subscribe(&hello.gateway, &hello.name, &hello.labels);
        let mut targets = subscription.targets;
        let mut orders = self.orders.subscribe(&hello.gateway);
        let mut control_epoch = self.control_epoch.subscribe();
        let previous = hello.previous_session_epoch;
        let passed = previous.max(later.map(|later| later.session_epoch));
        let session_epoch = self.epochs.next(now_ms, passed);
        let key = (hello.gateway.clone(), hello.instance.clone());
        let entered = self
            .sessions
            .enter(key, session_epoch, previous)
            .map_err(|_| duplicate())?;
        let target = targets.borrow_and_update().clone();
        let target = target.map(|it| Arc::clone(it.of(&hello.name, &hello.labels)));
        let opening = Opening {
            session_epoch,
            control_epoch: control_epoch.borrow_and_update().clone(),
            head: subscription.head,
            target,
            orders: orders.borrow_and_update().clone(),
            now,
            now_ms,
        };
        let (session, effects) = Session::open(hello, protocol, &self.rules, opening);
        let open = Open {
            session,
            entered,
            targets,
            orders,
            control_epoch,
        };
        Ok((open, effects))
    }

    /// Lets a stream's session do something and carries out what it wants done.
    fn with(&mut self, stream: u64, now_ms: u64, act: impl FnOnce(&mut Open) -> Vec<Effect>) {
        let Some(mut it) = self.streams.remove(&stream) else {
            return;
        };
        if let Some(open) = &mut it.open
            && !open.session.is_closed()
        {
            let effects = act(open);
            self.carry_out(open, effects, &mut it.outgoing, now_ms);
        }
        self.streams.insert(stream, it);
    }

    /// Takes a message. The end of a stream that broke the protocol is told as a farewell is.
    pub fn receive(&mut self, stream: u64, message: FromAgent, now: Instant, now_ms: u64) {
        self.with(stream, now_ms, |open| {
            let received = open.session.receive(Ok(message), now, now_ms);
            received.unwrap_or_else(|fault| {
                open.session.leave(Goodbye {
                    reason: GoodbyeReason::Protocol,
                    detail: fault.to_string(),
                    reconnect_after: Duration::ZERO,
                    jitter: Duration::ZERO,
                })
            })
        });
    }

    /// What waits to be told to a stream's session; each is told by itself, in any order.
    pub fn news(&self, stream: u64) -> Vec<News> {
        let Some(open) = self.streams.get(&stream).and_then(|it| it.open.as_ref()) else {
            return Vec::new();
        };
        let mut news = Vec::new();
        if open.targets.has_changed().unwrap_or(false) {
            news.push(News::Targets);
        }
        if open.orders.has_changed().unwrap_or(false) {
            news.push(News::Orders);
        }
        if open.control_epoch.has_changed().unwrap_or(false) {
            news.push(News::ControlEpoch);
        }
        if open.entered.replaced.is_cancelled() {
            news.push(News::Replaced);
        }
        news
    }

    /// Tells a stream's session.
    pub fn tell(&mut self, stream: u64, news: News, now: Instant, now_ms: u64) {
        let jitter = self.goodbye_jitter;
        let goodbye = |reason| Goodbye {
            reason,
            detail: String::new(),
            reconnect_after: Duration::ZERO,
            jitter,
        };
        self.with(stream, now_ms, |open| match news {
            News::Targets => {
                let targets = open.targets.borrow_and_update().clone();
                let record = open.session.record();
                let target = targets.map(|it| Arc::clone(it.of(&record.name, &record.labels)));
                open.session.aim(target, now)
            }
            News::Orders => {
                let orders = open.orders.borrow_and_update().clone();
                open.session.command(orders, now, now_ms)
            }
            News::ControlEpoch => open.session.leave(goodbye(GoodbyeReason::Restored)),
            News::Replaced => open.session.leave(goodbye(GoodbyeReason::Replaced)),
            News::Shutdown => open.session.leave(goodbye(GoodbyeReason::Shutdown)),
        });
    }

    /// Lets a stream's session look at the clock.
    pub fn tick(&mut self, stream: u64, now: Instant, now_ms: u64) {
        self.with(stream, now_ms, |open| open.session.tick(now));
    }

    /// When [`Replica::tick`] has something to look at next.
    pub fn next_tick(&self, stream: u64) -> Option<Instant> {
        let open = self.streams.get(&stream)?.open.as_ref()?;
        (!open.session.is_closed()).then(|| open.session.next_tick())
    }

    /// Takes the next message for the agent, when its connection has room for one.
    pub fn send(&mut self, stream: u64) -> Option<FromServer> {
        self.streams.get_mut(&stream)?.outgoing.take()
    }

    /// Something waits to be sent.
    pub fn has_outgoing(&self, stream: u64) -> bool {
        let stream = self.streams.get(&stream);
        stream.is_some_and(|it| !it.outgoing.is_empty())
    }

    /// The session is over, so the stream ends once everything is sent.
    pub fn is_over(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|it| {
            let open = it.open.as_ref();
            open.is_none_or(|open| open.session.is_closed())
        })
    }

    /// The stream is gone, whoever ended it.
    pub fn hang_up(&mut self, stream: u64, now_ms: u64) {
        let Some(mut it) = self.streams.remove(&stream) else {
            return;
        };
        if let Some(open) = it.open.take() {
            self.carry_out(&open, vec![Effect::Facts], &mut it.outgoing, now_ms);
            if open.entered.is_latest() {
                self.records.release(open.entered.key());
            }
        }
    }

    /// The open streams.
    pub fn streams(&self) -> Vec<u64> {
        self.streams.keys().copied().collect()
    }

    /// Sessions that are open.
    pub fn sessions(&self) -> usize {
        let streams = self.streams.values();
        streams.filter(|it| it.open.is_some()).count()
    }

    fn carry_out(
        &mut self,
        open: &Open,
        effects: Vec<Effect>,
        outgoing: &mut Outgoing,
        now_ms: u64,
    ) {
        let record = open.session.record();
        let key = || -> Key { open.entered.key().clone() };
        for effect in effects {
            match effect {
                Effect::Send(message) => outgoing.put(message),
                Effect::Record { notable } => {
                    let epoch = record.session_epoch;
                    self.records
                        .put(key(), epoch, Arc::clone(record), notable, true);
                }
                Effect::Facts => {
                    let facts = Arc::new(facts(record, None, now_ms));
                    self.facts
                        .put(key(), record.session_epoch, facts, false, false);
                }
                Effect::Reported(_) => open.entered.note_heard(),
                Effect::Answered { .. } | Effect::Obeyed { .. } | Effect::Close => {}
            }
        }
    }

    /// Takes the next record for the live view.
    pub fn next_record(&mut self) -> Option<Due<AgentRecord>> {
        let (key, value, notable) = self.records.next()?;
        Some(Due {
            key,
            value,
            notable,
        })
    }

    /// Tells what came of writing a record.
    pub fn record_written(&mut self, due: Due<AgentRecord>, written: Written) {
        if written == Written::Older {
            self.sessions.outlived(&due.key, due.value.session_epoch);
        }
        self.records.done(due.key, due.notable, written.into());
    }

    /// Takes the next facts for the configuration database.
    pub fn next_facts(&mut self) -> Option<Due<AgentFacts>> {
        let (key, value, notable) = self.facts.next()?;
        Some(Due {
            key,
            value,
            notable,
        })
    }

    /// Tells what came of writing facts.
    pub fn facts_written(&mut self, due: Due<AgentFacts>, written: Written) {
        self.facts.done(due.key, due.notable, written.into());
    }

    /// The live view has lost its memory: every record is to be written again.
    pub fn rewrite(&mut self) {
        self.records.requeue();
    }

    /// Records wait to be written.
    pub fn has_backlog(&self) -> bool {
        self.records.has_queue()
    }
}

/// Something that a session is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// What the agent shall serve may be something else.
    Targets,
    /// The operators' orders have changed.
    Orders,
    /// The database has another history.
    ControlEpoch,
    /// The instance opened a newer session here.
    Replaced,
    /// The process stops.
    Shutdown,
}
