//! Harm as it is done.

use super::{Event, World, brief};
use crate::network::ServerEnd;
use crate::plan::Deed;
use crate::store::Write;
use std::time::Duration;

impl World {
    pub(super) fn do_deed(&mut self, number: usize) {
        let deed = self.plan[number].1.clone();
        self.note(|| format!("--- {}", brief(&deed)));
        match deed {
            Deed::KillReplica { replica, down } => self.end_replica(replica, down),
            Deed::StopReplica { replica, down } => self.stop_replica(replica, down),
            Deed::FreezeReplica { replica, lasts } => self.freeze_replica(replica, lasts),
            Deed::KillAgents { share, disk, down } => {
                for agent in self.some_agents(share) {
                    self.end_agent(agent, disk, down);
                }
            }
            Deed::StopAgent { down } => {
                let agent = self.chance.below(self.nodes.len());
                self.stop_agent(agent, down);
            }
            Deed::FreezeAgents { share, lasts } => {
                for agent in self.some_agents(share) {
                    self.freeze_agent(agent, lasts);
                }
            }
            Deed::Cut {
                share,
                replica,
                lasts,
            } => self.cut(share, replica, lasts),
            Deed::Reset { share } => self.reset(share, false),
            Deed::HalfOpen { share } => self.reset(share, true),
            Deed::SlowNetwork { lasts } => self.slow_until = self.now + lasts,
            Deed::StoreAway { lasts } => self.store.away_until = self.now + lasts,
            Deed::StoreStalls { lasts } => self.store.stalled_until = self.now + lasts,
            Deed::StoreMute { lasts } => self.store.mute_until = self.now + lasts,
            Deed::LiveAway { lasts } => self.live.away_until = self.now + lasts,
            Deed::LiveFull { lasts } => self.live.full_until = self.now + lasts,
            Deed::LiveMute { lasts } => self.live.mute_until = self.now + lasts,
            Deed::LiveFlush => self.live.flush(),
            Deed::HintsLost { lasts } => self.deaf_until = self.now + lasts,
            Deed::LaneFails { lane, share, lasts } => {
                for agent in self.some_agents(share) {
                    self.failing.insert((agent, lane), self.now + lasts);
                }
            }
            Deed::SlowAgents { share, lasts } => {
                for agent in self.some_agents(share) {
                    self.nodes[agent].slow_until = self.now + lasts;
                }
            }
            Deed::WeakAgents { share, lasts } => {
                for agent in self.some_agents(share) {
                    self.nodes[agent].weak_until = self.now + lasts;
                }
            }
            Deed::DrainAgents { share } => {
                let agents = self.some_agents(share).into_iter();
                let instances = agents.map(|agent| self.nodes[agent].instance()).collect();
                self.operate(Write::Drain(instances));
            }
            Deed::RevokeAgents { share, restart } => {
                for agent in self.some_agents(share) {
                    self.revoke(agent, restart);
                }
            }
            Deed::CopyAgent => {
                let agent = self.chance.below(self.nodes.len());
                self.copy_agent(agent, Duration::ZERO);
            }
            Deed::PaceReports { replica, interval } => self.pace_reports(replica, interval),
            Deed::Dump => self.store.dump(),
            Deed::Restore { renewed_after } => {
                self.store.restore();
                self.judge.restored();
                self.after(renewed_after, Event::Renew);
                // Nobody writes between the two.
                self.store.away_until = self.store.away_until.max(self.now + renewed_after);
            }
            Deed::Operate(write) => self.operate(write),
        }
    }

    /// An operator asks for something.
    pub(super) fn operate(&mut self, write: Write) {
        self.requests += 1;
        let (request, tries) = (self.requests, 5);
        self.after(
            Duration::ZERO,
            Event::Ask {
                request,
                write,
                tries,
            },
        );
    }

    /// Revokes an agent's identity; it starts again under another one later.
    pub(super) fn revoke(&mut self, agent: usize, restart: Duration) {
        let life = self.nodes[agent].life;
        self.operate(Write::Revoke(self.nodes[agent].instance()));
        self.after(restart, Event::Restart { agent, life });
    }

    fn some_agents(&mut self, share: f64) -> Vec<usize> {
        let all = 0..self.nodes.len();
        let some: Vec<usize> = all.filter(|_| self.chance.hits(share)).collect();
        if some.is_empty() {
            return vec![self.chance.below(self.nodes.len())];
        }
        some
    }

    fn cut(&mut self, share: f64, replica: Option<usize>, lasts: Duration) {
        let until = self.now + lasts;
        for agent in self.some_agents(share) {
            for number in 0..self.hosts.len() {
                if replica.is_none_or(|only| only == number) {
                    self.cuts.insert((agent, number), until);
                }
            }
        }
    }

    /// Ends connections; with `half` only one end hears of it, until it says something.
    pub(super) fn reset(&mut self, share: f64, half: bool) {
        for agent in self.some_agents(share) {
            let Some(id) = self.nodes[agent].connection else {
                continue;
            };
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let by_agent = self.chance.hits(0.5);
            connection.half_open = half;
            connection.up.lose(0);
            connection.down.lose(0);
            if !half || by_agent {
                self.after(Duration::ZERO, Event::AgentLearnsEnd { connection: id });
            }
            if !half || !by_agent {
                let known = self
                    .connections
                    .get(&id)
                    .is_some_and(|it| it.server == ServerEnd::Open);
                if known {
                    self.close_server_end(id);
                }
            }
        }
    }
}
