//! What happens to agents: they start, dial, talk, try revisions, serve requests and end.

use super::advice::{Advised, lie};
use super::{Event, Sabotage, World, brief};
use crate::documents::{FAILING, GATEWAY, STEADY};
use crate::network::{Connection, ServerEnd};
use lanekeeper_agent::simulation::{
    ABILITY_ADVISORIES, ABILITY_DRAIN, ABILITY_OVERRIDES, ABILITY_PROBE_LEASES, Agent, Attempt,
    Clocks, Disk, Ended, Facts, Kept, KeptOverrides, OPEN_TIMEOUT,
};
use lanekeeper_breaker::{Policy, RefusalReason};
use lanekeeper_model::{LaneName, Override, PoolName, Problem};
use lanekeeper_proto::limits::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use lanekeeper_proto::message::{Bye, FromAgent, FromServer, Goodbye, Hello};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long an attempt may keep a probe's place.
const LEASE: Duration = Duration::from_secs(10);

/// A machine that an agent runs on.
pub struct Node {
    name: String,
    labels: BTreeMap<String, String>,
    policy: Arc<Policy>,
    pub agent: Option<Agent>,
    /// Counts the processes, so that what waits for one does not happen to the next.
    pub life: u32,
    pub disk: Disk,
    /// The overrides on the disk, with the end of each.
    disk_given: Vec<(Override, Duration)>,
    pub connection: Option<u64>,
    /// Its latest Hello.
    pub hello: Option<Hello>,
    pub frozen_until: Option<Duration>,
    pub slow_until: Duration,
    pub weak_until: Duration,
    deferred: Vec<Event>,
    wake_due: Option<Duration>,
    /// The running trial, and those before.
    trials: u64,
    trial_seen: bool,
    /// A dial that waits for a trial to end.
    dial_due: bool,
    served: bool,
    /// The latest set of overrides it was given, with the end of each.
    given: Vec<(Override, Duration)>,
    refused: Vec<u64>,
    attempts: BTreeMap<u64, (Attempt, (PoolName, LaneName))>,
    attempts_made: u64,
    /// What it was advised last, as it was sent.
    pub(super) advised: BTreeMap<(PoolName, LaneName), Advised>,
    /// Since when each of its cells has refused for another agent's probe.
    pub(super) waiting: BTreeMap<(PoolName, LaneName), Duration>,
    /// Its latest success on each cell.
    pub(super) successes: BTreeMap<(PoolName, LaneName), Duration>,
    /// Until when it says that it holds a lane open, whatever is true.
    pub lies: BTreeMap<&'static str, Duration>,
}

impl Node {
    pub fn new(number: usize, policy: &Arc<Policy>) -> Self {
        let mut labels = BTreeMap::new();
        let zone = ["x", "y", "z"][number % 3];
        labels.insert("zone".to_owned(), zone.to_owned());
        if number.is_multiple_of(10) {
            labels.insert("canary".to_owned(), "yes".to_owned());
        }
        Self {
            name: format!("node-{number}"),
            labels,
            policy: Arc::clone(policy),
            agent: None,
            life: 0,
            disk: Disk::default(),
            disk_given: Vec::new(),
            connection: None,
            hello: None,
            frozen_until: None,
            slow_until: Duration::ZERO,
            weak_until: Duration::ZERO,
            deferred: Vec::new(),
            wake_due: None,
            trials: 0,
            trial_seen: false,
            dial_due: false,
            served: false,
            given: Vec::new(),
            refused: Vec::new(),
            attempts: BTreeMap::new(),
            attempts_made: 0,
            advised: BTreeMap::new(),
            waiting: BTreeMap::new(),
            successes: BTreeMap::new(),
            lies: BTreeMap::new(),
        }
    }

    pub fn instance(&self) -> String {
        format!("{}/{}", self.name, self.life)
    }
}

impl World {
    pub(super) fn start_agent(&mut self, number: usize) {
        if self.nodes[number].agent.is_some() {
            return;
        }
        let (now, clocks) = (self.instant(), self.clocks());
        let forgets = self.sabotaged(Sabotage::ForgetOverrides);
        let patient = self.sabotaged(Sabotage::WaitForever);
        let node = &mut self.nodes[number];
        node.life += 1;
        node.wake_due = None;
        node.trial_seen = false;
        node.dial_due = false;
        node.frozen_until = None;
        node.deferred.clear();
        node.attempts.clear();
        node.refused.clear();
        node.given.clear();
        node.advised.clear();
        node.successes.clear();
        node.waiting.clear();
        node.hello = None;
        let facts = Facts {
            gateway: GATEWAY.to_owned(),
            name: node.name.clone(),
            labels: node.labels.clone(),
            instance: node.instance(),
            capabilities: vec![
                ABILITY_OVERRIDES.to_owned(),
                ABILITY_DRAIN.to_owned(),
                ABILITY_ADVISORIES.to_owned(),
                ABILITY_PROBE_LEASES.to_owned(),
            ],
        };
        let policy = Arc::clone(&node.policy);
        node.given.clone_from(&node.disk_given);
        let mut disk = node.disk.clone();
        if forgets {
            disk.overrides = None;
        }
        let agent = Agent::start(facts, &disk, policy, now, clocks);
        if patient {
            agent.wait_for_ever();
        }
        node.served = agent.applied().is_some();
        let cells = agent.cells(now);
        node.agent = Some(agent);
        let (life, instance) = (node.life, node.instance());
        self.checker
            .starts(&instance, &cells, &self.nodes[number].given, self.now);
        self.note(|| format!("node-{number}/{life} starts"));
        self.after(
            Duration::ZERO,
            Event::Dial {
                agent: number,
                life,
            },
        );
        let offset = self.random.millis(0, 1000);
        self.after(
            offset,
            Event::Second {
                agent: number,
                life,
            },
        );
        self.after(
            offset,
            Event::Request {
                agent: number,
                life,
            },
        );
        self.look_at(number);
    }

    /// Lets something happen to an agent, later if it is frozen, and never to its successor.
    pub(super) fn with_agent(
        &mut self,
        number: usize,
        life: u32,
        event: Event,
        act: impl FnOnce(&mut Self, usize),
    ) {
        let node = &mut self.nodes[number];
        if node.life != life || node.agent.is_none() {
            return;
        }
        if node.frozen_until.is_some() {
            node.deferred.push(event);
            return;
        }
        act(self, number);
    }

    pub(super) fn freeze_agent(&mut self, number: usize, lasts: Duration) {
        if self.nodes[number].agent.is_some() && self.nodes[number].frozen_until.is_none() {
            self.nodes[number].frozen_until = Some(self.now + lasts);
            self.note(|| format!("node-{number} freezes for {lasts:?}"));
            self.after(lasts, Event::ThawAgent { agent: number });
        }
    }

    pub(super) fn thaw_agent(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if node.frozen_until.is_none_or(|until| until > self.now) {
            return;
        }
        node.frozen_until = None;
        for event in std::mem::take(&mut node.deferred) {
            self.after(Duration::ZERO, event);
        }
        self.note(|| format!("node-{number} thaws"));
        if let Some(connection) = self.nodes[number].connection {
            self.after(Duration::ZERO, Event::Down { connection });
        }
    }

    /// An agent process is gone.
    pub(super) fn end_agent(&mut self, number: usize, disk: bool, down: Duration) {
        let node = &mut self.nodes[number];
        if node.agent.take().is_none() {
            return;
        }
        node.frozen_until = None;
        node.deferred.clear();
        let instance = node.instance();
        for (attempt, cell) in std::mem::take(&mut node.attempts).into_values() {
            if attempt.is_probe() {
                self.checker.probed(&instance, &cell, attempt.generation());
            }
        }
        if !disk {
            self.nodes[number].disk = Disk::default();
            self.nodes[number].disk_given.clear();
        }
        self.note(|| format!("{instance} ends"));
        if let Some(connection) = self.nodes[number].connection.take() {
            self.close_agent_end(connection);
        }
        self.after(down, Event::Start { agent: number });
    }

    /// An agent process says goodbye and ends.
    pub(super) fn stop_agent(&mut self, number: usize, down: Duration) {
        if let Some(connection) = self.nodes[number].connection
            && self.nodes[number]
                .agent
                .as_ref()
                .is_some_and(Agent::is_open)
        {
            let reason = "the agent stops".to_owned();
            self.send_up(connection, FromAgent::Bye(Bye { reason }));
        }
        self.end_agent(number, true, down);
    }

    pub(super) fn keep(&mut self, number: usize, life: u32, kept: Kept) {
        let node = &mut self.nodes[number];
        if node.life == life && node.agent.is_some() {
            node.disk.configuration = Some(kept);
        }
    }

    pub(super) fn keep_overrides(
        &mut self,
        number: usize,
        life: u32,
        kept: KeptOverrides,
        given: Vec<(Override, Duration)>,
    ) {
        let node = &mut self.nodes[number];
        if node.life == life && node.agent.is_some() {
            node.disk.overrides = Some(kept);
            node.disk_given = given;
        }
    }

    /// Now, by the clocks of every machine.
    fn clocks(&self) -> Clocks {
        Clocks {
            wall_ms: self.true_ms(),
            uptime_ms: self.now.as_millis() as u64,
        }
    }

    pub(super) fn dial(&mut self, number: usize) {
        let (now, true_ms) = (self.instant(), self.true_ms());
        // Agents' clocks are anything.
        let wall_ms =
            true_ms.saturating_add_signed((self.random.share() * 1e9) as i64 - 500_000_000);
        let replica = self.random.below(self.hosts.len());
        let host = &self.hosts[replica];
        let answers = host.is_up() && self.cut_until(number, replica).is_none();
        let host_life = host.life;
        let node = &mut self.nodes[number];
        let life = node.life;
        let Some(agent) = &mut node.agent else { return };
        if agent.trying().is_some() {
            node.dial_due = true;
            return;
        }
        if !answers {
            let wait = agent.hung_up(None, now, self.random.share());
            let refused = self.random.millis(0, 200);
            return self.after(
                wait + refused,
                Event::Dial {
                    agent: number,
                    life,
                },
            );
        }
        let mut hello = agent.dialled(wall_ms, now);
        if self.settings.sabotage == Some(Sabotage::ForgetSessions) {
            hello.previous_session_epoch = None;
        }
        node.hello = Some(hello.clone());
        self.connections_made += 1;
        let id = self.connections_made;
        node.connection = Some(id);
        let made = Connection::new((number, life), (replica, host_life), self.now);
        self.connections.insert(id, made);
        self.note(|| format!("node-{number}/{life} dials replica {replica} as {id}"));
        self.send_up(id, FromAgent::Hello(hello));
        self.after(OPEN_TIMEOUT, Event::Unopened { connection: id });
        self.after(KEEPALIVE_INTERVAL / 4, Event::Keepalive { connection: id });
        self.drive(number);
    }

    pub(super) fn send_up(&mut self, id: u64, message: FromAgent) {
        let delay = self.delay();
        let at = self.now + delay;
        if let Some(connection) = self.connections.get_mut(&id) {
            let arrives = connection.up.put(at, message);
            self.at(arrives, Event::Up { connection: id });
        }
    }

    /// Lets an agent say what it has to say, and see to what came of what it heard.
    pub(super) fn drive(&mut self, number: usize) {
        loop {
            let (now, jitter) = (self.instant(), self.random.share());
            let node = &mut self.nodes[number];
            let Some(agent) = &mut node.agent else { return };
            let Some(id) = node.connection else { break };
            let room = self.connections.get(&id).is_some_and(|it| it.up.has_room());
            match agent.next_message(room, now, jitter) {
                Ok(Some(mut message)) => {
                    if let FromAgent::Report(report) = &mut message {
                        lie(report, &node.lies, self.now);
                    }
                    if let FromAgent::Report(report) = &message
                        && let Some(epoch) = agent.session_epoch()
                    {
                        let instance = &agent.facts().instance;
                        self.checker.sends(instance, epoch, report, self.now);
                    }
                    self.send_up(id, message);
                }
                Ok(None) => break,
                Err(ended) => {
                    self.end_session(number, &ended);
                    break;
                }
            }
        }
        self.look_at(number);
    }

    /// Sees to what an agent does beside its connection.
    fn look_at(&mut self, number: usize) {
        let wake = self.nodes[number].agent.as_ref().and_then(Agent::wake_at);
        let wake = wake.map(|at| self.since_start(at));
        let node = &mut self.nodes[number];
        let life = node.life;
        let Some(agent) = &node.agent else { return };
        let trying = agent.trying().is_some();
        let begins = trying && !node.trial_seen;
        node.trial_seen = trying;
        if begins {
            node.trials += 1;
            let trial = node.trials;
            let slow = self.now < node.slow_until;
            let takes = if slow {
                self.random.secs(1, 75)
            } else {
                self.random.millis(1, 50)
            };
            self.after(
                takes,
                Event::Tried {
                    agent: number,
                    life,
                    trial,
                },
            );
        }
        if let Some(wake) = wake {
            let wake = wake.max(self.now);
            let node = &mut self.nodes[number];
            if node
                .wake_due
                .is_none_or(|due| due > wake || due <= self.now)
            {
                node.wake_due = Some(wake);
                self.at(
                    wake,
                    Event::Wake {
                        agent: number,
                        life,
                    },
                );
            }
        }
        let node = &mut self.nodes[number];
        let Some(agent) = &node.agent else { return };
        match agent.applied() {
            Some((revision, _, epoch)) => {
                node.served = true;
                let instance = node.instance();
                let epoch = epoch.map(str::to_owned);
                self.checker.serves(&instance, revision, epoch.as_deref());
            }
            None if node.served => {
                let what = format!("{} serves nothing any more", node.instance());
                self.checker.broken("I6", what);
            }
            None => {}
        }
    }

    pub(super) fn tried(&mut self, number: usize, trial: u64) {
        let now = self.instant();
        if self.nodes[number].trials != trial {
            return;
        }
        let weak = self.now < self.nodes[number].weak_until && self.random.hits(0.5);
        let obstacle = weak.then(|| Problem::new("", "internal", "out of memory"));
        let node = &mut self.nodes[number];
        let life = node.life;
        let Some(agent) = &mut node.agent else { return };
        if weak {
            node.refused.extend(agent.trying());
        }
        let kept = agent.tried(obstacle, now);
        node.trial_seen = false;
        let dial = std::mem::take(&mut node.dial_due);
        if let Some(kept) = kept {
            let revision = kept.revision;
            self.note(|| format!("node-{number}/{life} applies {revision}"));
            let writes = self.random.millis(1, 50);
            self.after(
                writes,
                Event::Kept {
                    agent: number,
                    life,
                    kept,
                },
            );
        } else {
            self.note(|| format!("node-{number}/{life} refuses a revision"));
        }
        if dial {
            self.after(
                Duration::ZERO,
                Event::Dial {
                    agent: number,
                    life,
                },
            );
        }
        self.drive(number);
        self.listen(number);
    }

    /// Reads what has arrived, as far as the agent reads.
    pub(super) fn listen(&mut self, number: usize) {
        loop {
            let (now, clocks) = (self.instant(), self.clocks());
            let node = &mut self.nodes[number];
            let (Some(agent), Some(id)) = (&mut node.agent, node.connection) else {
                return;
            };
            if node.frozen_until.is_some() || !agent.reads() {
                return;
            }
            let Some(connection) = self.connections.get_mut(&id) else {
                return;
            };
            let (replica, replica_life) = (connection.replica, connection.replica_life);
            let Some(message) = connection.down.take(self.now) else {
                return;
            };
            let given = match &message {
                FromServer::Overrides(overrides) => Some(self.ends_of(&overrides.entries)),
                _ => None,
            };
            if let FromServer::Advisories(advisories) = &message {
                self.nodes[number].advised = self.advised_now(advisories);
            }
            let message = match self.sabotage_message(number, message) {
                Some(message) => message,
                None => continue,
            };
            if let Some(given) = given {
                self.nodes[number].given = given;
            }
            if !matches!(message, FromServer::ReportAck(_)) {
                self.note(|| format!("node-{number} hears {}", brief(&message)));
            }
            let node = &mut self.nodes[number];
            let Some(agent) = &mut node.agent else { return };
            let brings_overrides = matches!(message, FromServer::Overrides(_));
            let brings_advice = matches!(message, FromServer::Advisories(_));
            let heard = agent.receive(message, now);
            let kept = agent
                .kept_overrides(now, clocks)
                .filter(|_| brings_overrides);
            if let Some(kept) = kept {
                let (life, given) = (node.life, node.given.clone());
                let writes = self.random.millis(1, 50);
                self.after(
                    writes,
                    Event::KeptOverrides {
                        agent: number,
                        life,
                        kept,
                        given,
                    },
                );
            }
            if brings_advice {
                self.note_cells(number);
            }
            let flush = super::Work::Flush { stream: id };
            let work = Event::Work {
                replica,
                life: replica_life,
                work: flush,
            };
            self.after(Duration::ZERO, work);
            if let Err(ended) = heard {
                self.end_session(number, &ended);
                self.look_at(number);
                return;
            }
            self.drive(number);
        }
    }

    /// Overrides with their ends, if they arrive now.
    fn ends_of(&self, overrides: &[Override]) -> Vec<(Override, Duration)> {
        let end = |order: &Override| self.now + Duration::from_millis(order.remaining_ms);
        overrides
            .iter()
            .map(|order| (order.clone(), end(order)))
            .collect()
    }

    fn sabotage_message(&mut self, number: usize, message: FromServer) -> Option<FromServer> {
        match (self.settings.sabotage, message) {
            (Some(Sabotage::OverridesForever), FromServer::Overrides(mut overrides)) => {
                for order in &mut overrides.entries {
                    order.remaining_ms += 3_600_000;
                }
                Some(FromServer::Overrides(overrides))
            }
            (Some(Sabotage::RememberRefusals), FromServer::ConfigPush(push)) => {
                if self.nodes[number].refused.contains(&push.revision) {
                    return None;
                }
                Some(FromServer::ConfigPush(push))
            }
            (Some(Sabotage::OverlookSuccess), FromServer::Advisories(mut advisories)) => {
                advisories.iter_mut().for_each(|it| it.evidence_age_ms = 0);
                Some(FromServer::Advisories(advisories))
            }
            (Some(Sabotage::DropDrains), FromServer::Drain(_)) => None,
            (Some(Sabotage::IgnorePace), FromServer::ReportAck(mut ack)) => {
                ack.next_interval = None;
                Some(FromServer::ReportAck(ack))
            }
            (Some(Sabotage::DropOverrides), FromServer::Overrides(overrides))
                if self.random.hits(0.5) =>
            {
                drop(overrides);
                None
            }
            (_, message) => Some(message),
        }
    }

    /// An agent ends its session and will dial again.
    fn end_session(&mut self, number: usize, ended: &Ended) {
        let reason = ended.reason.clone();
        self.note(|| format!("node-{number} ends its session: {reason}"));
        self.redial(number, ended.goodbye.as_ref());
    }

    fn redial(&mut self, number: usize, goodbye: Option<&Goodbye>) {
        let (now, clocks) = (self.instant(), self.clocks());
        let jitter = self.random.share();
        let node = &mut self.nodes[number];
        let life = node.life;
        if let Some(connection) = node.connection.take() {
            self.close_agent_end(connection);
        }
        let node = &mut self.nodes[number];
        let Some(agent) = &mut node.agent else { return };
        let wait = agent.hung_up(goodbye, now, jitter);
        if self.settings.sabotage == Some(Sabotage::ForgetEpoch)
            && let Some(kept) = &node.disk.configuration
        {
            let (facts, policy) = (agent.facts().clone(), Arc::clone(&node.policy));
            let kept = Kept {
                control_epoch: String::new(),
                ..kept.clone()
            };
            let disk = Disk {
                configuration: Some(kept),
                overrides: None,
            };
            *agent = Agent::start(facts, &disk, policy, now, clocks);
        }
        if self.settings.sabotage == Some(Sabotage::ServeConnectedOnly) {
            let facts = agent.facts().clone();
            let policy = Arc::clone(&node.policy);
            *agent = Agent::start(facts, &Disk::default(), policy, now, clocks);
        }
        self.after(
            wait,
            Event::Dial {
                agent: number,
                life,
            },
        );
    }

    /// The agent's end closes: what is on its way may be lost, and the other end learns of it, or
    /// not.
    pub(super) fn close_agent_end(&mut self, id: u64) {
        let (delay, loses) = (self.delay(), self.random.hits(0.3));
        let kept = self.random.below(3);
        let at = self.now + delay;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.agent_open = false;
        if loses {
            connection.up.lose(kept);
        }
        let end = connection.up.end(at);
        if !connection.half_open {
            self.at(end, Event::Up { connection: id });
        }
    }

    pub(super) fn arrive_down(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (agent, replica) = (connection.agent, connection.replica);
        if connection.is_copy {
            return self.copy_leaves(id);
        }
        if self.nodes[agent].connection != Some(id) {
            return;
        }
        if let Some(until) = self.cut_until(agent, replica) {
            return self.at(until, Event::Down { connection: id });
        }
        self.listen(agent);
    }

    /// The other end is gone, and everything it sent has been read.
    pub(super) fn agent_learns_end(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (agent, replica) = (connection.agent, connection.replica);
        if connection.is_copy {
            return self.copy_leaves(id);
        }
        if self.nodes[agent].connection != Some(id) {
            return;
        }
        let frozen = self.nodes[agent].frozen_until;
        if let Some(until) = self.cut_until(agent, replica).max(frozen) {
            return self.at(until, Event::AgentLearnsEnd { connection: id });
        }
        self.listen(agent);
        if self.nodes[agent].connection == Some(id) {
            self.note(|| format!("node-{agent} sees the end of {id}"));
            self.redial(agent, None);
            self.look_at(agent);
        }
    }

    /// The server had time to open the stream.
    pub(super) fn unopened(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let agent = connection.agent;
        if connection.is_copy {
            return self.copy_leaves(id);
        }
        let unseen = connection.server == ServerEnd::Unseen;
        if self.nodes[agent].connection == Some(id) && unseen {
            if let Some(until) = self.nodes[agent].frozen_until {
                return self.at(until, Event::Unopened { connection: id });
            }
            self.note(|| format!("node-{agent} waits no longer for {id} to open"));
            self.redial(agent, None);
            self.look_at(agent);
        }
    }

    /// Both ends ping each other; what does not answer for long is given up.
    pub(super) fn keepalive(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if connection.is_over() {
            self.connections.remove(&id);
            return;
        }
        let (agent, replica) = (connection.agent, connection.replica);
        let cut = self.cut_until(agent, replica).is_some();
        let server_there = connection.server != ServerEnd::Closed
            && self.hosts[replica].life == connection.replica_life
            && self.hosts[replica].is_up();
        let server_answers = server_there && !self.hosts[replica].is_frozen();
        let agent_answers = connection.agent_open && self.nodes[agent].frozen_until.is_none();
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if !cut && server_answers && agent_answers {
            connection.alive = self.now;
        }
        let silent = self.now - connection.alive;
        let (agent_open, server) = (connection.agent_open, connection.server);
        if silent > KEEPALIVE_INTERVAL + KEEPALIVE_TIMEOUT {
            if agent_open && self.nodes[agent].frozen_until.is_none() {
                self.note(|| format!("node-{agent} gives {id} up"));
                if self.nodes[agent].connection == Some(id) {
                    self.redial(agent, None);
                    self.look_at(agent);
                }
            }
            if server != ServerEnd::Closed && server_answers {
                self.close_server_end(id);
            }
        }
        self.after(KEEPALIVE_INTERVAL / 4, Event::Keepalive { connection: id });
    }

    pub(super) fn second(&mut self, number: usize) {
        let now = self.instant();
        let node = &mut self.nodes[number];
        let life = node.life;
        if let Some(agent) = &mut node.agent {
            agent.end_overrides(now);
        }
        self.after(
            Duration::from_secs(1),
            Event::Second {
                agent: number,
                life,
            },
        );
        self.drive(number);
    }

    /// A request comes, and goes to some cell.
    pub(super) fn request(&mut self, number: usize) {
        let now = self.instant();
        let pause = self.random.millis(500, 4000);
        let cell = self.choose_cell(number);
        let node = &mut self.nodes[number];
        let life = node.life;
        let Some(agent) = &mut node.agent else { return };
        if let Some(cell) = cell {
            let instance = agent.facts().instance.clone();
            let admitted = agent.admit(&cell, LEASE, now);
            if matches!(admitted, Err(Some(RefusalReason::FleetProbe))) {
                let since = *node.waiting.entry(cell.clone()).or_insert(self.now);
                let waited = self.now - since;
                let (instance, cell) = (instance.clone(), cell.clone());
                self.check_wait(&instance, &cell, waited);
            } else {
                node.waiting.remove(&cell);
            }
            let node = &mut self.nodes[number];
            match admitted {
                Ok(attempt) => {
                    if attempt.is_probe() {
                        self.leases.probes += 1;
                        self.checker
                            .probes(&instance, &cell, attempt.generation(), self.now);
                    }
                    node.attempts_made += 1;
                    let made = node.attempts_made;
                    node.attempts.insert(made, (attempt, cell));
                    let takes = self.random.millis(5, 3000);
                    self.after(
                        takes,
                        Event::Settle {
                            agent: number,
                            life,
                            attempt: made,
                        },
                    );
                }
                Err(Some(RefusalReason::Override)) => {
                    let given = &node.given;
                    self.checker
                        .obeys(&instance, given, &cell, &self.store, self.now);
                }
                // Some revisions lack a member.
                Err(None) if &*cell.1 == "c" => {}
                Err(why) if why.is_none() || &*cell.1 == STEADY => {
                    let what = format!("{instance} refuses {cell:?}: {why:?}");
                    self.checker.broken("I6", what);
                }
                Err(_) => {}
            }
        }
        self.after(
            pause,
            Event::Request {
                agent: number,
                life,
            },
        );
        self.drive(number);
    }

    pub(super) fn settle(&mut self, number: usize, attempt: u64) {
        let now = self.instant();
        let node = &mut self.nodes[number];
        let Some((attempt, cell)) = node.attempts.remove(&attempt) else {
            return;
        };
        let Some(agent) = &mut node.agent else { return };
        if attempt.is_probe() {
            let instance = &agent.facts().instance;
            self.checker.probed(instance, &cell, attempt.generation());
        }
        let lane = FAILING.iter().find(|lane| ***lane == *cell.1);
        let until = lane.and_then(|lane| self.failing.get(&(number, *lane)));
        let success = until.is_none_or(|until| *until <= self.now);
        if success {
            node.successes.insert(cell.clone(), self.now);
        }
        agent.settle(attempt, success, now);
        if !success {
            self.advice.failed_attempts += 1;
            self.note_cells(number);
        }
        self.drive(number);
    }
}
