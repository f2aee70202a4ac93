//! What agents do together: the fleet's advice, and leases of probes.

use std::time::Instant;

use lanekeeper_model::GatewayName;
use lanekeeper_model::fleet::Advice;
use lanekeeper_model::lease::{ProbeAnswer, ProbeVerdict};
use lanekeeper_proto::message::ProbeLeaseRequest;
use lanekeeper_store::Changes;

use super::Replica;
use crate::follow::advice;

impl Replica {
    /// Takes what changed in the live view, and gives sessions what the fleet advises as of now.
    /// The value is what is advised anew.
    pub fn take_changes(
        &mut self,
        changes: Changes,
        now: Instant,
        now_ms: u64,
    ) -> Vec<(GatewayName, Advice)> {
        for (gateway, target) in self.advice.lacking(self.config.newest()) {
            let rules = advice::Rules::read(&target.document);
            self.advice.take_rules(&gateway, &target, rules);
        }
        self.advice.take_changes(changes, now);
        let turns = self.advice.look(now, now_ms).into_iter();
        turns.filter_map(advice::Turn::begun).collect()
    }

    /// Takes what agents ask and say about probes, by gateway and instance.
    pub fn take_lease_requests(&mut self) -> Vec<((String, String), ProbeLeaseRequest)> {
        std::mem::take(&mut self.lease_requests)
    }

    /// Hands the answer about a probe to an agent's session.
    pub fn answer_lease(&mut self, key: &(String, String), answer: ProbeAnswer) {
        self.sessions.answer_lease(key, answer);
    }

    /// Tells the session of one instance of a verdict, or all.
    pub fn tell_verdict(&mut self, gateway: &str, instance: Option<&str>, it: &ProbeVerdict) {
        self.sessions.tell_verdict(gateway, instance, it);
    }
}
