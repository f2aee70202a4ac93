//! What happens to control planes: they poll, take streams, write what they learn, drive rollouts,
//! die and freeze.

use super::{Event, Fleet, Sabotage, World};
use crate::documents::GATEWAY;
use crate::live::Place;
use crate::network::ServerEnd;
use crate::store::Health;
use lanekeeper_control_plane::simulation::{
    Due, FACTS_WRITERS, FORGET_DELAY, LIVE_WRITERS, News, RETRY_DELAY, Replica, Written,
};
use lanekeeper_model::lease::{ProbeAnswer, ProbeVerdict};
use lanekeeper_model::rollout::{Rollout, Transition};
use lanekeeper_model::{AgentRecord, FreshWindows};
use lanekeeper_proto::message::FromAgent;
use lanekeeper_store::{ANNOUNCE_INTERVAL, AgentFacts, Hint, Put, Share, StoredRollout};
use std::collections::VecDeque;
use std::time::Duration;

/// Between two polls of revisions, and how long one may take.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two polls of overrides.
const OVERRIDES_INTERVAL: Duration = Duration::from_millis(750);
/// Least time from a hint to the poll it asks for.
const POLL_GAP: Duration = Duration::from_millis(20);

/// A machine that a control plane runs on.
pub struct Host {
    pub replica: Option<Replica>,
    /// Counts the processes.
    pub life: u32,
    frozen_until: Option<Duration>,
    deferred: Vec<Event>,
    pub(super) skew_ms: i64,
    config: Poll,
    overrides: Poll,
    writing_records: usize,
    writing_facts: usize,
    announced: bool,
    rewriting: bool,
    /// Where it has got to in the live view, for advice.
    pub(super) place: Place,
    /// A look for advice is due before the usual time.
    pub(super) look_due: bool,
}

/// How far a loop of polls has come.
#[derive(Debug, Default, Clone, Copy)]
struct Poll {
    /// Counts the polls, so that a poll that is over goes no further.
    number: u64,
    began: Duration,
    runs: bool,
    /// A hint came meanwhile.
    again: bool,
}

/// A step of a control plane.
pub enum Work {
    PollRevisions {
        number: u64,
    },
    ReadCourses {
        number: u64,
        epoch: String,
    },
    ReadDocument {
        number: u64,
        epoch: String,
        lacking: VecDeque<(String, u64)>,
    },
    PollOverrides {
        number: u64,
    },
    ReadCounts {
        number: u64,
        epoch: String,
    },
    ReadOverrides {
        number: u64,
        lacking: VecDeque<String>,
    },
    Hint(Hint),
    News {
        stream: u64,
    },
    Tick {
        stream: u64,
    },
    Flush {
        stream: u64,
    },
    StreamEnds {
        stream: u64,
    },
    RecordWritten {
        due: Due<AgentRecord>,
        written: Written,
    },
    RecordWriterFree,
    FactsWritten {
        due: Due<AgentFacts>,
        written: Written,
    },
    FactsWriterFree,
    Announce,
    LookAtRollouts,
    LookForAdvice,
    LookForAdviceSoon,
    LeaseAnswer {
        key: (String, String),
        answer: ProbeAnswer,
    },
    Verdict {
        to: Option<String>,
        verdict: ProbeVerdict,
    },
}

impl Host {
    pub fn new(skew_ms: i64) -> Self {
        Self {
            replica: None,
            life: 0,
            frozen_until: None,
            deferred: Vec::new(),
            skew_ms,
            config: Poll::default(),
            overrides: Poll::default(),
            writing_records: 0,
            writing_facts: 0,
            announced: false,
            rewriting: false,
            place: Place::default(),
            look_due: false,
        }
    }

    pub fn is_up(&self) -> bool {
        self.replica.is_some()
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen_until.is_some()
    }
}

impl World {
    /// A replica asks its agents to report this often, as it does by its load.
    pub(super) fn pace_reports(&mut self, replica: usize, interval: Duration) {
        if let Some(it) = &mut self.hosts[replica].replica {
            it.set_report_interval(interval);
        }
    }

    pub(super) fn replica_ms(&self, replica: usize) -> u64 {
        self.true_ms()
            .saturating_add_signed(self.hosts[replica].skew_ms)
    }

    pub(super) fn work_after(&mut self, replica: usize, delay: Duration, work: Work) {
        let life = self.hosts[replica].life;
        self.after(
            delay,
            Event::Work {
                replica,
                life,
                work,
            },
        );
    }

    pub(super) fn start_replica(&mut self, replica: usize) {
        let host = &mut self.hosts[replica];
        if host.replica.is_some() {
            return;
        }
        *host = Host {
            life: host.life + 1,
            replica: Some(Replica::new()),
            ..Host::new(host.skew_ms)
        };
        self.note(|| format!("replica {replica} starts"));
        self.begin_poll(replica, Duration::ZERO);
        self.begin_overrides(replica, Duration::ZERO);
        self.work_after(replica, Duration::ZERO, Work::Announce);
        self.work_after(replica, Duration::from_secs(1), Work::LookAtRollouts);
        if self.settings.fleet != Fleet::Alone {
            self.work_after(replica, Duration::ZERO, Work::LookForAdvice);
        }
    }

    pub(super) fn freeze_replica(&mut self, replica: usize, lasts: Duration) {
        let host = &mut self.hosts[replica];
        if host.replica.is_some() && host.frozen_until.is_none() {
            host.frozen_until = Some(self.now + lasts);
            self.note(|| format!("replica {replica} freezes for {lasts:?}"));
            self.after(lasts, Event::Thaw { replica });
        }
    }

    pub(super) fn thaw(&mut self, replica: usize) {
        let until = self.hosts[replica].frozen_until;
        if until.is_some_and(|until| until <= self.now) {
            self.thaw_now(replica);
        }
    }

    pub(super) fn thaw_now(&mut self, replica: usize) {
        let host = &mut self.hosts[replica];
        host.frozen_until = None;
        for event in std::mem::take(&mut host.deferred) {
            // What waited is done in any order, nearly at once.
            let delay = self.random.millis(0, 3);
            self.after(delay, event);
        }
        self.note(|| format!("replica {replica} thaws"));
        let mine = self
            .connections
            .iter()
            .filter(|(_, it)| it.replica == replica);
        let mine: Vec<u64> = mine.map(|(id, _)| *id).collect();
        for connection in mine {
            let delay = self.random.millis(0, 3);
            self.after(delay, Event::Up { connection });
        }
    }

    /// A replica process is gone. Its agents hear of it, or not.
    pub(super) fn end_replica(&mut self, replica: usize, down: Duration) {
        let host = &mut self.hosts[replica];
        if host.replica.take().is_none() {
            return;
        }
        let life = host.life;
        host.frozen_until = None;
        host.deferred.clear();
        self.note(|| format!("replica {replica} ends"));
        let silent = self.random.hits(0.2);
        let mine = self.connections.iter().filter(|(_, it)| {
            it.replica == replica && it.replica_life == life && it.server != ServerEnd::Closed
        });
        let mine: Vec<u64> = mine.map(|(id, _)| *id).collect();
        for id in mine {
            self.finish_server_end(id, silent);
        }
        self.after(down, Event::StartReplica { replica });
    }

    /// A replica says goodbye to everyone and ends.
    pub(super) fn stop_replica(&mut self, replica: usize, down: Duration) {
        let (now, now_ms) = (self.instant(), self.replica_ms(replica));
        let host = &self.hosts[replica];
        let streams = match &host.replica {
            Some(it) if host.frozen_until.is_none() => it.streams(),
            Some(_) | None => Vec::new(),
        };
        for stream in streams {
            if let Some(it) = &mut self.hosts[replica].replica {
                it.on_news(stream, News::Shutdown, now, now_ms);
            }
            self.attend(replica, stream);
        }
        self.end_replica(replica, down);
    }

    /// Carries out a step, later if the replica is frozen, and never on its successor.
    pub(super) fn work(&mut self, replica: usize, life: u32, work: Work) {
        let host = &mut self.hosts[replica];
        if host.life != life || host.replica.is_none() {
            return;
        }
        if host.frozen_until.is_some() {
            host.deferred.push(Event::Work {
                replica,
                life,
                work,
            });
            return;
        }
        match work {
            Work::PollRevisions { number } => self.poll_revisions(replica, number),
            Work::ReadCourses { number, epoch } => self.read_courses(replica, number, epoch),
            Work::ReadDocument {
                number,
                epoch,
                lacking,
            } => {
                self.read_document(replica, number, epoch, lacking);
            }
            Work::PollOverrides { number } => self.poll_overrides(replica, number),
            Work::ReadCounts { number, epoch } => self.read_counts(replica, number, epoch),
            Work::ReadOverrides { number, lacking } => {
                self.read_overrides(replica, number, lacking)
            }
            Work::Hint(hint) => self.hint(replica, &hint),
            Work::News { stream } => self.tell_news(replica, stream),
            Work::Tick { stream } => self.tick(replica, stream),
            Work::Flush { stream } => self.attend(replica, stream),
            Work::StreamEnds { stream } => self.close_server_end(stream),
            Work::RecordWritten { due, written } => {
                let Some(it) = &mut self.hosts[replica].replica else {
                    return;
                };
                it.record_written(due, written);
                if written == Written::Older {
                    self.spread_news(replica);
                }
                self.writer_pauses(replica, written, Work::RecordWriterFree);
            }
            Work::RecordWriterFree => {
                self.hosts[replica].writing_records -= 1;
                self.write(replica);
            }
            Work::FactsWritten { due, written } => {
                let Some(it) = &mut self.hosts[replica].replica else {
                    return;
                };
                it.facts_written(due, written);
                self.writer_pauses(replica, written, Work::FactsWriterFree);
            }
            Work::FactsWriterFree => {
                self.hosts[replica].writing_facts -= 1;
                self.write(replica);
            }
            Work::Announce => self.announce(replica),
            Work::LookAtRollouts => self.look_at_rollouts(replica),
            Work::LookForAdvice => self.look_for_advice(replica, false),
            Work::LookForAdviceSoon => self.look_for_advice(replica, true),
            Work::LeaseAnswer { key, answer } => self.answer_lease(replica, &key, answer),
            Work::Verdict { to, verdict } => {
                self.tell_verdict(replica, to.as_deref(), &verdict);
            }
        }
    }

    fn writer_pauses(&mut self, replica: usize, written: Written, then: Work) {
        let pause = match written {
            Written::Done | Written::Older => Duration::ZERO,
            Written::Away => RETRY_DELAY,
        };
        self.work_after(replica, pause, then);
    }

    // What follows is the loops of `config_watch`, `override_watch` and `poll`.

    fn begin_poll(&mut self, replica: usize, delay: Duration) {
        let poll = &mut self.hosts[replica].config;
        *poll = Poll {
            number: poll.number + 1,
            ..Poll::default()
        };
        let number = poll.number;
        self.work_after(replica, delay, Work::PollRevisions { number });
    }

    fn begin_overrides(&mut self, replica: usize, delay: Duration) {
        let poll = &mut self.hosts[replica].overrides;
        *poll = Poll {
            number: poll.number + 1,
            ..Poll::default()
        };
        let number = poll.number;
        self.work_after(replica, delay, Work::PollOverrides { number });
    }

    fn end_poll(&mut self, replica: usize, of_overrides: bool) {
        let host = &self.hosts[replica];
        let (poll, interval) = if of_overrides {
            (host.overrides, OVERRIDES_INTERVAL)
        } else {
            (host.config, POLL_INTERVAL)
        };
        let mut pause = interval.mul_f64(0.8 + 0.4 * self.random.share());
        if poll.again {
            pause = POLL_GAP;
        } else if !of_overrides
            && self.sabotaged(Sabotage::NeverPoll)
            && self.hosts[replica]
                .replica
                .as_ref()
                .is_some_and(Replica::is_ready)
        {
            pause = Duration::from_secs(1_000_000);
        }
        if of_overrides {
            self.begin_overrides(replica, pause);
        } else {
            self.begin_poll(replica, pause);
        }
    }

    fn hint(&mut self, replica: usize, hint: &Hint) {
        let of_overrides = match hint {
            Hint::Overrides { .. } => true,
            Hint::Duplicate { gateway, instance } => {
                if let Some(it) = &mut self.hosts[replica].replica {
                    it.on_duplicate(gateway, instance);
                }
                return self.spread_news(replica);
            }
            Hint::Revision { .. } | Hint::Rollout { .. } => false,
            Hint::Report { .. } => return self.want_advice(replica),
            Hint::ProbeVerdict { lane, .. } => return self.hear_of_verdict(replica, lane),
            _ => return,
        };
        let host = &mut self.hosts[replica];
        let poll = if of_overrides {
            &mut host.overrides
        } else {
            &mut host.config
        };
        if poll.runs {
            poll.again = true;
        } else if of_overrides {
            self.begin_overrides(replica, POLL_GAP);
        } else {
            self.begin_poll(replica, POLL_GAP);
        }
    }

    /// Schedules the next reading of a poll, or ends the poll when the database or the time says
    /// so.
    fn read_on(&mut self, replica: usize, of_overrides: bool, number: u64, next: Work) {
        let host = &self.hosts[replica];
        let poll = if of_overrides {
            host.overrides
        } else {
            host.config
        };
        if poll.number != number {
            return;
        }
        let latency = self.latency();
        match self.store.health(self.now) {
            Health::Fine => self.work_after(replica, latency, next),
            Health::Away => self.end_poll(replica, of_overrides),
            Health::Stalled(until) => {
                let over = poll.began + POLL_TIMEOUT;
                if until < over {
                    self.work_after(replica, until.saturating_sub(self.now) + latency, next);
                } else {
                    // The poll is given up when its time is over; nothing of it comes later.
                    let host = &mut self.hosts[replica];
                    let poll = if of_overrides {
                        &mut host.overrides
                    } else {
                        &mut host.config
                    };
                    poll.number += 1;
                    let number = poll.number;
                    let again = if of_overrides {
                        Work::PollOverrides { number }
                    } else {
                        Work::PollRevisions { number }
                    };
                    self.work_after(replica, over.saturating_sub(self.now), again);
                }
            }
        }
    }

    fn is_polling(&self, replica: usize, of_overrides: bool, number: u64) -> bool {
        let host = &self.hosts[replica];
        let poll = if of_overrides {
            host.overrides
        } else {
            host.config
        };
        poll.number == number
    }

    fn poll_revisions(&mut self, replica: usize, number: u64) {
        if !self.is_polling(replica, false, number) {
            return;
        }
        let poll = &mut self.hosts[replica].config;
        (poll.began, poll.runs) = (self.now, true);
        let epoch = self.store.epoch().to_owned();
        self.read_on(replica, false, number, Work::ReadCourses { number, epoch });
    }

    fn read_courses(&mut self, replica: usize, number: u64, epoch: String) {
        if !self.is_polling(replica, false, number) {
            return;
        }
        let courses = self.store.courses();
        let Some(it) = &mut self.hosts[replica].replica else {
            return;
        };
        let lacking: VecDeque<_> = it.take_courses(&epoch, courses).into();
        self.spread_news(replica);
        self.read_next_document(replica, number, epoch, lacking);
    }

    fn read_next_document(
        &mut self,
        replica: usize,
        number: u64,
        epoch: String,
        lacking: VecDeque<(String, u64)>,
    ) {
        // One document that cannot be read does not keep the epoch.
        if lacking.is_empty() || self.store.health(self.now) == Health::Away {
            let Some(it) = &mut self.hosts[replica].replica else {
                return;
            };
            it.take_epoch(epoch);
            self.spread_news(replica);
            return self.end_poll(replica, false);
        }
        let next = Work::ReadDocument {
            number,
            epoch,
            lacking,
        };
        self.read_on(replica, false, number, next);
    }

    fn read_document(
        &mut self,
        replica: usize,
        number: u64,
        epoch: String,
        mut lacking: VecDeque<(String, u64)>,
    ) {
        if !self.is_polling(replica, false, number) {
            return;
        }
        if let Some((gateway, revision)) = lacking.pop_front()
            && let Some(revision) = self.store.revision(revision)
        {
            let Some(it) = &mut self.hosts[replica].replica else {
                return;
            };
            it.take_document(&gateway, revision);
            self.spread_news(replica);
        }
        self.read_next_document(replica, number, epoch, lacking);
    }

    fn poll_overrides(&mut self, replica: usize, number: u64) {
        if !self.is_polling(replica, true, number) {
            return;
        }
        let poll = &mut self.hosts[replica].overrides;
        (poll.began, poll.runs) = (self.now, true);
        let epoch = self.store.epoch().to_owned();
        self.read_on(replica, true, number, Work::ReadCounts { number, epoch });
    }

    fn read_counts(&mut self, replica: usize, number: u64, epoch: String) {
        if !self.is_polling(replica, true, number) {
            return;
        }
        let counts = self.store.override_counts();
        // Both lists are short and read whole, by polls that go on like this one.
        let drained = self.store.drained().clone();
        let revoked = self.store.revoked().clone();
        let ignores = self.sabotaged(Sabotage::IgnoreRevocations);
        let Some(it) = &mut self.hosts[replica].replica else {
            return;
        };
        it.set_drains(drained);
        if !ignores {
            it.set_revoked(revoked);
        }
        let lacking: VecDeque<_> = it.take_order_counts(epoch, &counts).into();
        self.spread_news(replica);
        self.read_next_overrides(replica, number, lacking);
    }

    fn read_next_overrides(&mut self, replica: usize, number: u64, lacking: VecDeque<String>) {
        if lacking.is_empty() {
            return self.end_poll(replica, true);
        }
        self.read_on(
            replica,
            true,
            number,
            Work::ReadOverrides { number, lacking },
        );
    }

    fn read_overrides(&mut self, replica: usize, number: u64, mut lacking: VecDeque<String>) {
        if !self.is_polling(replica, true, number) {
            return;
        }
        if let Some(gateway) = lacking.pop_front() {
            let standing = self.store.standing(self.replica_ms(replica));
            let Some(it) = &mut self.hosts[replica].replica else {
                return;
            };
            it.take_orders(&gateway, standing);
            self.spread_news(replica);
        }
        self.read_next_overrides(replica, number, lacking);
    }

    // What follows is `stream`.

    /// Sessions hear of what their replica has read, each in its time.
    pub(super) fn spread_news(&mut self, replica: usize) {
        let Some(it) = &self.hosts[replica].replica else {
            return;
        };
        let told: Vec<u64> = it
            .streams()
            .into_iter()
            .filter(|stream| !it.news(*stream).is_empty())
            .collect();
        for stream in told {
            self.news_comes(replica, stream);
        }
    }

    fn news_comes(&mut self, replica: usize, stream: u64) {
        let Some(connection) = self.connections.get_mut(&stream) else {
            return;
        };
        if !std::mem::replace(&mut connection.news_due, true) {
            let delay = self.random.millis(0, 5);
            self.work_after(replica, delay, Work::News { stream });
        }
    }

    fn tell_news(&mut self, replica: usize, stream: u64) {
        let (now, now_ms) = (self.instant(), self.replica_ms(replica));
        if let Some(connection) = self.connections.get_mut(&stream) {
            connection.news_due = false;
        }
        let Some(it) = &mut self.hosts[replica].replica else {
            return;
        };
        let news = it.news(stream);
        if news.is_empty() {
            return;
        }
        let one = *self.random.pick(&news);
        it.on_news(stream, one, now, now_ms);
        let more = !it.news(stream).is_empty() && !it.is_over(stream);
        if more {
            self.news_comes(replica, stream);
        }
        self.attend(replica, stream);
    }

    fn tick(&mut self, replica: usize, stream: u64) {
        let now = self.instant();
        let Some(connection) = self.connections.get_mut(&stream) else {
            return;
        };
        connection.tick_due = None;
        let Some(it) = &mut self.hosts[replica].replica else {
            return;
        };
        if it.next_tick(stream).is_some_and(|at| at <= now) {
            it.tick(stream, now);
        }
        self.attend(replica, stream);
    }

    /// Something may have arrived at a replica.
    pub(super) fn arrive_up(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (agent, replica, life) = (
            connection.agent,
            connection.replica,
            connection.replica_life,
        );
        let host = &self.hosts[replica];
        if host.life != life || !host.is_up() || connection.server == ServerEnd::Closed {
            return;
        }
        if let Some(until) = self.cut_until(agent, replica) {
            return self.at(until, Event::Up { connection: id });
        }
        if host.is_frozen() {
            // Read when it thaws.
            return;
        }
        let (now, now_ms) = (self.instant(), self.replica_ms(replica));
        let Some(it) = &mut self.hosts[replica].replica else {
            return;
        };
        if !it.is_ready() {
            let wait = self.random.millis(1, 50);
            return self.after(wait, Event::Up { connection: id });
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let (mut read, mut copies) = (false, Vec::new());
        while let Some(message) = connection.up.take(self.now) {
            read = true;
            match message {
                FromAgent::Hello(hello) => {
                    connection.server = ServerEnd::Open;
                    let known = hello.previous_session_epoch.unwrap_or(0);
                    let instance = &hello.instance;
                    let later = self.live.later_session(GATEWAY, instance, known, self.now);
                    copies.extend(it.open(id, hello, later.as_ref(), now, now_ms));
                }
                message => {
                    if let FromAgent::Report(_) = &message {
                        let instance = format!("node-{agent}/{}", connection.agent_life);
                        self.checker.hears(&instance, self.now);
                    }
                    it.receive(id, message, now, now_ms);
                }
            }
        }
        let ended = !connection.agent_open && !connection.half_open && connection.up.is_empty();
        if read {
            let agent_life = connection.agent_life;
            self.after(
                Duration::ZERO,
                Event::Wake {
                    agent,
                    life: agent_life,
                },
            );
            // An earlier session of the agent may have been replaced by this one.
            self.spread_news(replica);
            self.attend(replica, id);
        }
        if !self.sabotaged(Sabotage::HideDuplicates) {
            for hint in copies {
                self.publish(&hint);
            }
        }
        if ended {
            self.work_after(replica, Duration::ZERO, Work::StreamEnds { stream: id });
        }
    }

    /// Sends what waits, writes what is to be written, and notes when to look again.
    fn attend(&mut self, replica: usize, id: u64) {
        loop {
            let delay = self.delay();
            let at = self.now + delay;
            let Some(connection) = self.connections.get_mut(&id) else {
                return;
            };
            let Some(it) = &mut self.hosts[replica].replica else {
                return;
            };
            if connection.server != ServerEnd::Open || !connection.down.has_room() {
                break;
            }
            let Some(message) = it.send(id) else { break };
            if connection.agent_open {
                let arrives = connection.down.put(at, message);
                self.at(arrives, Event::Down { connection: id });
            }
        }
        self.write(replica);
        let Some(it) = &self.hosts[replica].replica else {
            return;
        };
        if it.is_over(id) && !it.has_outgoing(id) {
            return self.close_server_end(id);
        }
        let Some(next) = it.next_tick(id) else { return };
        let next = self.since_start(next).max(self.now);
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.tick_due.is_none_or(|due| due > next)
        {
            connection.tick_due = Some(next);
            let wait = next - self.now;
            self.work_after(replica, wait, Work::Tick { stream: id });
        }
    }

    /// The control plane's end closes.
    pub(super) fn close_server_end(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (replica, life) = (connection.replica, connection.replica_life);
        if connection.server == ServerEnd::Closed || self.hosts[replica].life != life {
            return;
        }
        if let Some(it) = &mut self.hosts[replica].replica {
            it.hang_up(id);
            for (_, instance) in it.take_forgotten() {
                self.after(FORGET_DELAY, Event::Forget { instance });
            }
        }
        self.finish_server_end(id, false);
        self.write(replica);
    }

    fn finish_server_end(&mut self, id: u64, silent: bool) {
        let (delay, loses) = (self.delay(), self.random.hits(0.1));
        let at = self.now + delay;
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.server = ServerEnd::Closed;
        if loses {
            connection.down.lose(0);
        }
        let end = connection.down.end(at);
        if connection.agent_open && !connection.half_open && !silent {
            self.at(end, Event::AgentLearnsEnd { connection: id });
        }
    }

    // What follows is the writers of `outbox` and `intake`.

    fn write(&mut self, replica: usize) {
        self.carry_leases(replica);
        let life = self.hosts[replica].life;
        while self.hosts[replica].writing_records < LIVE_WRITERS {
            let host = &mut self.hosts[replica];
            let Some(due) = host.replica.as_mut().and_then(Replica::next_record) else {
                break;
            };
            host.writing_records += 1;
            let latency = self.latency();
            self.after(latency, Event::PutRecord { replica, life, due });
        }
        while self.hosts[replica].writing_facts < FACTS_WRITERS {
            let host = &mut self.hosts[replica];
            let Some(due) = host.replica.as_mut().and_then(Replica::next_facts) else {
                break;
            };
            host.writing_facts += 1;
            let latency = self.latency();
            self.after(latency, Event::PutFacts { replica, life, due });
        }
    }

    /// A record reaches the live view, whatever has become of its sender.
    pub(super) fn put_record(&mut self, replica: usize, life: u32, due: Due<AgentRecord>) {
        let now_ms = self.replica_ms(replica);
        let put = self.live.put(&due.value, self.now, now_ms);
        let latency = self.latency();
        let (delay, written) = match put {
            Ok(Put::Stored) => {
                if due.notable {
                    let hint = Hint::Report {
                        gateway: due.value.gateway.clone(),
                        instance: due.value.instance.clone(),
                    };
                    self.publish(&hint);
                }
                (latency, Written::Done)
            }
            Ok(Put::Older) => (latency, Written::Older),
            Err(_) => (latency + Duration::from_millis(500), Written::Away),
        };
        let work = Work::RecordWritten { due, written };
        self.after(
            delay,
            Event::Work {
                replica,
                life,
                work,
            },
        );
    }

    pub(super) fn put_facts(&mut self, replica: usize, life: u32, due: Due<AgentFacts>) {
        let latency = self.latency();
        let (delay, written) = match self.store.health(self.now) {
            Health::Fine => {
                self.store.record_agent(&due.value);
                let mute = self.now < self.store.mute_until;
                (latency, if mute { Written::Away } else { Written::Done })
            }
            Health::Away => (latency, Written::Away),
            Health::Stalled(until) => (
                until.saturating_sub(self.now).min(POLL_TIMEOUT),
                Written::Away,
            ),
        };
        let work = Work::FactsWritten { due, written };
        self.after(
            delay,
            Event::Work {
                replica,
                life,
                work,
            },
        );
    }

    // What follows is `share`.

    fn announce(&mut self, replica: usize) {
        let host = &mut self.hosts[replica];
        let Some(it) = &mut host.replica else { return };
        host.rewriting &= it.has_backlog();
        let share = Share {
            sessions: it.sessions() as u64,
            rewriting: host.rewriting,
            left: false,
        };
        let name = format!("{replica}/{}", host.life);
        match self.live.announce(&name, share, self.now) {
            Ok(false) if host.announced && !host.rewriting => {
                it.rewrite();
                host.rewriting = true;
                host.announced = false;
                self.note(|| format!("replica {replica} writes its records again"));
                self.write(replica);
                return self.announce(replica);
            }
            Ok(_) => host.announced = true,
            Err(_) => {}
        }
        self.work_after(replica, ANNOUNCE_INTERVAL, Work::Announce);
    }

    // What follows is `rollout`.

    fn look_at_rollouts(&mut self, replica: usize) {
        let pause = Duration::from_secs(1).mul_f64(0.8 + 0.4 * self.random.share());
        self.work_after(replica, pause, Work::LookAtRollouts);
        if self.store.health(self.now) != Health::Fine {
            return;
        }
        let now_ms = self.replica_ms(replica);
        for StoredRollout {
            mut rollout,
            version,
            ..
        } in self.store.running_rollouts()
        {
            let Ok(agents) = self.live.records(GATEWAY, self.now) else {
                return;
            };
            let step = rollout.step(&agents, FreshWindows::default(), now_ms);
            if let Some(transition) = step {
                let latency = self.latency();
                let rollout = Box::new(rollout);
                self.after(
                    latency,
                    Event::StoreStep {
                        rollout,
                        version,
                        transition,
                        now_ms,
                    },
                );
            }
        }
    }

    pub(super) fn store_step(
        &mut self,
        rollout: Rollout,
        version: u64,
        transition: &Transition,
        now_ms: u64,
    ) {
        if self.store.health(self.now) != Health::Fine {
            return;
        }
        let revision = rollout.revision;
        let written = match transition {
            Transition::Stopped { roll_back: true } => self.store.revert(rollout, version, now_ms),
            _ => self
                .store
                .advance(rollout, version, *transition != Transition::Noted, now_ms),
        };
        if written && *transition != Transition::Noted {
            self.note(|| format!("rollout of {revision}: {transition:?}"));
            self.publish(&Hint::Rollout {
                gateway: GATEWAY.into(),
            });
        }
    }
}
