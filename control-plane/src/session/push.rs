//! Revisions within one session: what the agent is pushed, and what it answers. At most one push is
//! unanswered; while it is, the newest revision waits.

use std::time::Instant;

use lanekeeper_model::fleet::Rejected;
use lanekeeper_model::{ConfigSource, PoolReport, PoolUsability};
use lanekeeper_proto::message::{ConfigOutcome, ConfigPush, ConfigResult, FromServer};

use super::{Effect, Session, pools};

/// A push that waits for its answer.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) nonce: u64,
    pub(super) revision: u64,
    pub(super) hash: String,
    pub(super) sent: Instant,
    pub(super) overdue: bool,
}

impl Session {
    pub(super) fn answered(&mut self, result: ConfigResult, now: Instant) -> Vec<Effect> {
        let Some(push) = self.in_flight.take_if(|push| push.nonce == result.nonce) else {
            return self.answered_late(result);
        };
        let applied = match result.outcome {
            ConfigOutcome::Applied { problems } => {
                self.serves(result.revision, result.hash, problems);
                self.lacks(result.pools);
                true
            }
            ConfigOutcome::Rejected { errors } => {
                self.changed().last_error = Some(Rejected {
                    revision: push.revision,
                    errors,
                });
                self.refused = Some((push.revision, push.hash));
                false
            }
        };
        let mut effects = vec![
            Effect::Answered {
                took: now.saturating_duration_since(push.sent),
                applied,
            },
            Effect::Record { notable: true },
            Effect::Facts,
        ];
        effects.extend(self.push(now));
        effects
    }

    /// Takes the answer to a push that another one has followed. It decides nothing, but an agent
    /// that applied it serves it.
    fn answered_late(&mut self, result: ConfigResult) -> Vec<Effect> {
        let known = (self.record.applied_revision, &self.record.applied_hash);
        match result.outcome {
            ConfigOutcome::Applied { problems }
                if result.nonce <= self.nonce && known != (result.revision, &result.hash) =>
            {
                self.serves(result.revision, result.hash, problems);
                self.lacks(result.pools);
                vec![Effect::Record { notable: true }, Effect::Facts]
            }
            ConfigOutcome::Applied { .. } | ConfigOutcome::Rejected { .. } => Vec::new(),
        }
    }

    fn serves(&mut self, revision: u64, hash: String, problems: Vec<String>) {
        self.same_history = true;
        let record = self.changed();
        record.applied_revision = revision;
        record.applied_hash = hash;
        record.config_source = ConfigSource::Live;
        record.problems = problems;
        record.last_error = None;
    }

    /// Takes which pools lack a member under the revision that was just applied.
    fn lacks(&mut self, pools: Vec<PoolUsability>) {
        let pools = pools.into_iter().map(|usability| PoolReport {
            usability,
            ..PoolReport::default()
        });
        let said = pools::split(pools.collect(), self.names());
        self.changed().pools = said.usability;
    }

    /// Pushes the target if the agent lacks it and nothing forbids it.
    pub(super) fn push(&mut self, now: Instant) -> Option<Effect> {
        if self.closed || self.in_flight.as_ref().is_some_and(|push| !push.overdue) {
            return None;
        }
        let target = self.target.clone()?;
        let wanted = (target.revision, target.hash.as_str());
        let known = |(revision, hash): (u64, &str)| (revision, hash) == wanted;
        let unanswered = self
            .in_flight
            .as_ref()
            .is_some_and(|push| known((push.revision, &push.hash)));
        let refused = self
            .refused
            .as_ref()
            .is_some_and(|(revision, hash)| known((*revision, hash)));
        let applied = (
            self.record.applied_revision,
            self.record.applied_hash.as_str(),
        );
        // Within one history an agent never goes back: a lower head is a view that lags behind.
        let backwards = self.same_history && target.revision < self.record.applied_revision;
        if unanswered || refused || backwards || (self.same_history && known(applied)) {
            return None;
        }
        self.nonce += 1;
        self.in_flight = Some(InFlight {
            nonce: self.nonce,
            revision: target.revision,
            hash: target.hash.clone(),
            sent: now,
            overdue: false,
        });
        Some(Effect::Send(FromServer::ConfigPush(ConfigPush {
            nonce: self.nonce,
            revision: target.revision,
            document: target.document.clone(),
            hash: target.hash.clone(),
        })))
    }
}
