//! One session with everything around it but its socket, as a plain value: what it follows, its
//! entry in the register, its agent's authorization, and what its effects mean. The stream and the
//! simulation drive the same one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_model::transition::TimelineEntry;
use lanekeeper_model::{AgentRecord, GatewayName, PoolName, PoolTraffic};
use lanekeeper_proto::Unfit;
use lanekeeper_proto::message::{
    FromAgent, FromServer, Goodbye, GoodbyeReason, Hello, ProbeLeaseRequest,
};
use lanekeeper_store::AgentFacts;
use tonic::Status;

use crate::enrolment::authorization::Authorization;
use crate::hosting::intake::facts;
use crate::hosting::news::{News, Subscriptions};
use crate::hosting::sessions::Entered;
use crate::publish::outbox::Key;
use crate::session::{Effect, Fault, Opening, Rules, Session};

/// What a hosted session hands its results to.
pub(crate) trait Surroundings {
    /// Queues a message for the agent.
    fn send(&mut self, message: FromServer);
    /// Queues the agent's record for the live view.
    fn put_record(&mut self, key: Key, record: &Arc<AgentRecord>, notable: bool);
    /// Queues what outlives the agent for the configuration database.
    fn put_facts(&mut self, key: Key, facts: AgentFacts);
    /// Adds what came of requests on the agent since its report before, `over` ago.
    fn add_traffic(
        &mut self,
        gateway: &GatewayName,
        pools: &[(PoolName, PoolTraffic)],
        over: Duration,
    );
    /// Stops keeping the agent's record.
    fn release(&mut self, key: &Key);
    /// Asks leases of probes for the agent, or gives them back.
    fn lease(&mut self, key: Key, request: ProbeLeaseRequest);
    /// Takes the record of an agent that lost its authorization out of the live view.
    fn forget(&mut self, key: &Key);
    /// Queues an agent's changes of state for the configuration database.
    fn put_transitions(&mut self, key: Key, entries: Vec<TimelineEntry>);
    /// Up to which number an agent's changes of state are stored, as far as it is known here.
    fn transitions_stored(&self, key: &Key) -> u64;
    /// How often agents should report now.
    fn report_interval(&self) -> Duration;
    /// Counts an effect and traces it.
    fn observe(&mut self, _effect: &Effect, _record: &AgentRecord) {}
}

/// A session in the register, for as long as it lives.
pub(crate) struct Host {
    session: Session,
    entered: Entered,
    subscriptions: Subscriptions,
    authorization: Authorization,
    goodbye_jitter: Duration,
    /// When the agent's last message came, unix milliseconds: a session may end long after.
    heard_ms: u64,
    authorization_lost: bool,
}

/// What a session is opened with, beside its Hello.
pub(crate) struct Admitted {
    pub(crate) protocol: u32,
    pub(crate) session_epoch: u64,
    /// The gateway's newest revision; `None` while there is no such gateway.
    pub(crate) head: Option<u64>,
    pub(crate) entered: Entered,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) authorization: Authorization,
    pub(crate) goodbye_jitter: Duration,
}

impl Host {
    /// Opens the session; the value beside it is to be passed to [`Host::carry_out`].
    pub(crate) fn open(
        hello: Hello,
        rules: &Rules,
        mut admitted: Admitted,
        now: Instant,
        now_ms: u64,
    ) -> (Self, Vec<Effect>) {
        let follows = &mut admitted.subscriptions;
        let targets = follows.targets.borrow_and_update().clone();
        follows.drains.mark_changed();
        let opening = Opening {
            session_epoch: admitted.session_epoch,
            control_epoch: follows.control_epoch.borrow_and_update().clone(),
            head: admitted.head,
            target: targets.map(|it| Arc::clone(it.of(&hello.name, &hello.labels))),
            overrides: follows.overrides.borrow_and_update().clone(),
            advice: follows.advice.borrow_and_update().clone(),
            identity: admitted.authorization.identity().map(|it| it.id.clone()),
            now,
            now_ms,
        };
        let (session, effects) = Session::open(hello, admitted.protocol, rules, opening);
        let host = Self {
            session,
            entered: admitted.entered,
            subscriptions: admitted.subscriptions,
            authorization: admitted.authorization,
            goodbye_jitter: admitted.goodbye_jitter,
            heard_ms: now_ms,
            authorization_lost: false,
        };
        (host, effects)
    }

    /// What the control plane knows about the agent now.
    pub(crate) fn record(&self) -> &AgentRecord {
        self.session.record()
    }

    /// The session is over, so the stream ends once everything is sent.
    pub(crate) fn is_over(&self) -> bool {
        self.authorization_lost || self.session.is_closed()
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
        around: &mut impl Surroundings,
    ) -> Result<(), Fault> {
        self.heard_ms = now_ms;
        self.session.set_report_interval(around.report_interval());
        let stored = around.transitions_stored(self.entered.key());
        self.session.set_transitions_stored(stored);
        let effects = self.session.receive(message, now, now_ms)?;
        self.carry_out(effects, around);
        Ok(())
    }

    /// Looks at what has changed.
    ///
    /// # Errors
    ///
    /// The status to end the stream with when the agent lost its authorization.
    pub(crate) fn on_news(
        &mut self,
        news: News,
        now: Instant,
        now_ms: u64,
        around: &mut impl Surroundings,
    ) -> Result<(), Status> {
        let follows = &mut self.subscriptions;
        let effects = match news {
            News::Targets => {
                let targets = follows.targets.borrow_and_update().clone();
                let record = self.session.record();
                let target = targets.map(|it| Arc::clone(it.of(&record.name, &record.labels)));
                self.session.set_target(target, now)
            }
            News::Overrides => {
                let overrides = follows.overrides.borrow_and_update().clone();
                self.session.set_overrides(overrides, now, now_ms)
            }
            News::Advice => {
                let advice = follows.advice.borrow_and_update().clone();
                self.session.set_advice(advice, now).into_iter().collect()
            }
            News::Leases => {
                let lease = self.entered.take_leases();
                self.session.pass_leases(lease).into_iter().collect()
            }
            News::Drains => {
                let instance = &self.session.record().instance;
                let drains = follows.drains.borrow_and_update();
                let active = drains.as_ref().map(|drains| drains.contains(instance));
                drop(drains);
                // The agent keeps to what it was sent last until the list has been read.
                active.map_or_else(Vec::new, |active| self.session.drain(active, now))
            }
            News::AuthorizationLost => {
                if let Err(status) = self.authorization.check() {
                    self.authorization_lost = true;
                    return Err(status);
                }
                Vec::new()
            }
            News::Duplicate => {
                self.entered.copied.mark_unchanged();
                self.session.on_duplicate(now)
            }
            News::Shutdown => self.leave(GoodbyeReason::Shutdown, "the control plane stops"),
            News::Replaced => self.leave(
                GoodbyeReason::Replaced,
                "this agent instance opened a newer session",
            ),
            News::ControlEpoch => self.leave(
                GoodbyeReason::Restored,
                "the configuration database has another history now",
            ),
        };
        self.carry_out(effects, around);
        Ok(())
    }

    /// Looks at the clock.
    pub(crate) fn tick(&mut self, now: Instant, around: &mut impl Surroundings) {
        let effects = self.session.tick(now);
        self.carry_out(effects, around);
    }

    /// When [`Host::tick`] has something to look at next.
    pub(crate) fn next_tick(&self) -> Instant {
        self.session.next_tick()
    }

    /// Waits for news. Safe to be dropped half-way: nothing is taken before [`Host::on_news`].
    pub(crate) async fn next_news(&mut self) -> News {
        let follows = &mut self.subscriptions;
        tokio::select! {
            Ok(()) = wait(&mut follows.targets) => News::Targets,
            Ok(()) = wait(&mut follows.overrides) => News::Overrides,
            Ok(()) = wait(&mut follows.advice) => News::Advice,
            Ok(()) = wait(&mut follows.drains) => News::Drains,
            _ = self.authorization.lost() => News::AuthorizationLost,
            Ok(()) = wait(&mut self.entered.leases) => News::Leases,
            Ok(()) = wait(&mut self.entered.copied) => News::Duplicate,
            () = follows.closing.cancelled() => News::Shutdown,
            () = self.entered.replaced.cancelled() => News::Replaced,
            Ok(()) = wait(&mut follows.control_epoch) => News::ControlEpoch,
        }
    }

    /// All news that [`Host::next_news`] could give now.
    #[cfg(feature = "simulation")]
    pub(crate) fn pending_news(&self) -> Vec<News> {
        let follows = &self.subscriptions;
        [
            (
                follows.targets.has_changed().unwrap_or(false),
                News::Targets,
            ),
            (
                follows.overrides.has_changed().unwrap_or(false),
                News::Overrides,
            ),
            (
                self.entered.leases.has_changed().unwrap_or(false),
                News::Leases,
            ),
            (follows.advice.has_changed().unwrap_or(false), News::Advice),
            (follows.drains.has_changed().unwrap_or(false), News::Drains),
            (self.authorization.check().is_err(), News::AuthorizationLost),
            (
                self.entered.copied.has_changed().unwrap_or(false),
                News::Duplicate,
            ),
            (follows.closing.is_cancelled(), News::Shutdown),
            (self.entered.replaced.is_cancelled(), News::Replaced),
            (
                follows.control_epoch.has_changed().unwrap_or(false),
                News::ControlEpoch,
            ),
        ]
        .into_iter()
        .filter_map(|(is_pending, news)| is_pending.then_some(news))
        .collect()
    }

    /// Writes when the agent was last heard of, once no more comes from it.
    pub(crate) fn finish(&mut self, around: &mut impl Surroundings) {
        if !self.authorization_lost {
            self.carry_out(vec![Effect::Facts], around);
        }
    }

    /// Gives up the agent's record, unless a newer session of the instance took the place. The
    /// register's entry goes with the host.
    pub(crate) fn close(&self, around: &mut impl Surroundings) {
        if !self.entered.is_latest() {
            return;
        }
        around.release(self.entered.key());
        if self.authorization_lost {
            around.forget(self.entered.key());
        }
    }

    /// Ends the session in-band.
    pub(crate) fn leave(&mut self, reason: GoodbyeReason, detail: &str) -> Vec<Effect> {
        self.session.leave(Goodbye {
            reason,
            detail: detail.to_owned(),
            reconnect_after: Duration::ZERO,
            jitter: self.goodbye_jitter,
        })
    }

    /// Carries out what the session wants done.
    pub(crate) fn carry_out(&mut self, effects: Vec<Effect>, around: &mut impl Surroundings) {
        let record = self.session.record();
        for effect in effects {
            around.observe(&effect, record);
            let key = || self.entered.key().clone();
            match effect {
                Effect::Send(message) => around.send(message),
                Effect::Record { notable } => around.put_record(key(), record, notable),
                Effect::Facts => {
                    let identity = self.authorization.identity().map(|it| it.id.as_str());
                    around.put_facts(key(), facts(record, identity, self.heard_ms));
                }
                Effect::Leases(request) => around.lease(key(), request),
                Effect::Transitions(entries) => around.put_transitions(key(), entries),
                Effect::Reported(_) => self.entered.note_heard(),
                Effect::Traffic { pools, over } => {
                    around.add_traffic(&record.gateway, &pools, over);
                }
                Effect::Answered { .. } | Effect::Obeyed { .. } | Effect::Close => {}
            }
        }
    }
}

/// Waits for a change without marking it as seen.
async fn wait<T>(
    followed: &mut tokio::sync::watch::Receiver<T>,
) -> Result<(), tokio::sync::watch::error::RecvError> {
    followed.changed().await?;
    followed.mark_changed();
    Ok(())
}
