//! Connections: bytes keep their order within one and arrive once or never, as TCP has it. Between
//! connections nothing is in order.

use lanekeeper_proto::message::{FromAgent, FromServer};
use std::collections::VecDeque;
use std::time::Duration;

/// Messages on their way in one direction before the sender has to wait.
const ROOM: usize = 8;

/// One direction of a connection.
#[derive(Debug)]
pub struct Pipe<T> {
    flight: VecDeque<(Duration, T)>,
    last: Duration,
}

impl<T> Default for Pipe<T> {
    fn default() -> Self {
        Self {
            flight: VecDeque::new(),
            last: Duration::ZERO,
        }
    }
}

impl<T> Pipe<T> {
    /// Sends a message that arrives at `at`, or after what is before it. Returns when it arrives.
    pub fn put(&mut self, at: Duration, message: T) -> Duration {
        self.last = self.last.max(at);
        self.flight.push_back((self.last, message));
        self.last
    }

    /// When the end of this direction arrives that is sent now and would be there at `at`.
    pub fn end(&mut self, at: Duration) -> Duration {
        self.last.max(at)
    }

    pub fn has_room(&self) -> bool {
        self.flight.len() < ROOM
    }

    pub fn is_empty(&self) -> bool {
        self.flight.is_empty()
    }

    /// The next message, if it has arrived.
    pub fn take(&mut self, now: Duration) -> Option<T> {
        if self.flight.front().is_none_or(|(at, _)| *at > now) {
            return None;
        }
        self.flight.pop_front().map(|(_, message)| message)
    }

    /// Loses what has not arrived, but for the first `kept` messages.
    pub fn lose(&mut self, kept: usize) {
        self.flight.truncate(kept);
    }
}

/// What the control plane's end of a connection knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerEnd {
    /// The Hello has not been read.
    Unseen,
    Open,
    Closed,
}

/// A connection of an agent with a replica. Its number is the stream's as well.
#[derive(Debug)]
pub struct Connection {
    pub agent: usize,
    pub agent_life: u32,
    pub replica: usize,
    pub replica_life: u32,
    pub up: Pipe<FromAgent>,
    pub down: Pipe<FromServer>,
    pub agent_open: bool,
    /// The agent's end is a copy of the agent.
    pub is_copy: bool,
    pub server: ServerEnd,
    /// When either end last heard the other one's keepalive.
    pub alive: Duration,
    /// An end that goes leaves the other without a word.
    pub half_open: bool,
    /// The time of the control plane's next look at the clock for this stream.
    pub tick_due: Option<Duration>,
    /// News wait to be told.
    pub news_due: bool,
}

impl Connection {
    pub fn new(agent: (usize, u32), replica: (usize, u32), now: Duration) -> Self {
        Self {
            agent: agent.0,
            agent_life: agent.1,
            replica: replica.0,
            replica_life: replica.1,
            up: Pipe::default(),
            down: Pipe::default(),
            agent_open: true,
            is_copy: false,
            server: ServerEnd::Unseen,
            alive: now,
            half_open: false,
            tick_due: None,
            news_due: false,
        }
    }

    /// Neither end knows of it any more.
    pub fn is_over(&self) -> bool {
        !self.agent_open && self.server == ServerEnd::Closed
    }
}
