//! Second processes under the instance of an agent: virtual machines that were copied, or
//! containers thawed from one image. One knows nothing of the sessions of the agent that lives.

use super::{Event, World};
use crate::network::Connection;
use lanekeeper_agent::simulation::OPEN_TIMEOUT;
use lanekeeper_proto::limits::KEEPALIVE_INTERVAL;
use lanekeeper_proto::message::{FromAgent, Hello};
use std::time::Duration;

/// The wait of a copy between two dials, in seconds: what it is asked for when it is turned away.
const REDIAL_SECS: (u64, u64) = (60, 120);

impl World {
    /// Starts a copy of an agent that dials after `wait`, until the agent is gone.
    pub(super) fn copy_agent(&mut self, agent: usize, wait: Duration) {
        let life = self.nodes[agent].life;
        self.copies.insert(agent, life);
        self.after(wait, Event::DialCopy { agent, life });
    }

    pub(super) fn dial_copy(&mut self, agent: usize, life: u32) {
        let node = &self.nodes[agent];
        if self.copies.get(&agent) != Some(&life) {
            return;
        }
        if node.life != life || node.agent.is_none() {
            self.copies.remove(&agent);
            return;
        }
        let (from, to) = REDIAL_SECS;
        let wait = self.random.secs(from, to);
        self.after(wait, Event::DialCopy { agent, life });
        let replica = self.random.below(self.hosts.len());
        let host = &self.hosts[replica];
        let Some(hello) = self.nodes[agent].hello.clone() else {
            return;
        };
        if !host.is_up() || self.cut_until(agent, replica).is_some() {
            return;
        }
        let mut made = Connection::new((agent, life), (replica, host.life), self.now);
        made.is_copy = true;
        self.connections_made += 1;
        let id = self.connections_made;
        self.connections.insert(id, made);
        self.note(|| format!("a copy of node-{agent}/{life} dials replica {replica} as {id}"));
        let hello = Hello {
            previous_session_epoch: None,
            ..hello
        };
        self.send_up(id, FromAgent::Hello(hello));
        self.after(OPEN_TIMEOUT, Event::Unopened { connection: id });
        self.after(KEEPALIVE_INTERVAL / 4, Event::Keepalive { connection: id });
    }

    /// A copy ends its connection, whatever it was sent: a session that it got it does not use.
    pub(super) fn copy_leaves(&mut self, id: u64) {
        if self.connections.get(&id).is_some_and(|it| it.agent_open) {
            self.close_agent_end(id);
        }
    }

    /// An agent whose identity was revoked ends, and starts under another one.
    pub(super) fn restart(&mut self, agent: usize, life: u32) {
        if self.nodes[agent].life == life {
            self.check_revoked(agent);
            self.end_agent(agent, true, Duration::from_secs(1));
        }
    }
}
