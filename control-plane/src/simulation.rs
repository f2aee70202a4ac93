//! One control-plane process as a plain value, for simulations of whole fleets: messages, readings
//! of the database and times go in, messages and values to be written come out.
//!
//! Sessions, their register, outboxes and what is known of the database are the control plane's
//! own. What `stream`, `config_watch`, `override_watch` and `outbox` do around them with sockets
//! and stores is done here, or by whoever simulates, once more without any.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::enrolment::AgentIdentity;
use lanekeeper_model::transition::TimelineEntry;
use lanekeeper_model::{AgentRecord, FreshWindows};
use lanekeeper_proto::message::{
    FromAgent, FromServer, Goodbye, GoodbyeReason, Hello, ProbeLeaseRequest,
};
use lanekeeper_store::{AgentFacts, Course, Hint, Revision};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::enrolment::authorization::{Authorization, Proof, Revoked};
use crate::follow::advice;
use crate::follow::config;
use crate::follow::drains::Drained;
use crate::follow::overrides;
use crate::hosting::duplicates::{DUPLICATE_WAIT, is_living};
use crate::hosting::epoch::SessionEpochs;
use crate::hosting::host::{Admitted, Host};
pub use crate::hosting::news::News;
use crate::hosting::news::Subscriptions;
use crate::hosting::outgoing::Outgoing;
use crate::hosting::sessions::Sessions;
use crate::publish::outbox::{Key, Outcome, Shelf};
use crate::publish::transitions::TransitionQueue;
use crate::session::{Effect, Rules, negotiate};

mod around;
mod fleet;
mod outboxes;

use around::Around;

/// Writes to the live view that run at once.
pub const LIVE_WRITERS: usize = crate::hosting::intake::LIVE_WRITERS;
/// Writes of facts that run at once.
pub const FACTS_WRITERS: usize = crate::hosting::intake::FACTS_WRITERS;
/// From the end of a session whose agent lost its authorization to the removal of its record.
pub const FORGET_DELAY: Duration = crate::hosting::stream::FORGET_DELAY;
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
    overrides: overrides::Known,
    advice: advice::Known,
    records: Shelf<Arc<AgentRecord>>,
    facts: Shelf<Arc<AgentFacts>>,
    transitions: TransitionQueue,
    streams: BTreeMap<u64, Stream>,
    drains: watch::Sender<Option<Drained>>,
    revoked: watch::Sender<Revoked>,
    report_interval: Duration,
    forgotten: Vec<Key>,
    lease_requests: Vec<(Key, ProbeLeaseRequest)>,
}

struct Stream {
    outgoing: Outgoing,
    open: Option<Host>,
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
            overrides: overrides::Known::default(),
            advice: advice::Known::new(FreshWindows::default()),
            records: Shelf::new(OUTBOX_MAX),
            facts: Shelf::new(OUTBOX_MAX),
            transitions: TransitionQueue::default(),
            streams: BTreeMap::new(),
            drains: watch::Sender::default(),
            revoked: watch::Sender::default(),
            report_interval: timing.report_interval,
            forgotten: Vec::new(),
            lease_requests: Vec::new(),
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

    /// Takes the counts of overrides; the value is the gateways whose overrides are to be read.
    pub fn take_order_counts(
        &mut self,
        epoch: String,
        counts: &BTreeMap<String, u64>,
    ) -> Vec<String> {
        self.overrides.take(epoch, counts)
    }

    /// Takes the overrides of a gateway.
    pub fn take_orders(&mut self, gateway: &str, standing: lanekeeper_store::Standing) {
        self.overrides.learn(gateway, standing.into());
    }

    /// Takes the first message of a stream. `later` is what the live view knows of a later session
    /// of the instance than the one that the Hello names. The value is a hint to publish: the agent
    /// is a copy of one that lives and was turned away.
    pub fn open(
        &mut self,
        stream: u64,
        hello: Hello,
        later: Option<&AgentRecord>,
        now: Instant,
        now_ms: u64,
    ) -> Option<Hint> {
        let hint = Hint::Duplicate {
            gateway: hello.gateway.as_str().into(),
            instance: hello.instance.clone(),
        };
        let (mut outgoing, mut effects) = (Outgoing::default(), Vec::new());
        let mut is_copy = false;
        let open = match self.enter(hello, later, now, now_ms) {
            Ok((host, opened)) => {
                effects = opened;
                Some(host)
            }
            Err(goodbye) => {
                is_copy = goodbye.reason == GoodbyeReason::Duplicate;
                outgoing.put(FromServer::Goodbye(goodbye));
                None
            }
        };
        self.streams.insert(stream, Stream { outgoing, open });
        self.with(stream, |host, around| host.carry_out(effects, around));
        is_copy.then_some(hint)
    }

    fn enter(
        &mut self,
        hello: Hello,
        later: Option<&AgentRecord>,
        now: Instant,
        now_ms: u64,
    ) -> Result<(Host, Vec<Effect>), Goodbye> {
        let proof = Proof::Certificate(Some(AgentIdentity {
            gateway: hello.gateway.clone(),
            id: hello.instance.clone(),
        }));
        let authorization = Authorization::new(Some(&proof), true, self.revoked.subscribe());
        let authorization = authorization.map_err(|status| Goodbye {
            reason: GoodbyeReason::Protocol,
            detail: status.message().to_owned(),
            reconnect_after: Duration::ZERO,
            jitter: self.goodbye_jitter,
        })?;
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
        let previous = hello.previous_session_epoch;
        let passed = previous.max(later.map(|later| later.session_epoch));
        let session_epoch = self.epochs.next(now_ms, passed);
        let key = (hello.gateway.clone(), hello.instance.clone());
        let entered = self
            .sessions
            .enter(key, session_epoch, previous)
            .map_err(|_| duplicate())?;
        let admitted = Admitted {
            protocol,
            session_epoch,
            head: subscription.head,
            entered,
            subscriptions: Subscriptions {
                targets: subscription.targets,
                overrides: self.overrides.subscribe(&hello.gateway),
                advice: self.advice.subscribe(&hello.gateway),
                drains: self.drains.subscribe(),
                control_epoch: self.control_epoch.subscribe(),
                closing: CancellationToken::new(),
            },
            authorization,
            goodbye_jitter: self.goodbye_jitter,
        };
        Ok(Host::open(hello, &self.rules, admitted, now, now_ms))
    }

    /// Lets a stream's session do something with what is around it.
    fn with(&mut self, stream: u64, act: impl FnOnce(&mut Host, &mut Around<'_>)) {
        let Some(it) = self.streams.get_mut(&stream) else {
            return;
        };
        if let Some(open) = &mut it.open
            && !open.is_over()
        {
            act(
                open,
                &mut Around {
                    outgoing: &mut it.outgoing,
                    records: &mut self.records,
                    facts: &mut self.facts,
                    transitions: &mut self.transitions,
                    forgotten: &mut self.forgotten,
                    lease_requests: &mut self.lease_requests,
                    report_interval: self.report_interval,
                },
            );
        }
    }

    /// Takes a message. The end of a stream that broke the protocol is sent as a goodbye is.
    pub fn receive(&mut self, stream: u64, message: FromAgent, now: Instant, now_ms: u64) {
        self.with(stream, |host, around| {
            if let Err(fault) = host.receive(Ok(message), now, now_ms, around) {
                let effects = host.leave(GoodbyeReason::Protocol, &fault.to_string());
                host.carry_out(effects, around);
            }
        });
    }

    /// News that a stream's session has not looked at; it looks at each by itself, in any order.
    pub fn news(&self, stream: u64) -> Vec<News> {
        let open = self.streams.get(&stream).and_then(|it| it.open.as_ref());
        open.map(Host::pending_news).unwrap_or_default()
    }

    /// Lets a stream's session look at news.
    pub fn on_news(&mut self, stream: u64, news: News, now: Instant, now_ms: u64) {
        self.with(stream, |host, around| {
            if host.on_news(news, now, now_ms, around).is_err() {
                // The stream ends with a status at once, and what waits is not sent any more.
                *around.outgoing = Outgoing::default();
            }
        });
    }

    /// Lets a stream's session look at the clock.
    pub fn tick(&mut self, stream: u64, now: Instant) {
        self.with(stream, |host, around| host.tick(now, around));
    }

    /// When [`Replica::tick`] has something to look at next.
    pub fn next_tick(&self, stream: u64) -> Option<Instant> {
        let open = self.streams.get(&stream)?.open.as_ref()?;
        (!open.is_over()).then(|| open.next_tick())
    }

    /// Sets which instances are out of service.
    pub fn set_drains(&mut self, instances: impl IntoIterator<Item = String>) {
        let read: HashSet<String> = instances.into_iter().collect();
        self.drains.send_if_modified(|known| {
            let changed = known.as_deref() != Some(&read);
            if changed {
                *known = Some(Arc::new(read));
            }
            changed
        });
    }

    /// Sets which identities lost their authorization; an agent's identity is its instance.
    pub fn set_revoked(&mut self, identities: impl IntoIterator<Item = String>) {
        self.revoked
            .send_replace(Arc::new(identities.into_iter().collect()));
    }

    /// Sets how often agents should report.
    pub fn set_report_interval(&mut self, interval: Duration) {
        self.report_interval = interval;
    }

    /// Takes the hint that a living copy of an agent was turned away.
    pub fn on_duplicate(&mut self, gateway: &str, instance: &str) {
        self.sessions
            .note_duplicate(&(gateway.to_owned(), instance.to_owned()));
    }

    /// Takes the instances whose records are to be removed from the live view.
    pub fn take_forgotten(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.forgotten)
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
            open.is_none_or(Host::is_over)
        })
    }

    /// The stream is gone, whoever ended it.
    pub fn hang_up(&mut self, stream: u64) {
        let Some(mut it) = self.streams.remove(&stream) else {
            return;
        };
        if let Some(mut host) = it.open.take() {
            let mut around = Around {
                outgoing: &mut it.outgoing,
                records: &mut self.records,
                facts: &mut self.facts,
                transitions: &mut self.transitions,
                forgotten: &mut self.forgotten,
                lease_requests: &mut self.lease_requests,
                report_interval: self.report_interval,
            };
            host.finish(&mut around);
            host.close(&mut around);
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

    /// Takes the next changes of state for the configuration database, to be stored together;
    /// [`Replica::transitions_written`] before the next.
    pub fn next_transitions(&mut self) -> Vec<TimelineEntry> {
        self.transitions.take()
    }

    /// Takes what came of storing changes of state.
    pub fn transitions_written(&mut self, written: Written) {
        self.transitions.done(written.into());
    }
}
