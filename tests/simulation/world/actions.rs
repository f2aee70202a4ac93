//! Harm as it is done.

use super::{Event, World, brief};
use crate::network::ServerEnd;
use crate::plan::Action;
use crate::store::Write;
use std::time::Duration;

impl World {
    pub(super) fn do_action(&mut self, number: usize) {
        let action = self.plan[number].1.clone();
        self.note(|| format!("--- {}", brief(&action)));
        match action {
            Action::KillReplica { replica, down } => self.end_replica(replica, down),
            Action::StopReplica { replica, down } => self.stop_replica(replica, down),
            Action::FreezeReplica { replica, lasts } => self.freeze_replica(replica, lasts),
            Action::KillAgents { share, disk, down } => {
                for agent in self.some_agents(share) {
                    self.end_agent(agent, disk, down);
                }
            }
            Action::StopAgent { down } => {
                let agent = self.random.below(self.nodes.len());
                self.stop_agent(agent, down);
            }
            Action::FreezeAgents { share, lasts } => {
                for agent in self.some_agents(share) {
                    self.freeze_agent(agent, lasts);
                }
            }
            Action::Cut {
                share,
                replica,
                lasts,
            } => self.cut(share, replica, lasts),
            Action::Reset { share } => self.reset(share, false),
            Action::HalfOpen { share } => self.reset(share, true),
            Action::SlowNetwork { lasts } => self.slow_until = self.now + lasts,
            Action::StoreAway { lasts } => self.store.away_until = self.now + lasts,
            Action::StoreStalls { lasts } => self.store.stalled_until = self.now + lasts,
            Action::StoreMute { lasts } => self.store.mute_until = self.now + lasts,
            Action::LiveAway { lasts } => self.live.away_until = self.now + lasts,
            Action::LiveFull { lasts } => self.live.full_until = self.now + lasts,
            Action::LiveMute { lasts } => self.live.mute_until = self.now + lasts,
            Action::LiveFlush => self.live.flush(),
            Action::HintsLost { lasts } => self.deaf_until = self.now + lasts,
            Action::LaneFails { lane, share, lasts } => {
                for agent in self.some_agents(share) {
                    self.failing.insert((agent, lane), self.now + lasts);
                }
            }
            Action::Lie { lane, share, lasts } => {
                for agent in self.some_agents(share) {
                    self.nodes[agent].lies.insert(lane, self.now + lasts);
                }
            }
            Action::StepClock { replica, by_ms } => self.step_clock(replica, by_ms),
            Action::SlowAgents { share, lasts } => {
                for agent in self.some_agents(share) {
                    self.nodes[agent].slow_until = self.now + lasts;
                }
            }
            Action::WeakAgents { share, lasts } => {
                for agent in self.some_agents(share) {
                    self.nodes[agent].weak_until = self.now + lasts;
                }
            }
            Action::DrainAgents { share } => {
                let agents = self.some_agents(share).into_iter();
                let instances = agents.map(|agent| self.nodes[agent].instance()).collect();
                self.operate(Write::Drain(instances));
            }
            Action::RevokeAgents { share, restart } => {
                for agent in self.some_agents(share) {
                    self.revoke(agent, restart);
                }
            }
            Action::CopyAgent => {
                let agent = self.random.below(self.nodes.len());
                self.copy_agent(agent, Duration::ZERO);
            }
            Action::PaceReports { replica, interval } => self.pace_reports(replica, interval),
            Action::Dump => self.store.dump(),
            Action::Restore { renewed_after } => {
                self.store.restore();
                self.checker.restored();
                self.after(renewed_after, Event::Renew);
                // Nobody writes between the two.
                self.store.away_until = self.store.away_until.max(self.now + renewed_after);
            }
            Action::Operate(write) => self.operate(write),
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
        let some: Vec<usize> = all.filter(|_| self.random.hits(share)).collect();
        if some.is_empty() {
            return vec![self.random.below(self.nodes.len())];
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
            let by_agent = self.random.hits(0.5);
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
