//! The simulated fleet: a virtual clock, a queue of events, and everyone the events happen to.
//! Whatever waits for a network, a store or a timer is an event; nothing else is concurrent, so one
//! seed is one history.

mod actions;
mod advice;
mod agents;
mod copies;
mod healing;
mod leases;
mod replicas;

use crate::checker::{Checker, Violation};
use crate::documents::{document, policy};
use crate::live::Live;
use crate::network::Connection;
use crate::plan::{self, Action};
use crate::random::Random;
use crate::reader::Reader;
use crate::store::{Done, Store, Write};
pub use advice::{AdviceBook, Times};
use agents::Node;
use lanekeeper_agent::simulation::{Kept, KeptOverrides};
use lanekeeper_control_plane::simulation::Due;
use lanekeeper_model::rollout::{Rollout, Transition};
use lanekeeper_model::{AgentRecord, Override};
use lanekeeper_store::{AgentFacts, Hint};
use leases::Carried;
pub use leases::LeaseBook;
use replicas::{Host, Work};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The true wall time at which simulations begin, in unix milliseconds.
const START_MS: u64 = 1_700_000_000_000;
/// Lines of the trace that are kept.
const TRACE_MAX: usize = 400;
/// Characters of a value that are told.
const LINE_MAX: usize = 150;
/// Time between two readings of an API.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// A rule that is broken on purpose, to see that the checker notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Agents forget under which control epoch they got what they serve.
    ForgetEpoch,
    /// Nothing brings news of a revision but hints.
    NeverPoll,
    /// A revision that an agent refused once is kept from it for ever.
    RememberRefusals,
    /// A write is confirmed before it is committed.
    ConfirmEarly,
    /// The live view takes whatever comes last.
    PutBlindly,
    /// Silent agents count as reporting.
    NeverStale,
    /// Orders do not end by themselves.
    OverridesForever,
    /// An agent without a session serves nothing.
    ServeConnectedOnly,
    /// Two probes run at once.
    TwoProbes,
    /// A repeated write is made again.
    ForgetKeys,
    /// A session's place among all of its agent's is not told to the next replica.
    ForgetSessions,
    /// Hints of overrides are all there is, and they do not survive a reconnect.
    DropOverrides,
    /// A restarted agent does not read the overrides that it kept.
    ForgetOverrides,
    /// Agents do not learn that they are out of service.
    DropDrains,
    /// Control planes do not read which identities are revoked.
    IgnoreRevocations,
    /// The record of an agent that was sent away stays in the live view.
    KeepForgotten,
    /// Nobody publishes that a copy was turned away.
    HideDuplicates,
    /// Agents report as often as at first, whatever they are asked.
    IgnorePace,
    /// One agent that holds a lane open counts as many.
    StuffVotes,
    /// Agents' own successes count for nothing beside advice.
    OverlookSuccess,
    /// Whoever asks may probe.
    PermitAll,
    /// Cells wait for others' probes as long as those take.
    WaitForever,
}

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Settings {
    pub seed: u64,
    pub agents: usize,
    pub replicas: usize,
    pub apis: usize,
    /// How long harm is done.
    pub chaos: Duration,
    pub sabotage: Option<Sabotage>,
    /// Clocks of replicas are set while they run, so that ages in the view mean nothing.
    pub clocks_step: bool,
    /// What agents do together.
    pub fleet: Fleet,
    /// Share of the requests that go to some cell whatever a pool would choose.
    pub direct: f64,
}

/// What agents do together in the first document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fleet {
    /// All there is.
    Acts,
    /// One probe for all; advice is computed and not sent.
    Observes,
    /// Nothing.
    Alone,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub violation: Option<Violation>,
    pub events: u64,
    pub lasted: Duration,
    /// A digest of every event in its order.
    pub digest: u64,
    pub trace: Vec<String>,
    pub advice: AdviceBook,
    pub leases: LeaseBook,
}

/// Something that happens.
enum Event {
    // To agents, by number and life.
    Start {
        agent: usize,
    },
    Dial {
        agent: usize,
        life: u32,
    },
    Wake {
        agent: usize,
        life: u32,
    },
    Second {
        agent: usize,
        life: u32,
    },
    Tried {
        agent: usize,
        life: u32,
        trial: u64,
    },
    Kept {
        agent: usize,
        life: u32,
        kept: Kept,
    },
    KeptOverrides {
        agent: usize,
        life: u32,
        kept: KeptOverrides,
        given: Vec<(Override, Duration)>,
    },
    Request {
        agent: usize,
        life: u32,
    },
    Settle {
        agent: usize,
        life: u32,
        attempt: u64,
    },
    ThawAgent {
        agent: usize,
    },
    /// An agent whose identity was revoked gets another one.
    Restart {
        agent: usize,
        life: u32,
    },
    /// A copy of an agent dials.
    DialCopy {
        agent: usize,
        life: u32,
    },
    // To connections.
    Up {
        connection: u64,
    },
    Down {
        connection: u64,
    },
    AgentLearnsEnd {
        connection: u64,
    },
    Unopened {
        connection: u64,
    },
    Keepalive {
        connection: u64,
    },
    // To replicas.
    Work {
        replica: usize,
        life: u32,
        work: Work,
    },
    StartReplica {
        replica: usize,
    },
    Thaw {
        replica: usize,
    },
    // To stores.
    Forget {
        instance: String,
    },
    Lease {
        replica: usize,
        life: u32,
        carried: Box<Carried>,
    },
    PutRecord {
        replica: usize,
        life: u32,
        due: Due<AgentRecord>,
    },
    PutFacts {
        replica: usize,
        life: u32,
        due: Due<AgentFacts>,
    },
    StoreStep {
        rollout: Box<Rollout>,
        version: u64,
        transition: Transition,
        now_ms: u64,
    },
    Ask {
        request: u64,
        write: Write,
        tries: u32,
    },
    Renew,
    // To readers.
    Read {
        api: usize,
    },
    // To the whole.
    Action {
        number: usize,
    },
    Heal,
    FinalWrites,
    FinalRevocation,
    Check,
}

struct Scheduled {
    at: Duration,
    serial: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

pub struct World {
    settings: Settings,
    origin: Instant,
    now: Duration,
    serial: u64,
    events: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    random: Random,
    plan: Vec<(Duration, Action)>,
    store: Store,
    live: Live,
    hosts: Vec<Host>,
    nodes: Vec<Node>,
    apis: Vec<Reader>,
    connections: BTreeMap<u64, Connection>,
    connections_made: u64,
    /// The life of each agent that has a copy.
    copies: BTreeMap<usize, u32>,
    /// Until when nothing gets through between an agent and a replica.
    cuts: BTreeMap<(usize, usize), Duration>,
    slow_until: Duration,
    deaf_until: Duration,
    /// Until when a lane fails for an agent.
    failing: BTreeMap<(usize, &'static str), Duration>,
    requests: u64,
    healing: healing::Healing,
    checker: Checker,
    advice: AdviceBook,
    leases: LeaseBook,
    trace: Option<VecDeque<String>>,
    digest: DefaultHasher,
}

/// The actions that a seed leads to.
pub fn actions(settings: &Settings) -> Vec<(Duration, Action)> {
    let mut random = Random::new(settings.seed);
    let together = settings.fleet != Fleet::Alone;
    plan::draw(&mut random, settings.replicas, settings.chaos, together)
}

impl World {
    pub fn new(settings: &Settings, mut plan: Vec<(Duration, Action)>, traced: bool) -> Self {
        if settings.fleet == Fleet::Alone {
            for (_, action) in &mut plan {
                if let Action::Operate(Write::Revision(document, _)) = action {
                    for pool in ["chat", "deep"] {
                        document["pools"][pool]["fleet"] = serde_json::json!({"mode": "off"});
                    }
                }
            }
        }
        // Not the random that drew the plan, so that a shorter plan meets the same fleet.
        let mut random = Random::new(settings.seed ^ 0x5eed_5eed_5eed_5eed);
        let probes = if settings.sabotage == Some(Sabotage::TwoProbes) {
            2
        } else {
            1
        };
        let policy = Arc::new(policy(probes));
        let mut skew = || (random.share() * 3000.0) as i64 - 1500;
        let hosts = (0..settings.replicas).map(|_| Host::new(skew())).collect();
        let mut apis: Vec<Reader> = (0..settings.apis)
            .map(|api| Reader::new(api, skew()))
            .collect();
        if settings.sabotage == Some(Sabotage::NeverStale) {
            for api in &mut apis {
                api.windows.stale_after_ms = 3_600_000;
                api.windows.gone_after_ms = 3_600_000;
            }
        }
        let nodes = (0..settings.agents)
            .map(|number| Node::new(number, &policy))
            .collect();
        let mut first = document(1);
        let (mode, probe) = match settings.fleet {
            Fleet::Acts => ("act", "coordinated"),
            Fleet::Observes => ("observe", "coordinated"),
            Fleet::Alone => ("off", "local"),
        };
        for pool in ["chat", "deep"] {
            first["pools"][pool]["fleet"]["mode"] = mode.into();
            first["pools"][pool]["fleet"]["probe"] = probe.into();
        }
        let mut store = Store::new(first, START_MS);
        store.forgets_keys = settings.sabotage == Some(Sabotage::ForgetKeys);
        let mut live = Live::default();
        live.blind = settings.sabotage == Some(Sabotage::PutBlindly);
        let mut world = Self {
            settings: settings.clone(),
            origin: Instant::now(),
            now: Duration::ZERO,
            serial: 0,
            events: 0,
            queue: BinaryHeap::new(),
            random,
            plan,
            store,
            live,
            hosts,
            nodes,
            apis,
            connections: BTreeMap::new(),
            connections_made: 0,
            copies: BTreeMap::new(),
            cuts: BTreeMap::new(),
            slow_until: Duration::ZERO,
            deaf_until: Duration::ZERO,
            failing: BTreeMap::new(),
            requests: 0,
            healing: healing::Healing::default(),
            checker: Checker::new(settings.clocks_step),
            advice: AdviceBook::default(),
            leases: LeaseBook::default(),
            trace: traced.then(VecDeque::new),
            digest: DefaultHasher::new(),
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for replica in 0..self.hosts.len() {
            self.start_replica(replica);
        }
        for agent in 0..self.nodes.len() {
            let after = self.random.millis(0, 3000);
            self.after(after, Event::Start { agent });
        }
        for api in 0..self.apis.len() {
            let after = self.random.millis(0, 1000);
            self.after(after, Event::Read { api });
        }
        for number in 0..self.plan.len() {
            let at = self.plan[number].0;
            self.after(at, Event::Action { number });
        }
        self.after(self.settings.chaos, Event::Heal);
    }

    /// Lets everything happen until the fleet is checked.
    pub fn run(mut self) -> Outcome {
        while self.checker.violation.is_none() && !self.healing.is_over() {
            let Some(Reverse(next)) = self.queue.pop() else {
                self.checker
                    .broken("I2", "nothing happens any more".to_owned());
                break;
            };
            self.now = next.at;
            self.events += 1;
            (next.at, next.serial).hash(&mut self.digest);
            self.happen(next.event);
        }
        if let Some(violation) = self.checker.violation.clone() {
            self.note(|| format!("{} is broken: {}", violation.invariant, violation.what));
        }
        Outcome {
            violation: self.checker.violation,
            events: self.events,
            lasted: self.now,
            digest: self.digest.finish(),
            trace: self.trace.unwrap_or_default().into(),
            advice: self.advice,
            leases: self.leases,
        }
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.serial += 1;
        self.queue.push(Reverse(Scheduled {
            at: at.max(self.now),
            serial: self.serial,
            event,
        }));
    }

    /// Adds a line to the trace, if there is one.
    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            if trace.len() == TRACE_MAX {
                trace.pop_front();
            }
            trace.push_back(format!("{:>10.4} {}", self.now.as_secs_f64(), line()));
        }
    }

    /// Monotonic time, the same everywhere.
    fn instant(&self) -> Instant {
        self.instant_at(self.now)
    }

    fn instant_at(&self, at: Duration) -> Instant {
        self.origin + at
    }

    fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.origin)
    }

    /// True wall time in unix milliseconds.
    fn true_ms(&self) -> u64 {
        START_MS + self.now.as_millis() as u64
    }

    fn sabotaged(&self, sabotage: Sabotage) -> bool {
        self.settings.sabotage == Some(sabotage)
    }

    /// How long something takes on the network.
    fn delay(&mut self) -> Duration {
        if self.now < self.slow_until {
            self.random.millis(1, 2000)
        } else {
            self.random.millis(0, 15)
        }
    }

    /// How long a store takes.
    fn latency(&mut self) -> Duration {
        self.random.millis(0, 10)
    }

    /// Until when nothing gets through, if that is so.
    fn cut_until(&self, agent: usize, replica: usize) -> Option<Duration> {
        let until = self.cuts.get(&(agent, replica))?;
        (*until > self.now).then_some(*until)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start { agent } => self.start_agent(agent),
            Event::Dial { agent, life } => self.with_agent(agent, life, event, Self::dial),
            Event::Wake { agent, life } => self.with_agent(agent, life, event, Self::drive),
            Event::Second { agent, life } => self.with_agent(agent, life, event, Self::second),
            Event::Tried { agent, life, trial } => {
                self.with_agent(agent, life, event, |it, agent| it.tried(agent, trial));
            }
            Event::Kept { agent, life, kept } => self.keep(agent, life, kept),
            Event::KeptOverrides {
                agent,
                life,
                kept,
                given,
            } => self.keep_overrides(agent, life, kept, given),
            Event::Request { agent, life } => self.with_agent(agent, life, event, Self::request),
            Event::Settle {
                agent,
                life,
                attempt,
            } => {
                self.with_agent(agent, life, event, |it, agent| it.settle(agent, attempt));
            }
            Event::ThawAgent { agent } => self.thaw_agent(agent),
            Event::Restart { agent, life } => self.restart(agent, life),
            Event::DialCopy { agent, life } => self.dial_copy(agent, life),
            Event::Forget { instance } => {
                if !self.sabotaged(Sabotage::KeepForgotten) {
                    let gateway = crate::documents::GATEWAY;
                    self.live.forget(gateway, &instance, self.now);
                }
            }
            Event::Up { connection } => self.arrive_up(connection),
            Event::Down { connection } => self.arrive_down(connection),
            Event::AgentLearnsEnd { connection } => self.agent_learns_end(connection),
            Event::Unopened { connection } => self.unopened(connection),
            Event::Keepalive { connection } => self.keepalive(connection),
            Event::Work {
                replica,
                life,
                work,
            } => self.work(replica, life, work),
            Event::StartReplica { replica } => self.start_replica(replica),
            Event::Thaw { replica } => self.thaw(replica),
            Event::Lease {
                replica,
                life,
                carried,
            } => self.lease(replica, life, *carried),
            Event::PutRecord { replica, life, due } => self.put_record(replica, life, due),
            Event::PutFacts { replica, life, due } => self.put_facts(replica, life, due),
            Event::StoreStep {
                rollout,
                version,
                transition,
                now_ms,
            } => {
                self.store_step(*rollout, version, &transition, now_ms);
            }
            Event::Ask {
                request,
                write,
                tries,
            } => self.ask(request, write, tries),
            Event::Renew => {
                self.store.renew_epoch();
                self.note(|| "a new control epoch begins".to_owned());
            }
            Event::Read { api } => self.read(api),
            Event::Action { number } => self.do_action(number),
            Event::Heal => self.heal(),
            Event::FinalWrites => self.final_writes(),
            Event::FinalRevocation => self.final_revocation(),
            Event::Check => self.check_healing(),
        }
    }

    fn read(&mut self, api: usize) {
        let (now, true_ms) = (self.now, self.true_ms());
        let store = (self.store.health(now) == crate::store::Health::Fine).then_some(&self.store);
        self.apis[api].read(&self.live, store, &mut self.checker, now, true_ms);
        let pause = READ_INTERVAL.mul_f64(0.5 + self.random.share());
        self.after(pause, Event::Read { api });
    }

    /// An operator's request reaches an API, which may fail it; operators repeat themselves.
    fn ask(&mut self, request: u64, write: Write, tries: u32) {
        use crate::store::Health;
        if self
            .healing
            .last_request
            .is_some_and(|last| request <= last)
        {
            return;
        }
        self.checker.asks(request);
        let retry = |it: &mut Self, write| {
            if tries > 0 {
                let pause = it.random.millis(500, 4000);
                it.after(
                    pause,
                    Event::Ask {
                        request,
                        write,
                        tries: tries - 1,
                    },
                );
            }
        };
        match self.store.health(self.now) {
            Health::Stalled(until) => self.at(
                until,
                Event::Ask {
                    request,
                    write,
                    tries,
                },
            ),
            Health::Away => {
                if self.sabotaged(Sabotage::ConfirmEarly) && matches!(write, Write::Revision(..)) {
                    let (number, hash) = self.store.head();
                    let done = Done::Revision(number + 1, format!("{hash}, never written"));
                    self.checker.confirms(request, done);
                    return;
                }
                retry(self, write);
            }
            Health::Fine => {
                let now_ms = self.true_ms();
                let done = self.store.write(request, &write, now_ms);
                self.note(|| format!("request {request} {}: {done:?}", brief(&write)));
                let hint = match &write {
                    Write::Override { .. }
                    | Write::Release
                    | Write::ReleaseAll
                    | Write::Drain(_)
                    | Write::Undrain
                    | Write::Revoke(_) => Hint::Overrides {
                        gateway: crate::documents::GATEWAY.into(),
                    },
                    _ => Hint::Revision {
                        gateway: crate::documents::GATEWAY.into(),
                    },
                };
                self.publish(&hint);
                if self.now < self.store.mute_until {
                    retry(self, write);
                } else {
                    self.checker.confirms(request, done);
                }
                self.checker.audits(&self.store);
            }
        }
    }

    /// Sends a hint to every replica. Hints may be lost, and are late.
    fn publish(&mut self, hint: &Hint) {
        if self.now < self.live.away_until || self.now < self.deaf_until {
            return;
        }
        for replica in 0..self.hosts.len() {
            let life = self.hosts[replica].life;
            let delay = self.random.millis(0, 30);
            let work = Work::Hint(hint.clone());
            self.after(
                delay,
                Event::Work {
                    replica,
                    life,
                    work,
                },
            );
        }
    }
}

/// The beginning of what a value looks like.
pub fn brief(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").chars().take(LINE_MAX).collect()
}
