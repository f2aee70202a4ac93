//! What a gateway's agents must serve.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use lanekeeper_model::rollout::Rollout;

use crate::session::pools::DocumentNames;

/// One revision of a gateway, encoded once and shared by all sessions it is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its number.
    pub(crate) revision: u64,
    /// Its content hash.
    pub(crate) hash: String,
    /// The document as JSON.
    pub(crate) document: Bytes,
    /// What it names, which its agents' reports are held to.
    pub(crate) names: DocumentNames,
}

/// The revisions of a gateway that its agents must serve now: one, or two during a rollout.
#[derive(Debug)]
pub(crate) struct Targets {
    /// The newest known revision.
    pub(crate) newest: Arc<Target>,
    /// The rollout that decides who has it already, and what the others keep.
    pub(crate) rollout: Option<(Rollout, Arc<Target>)>,
}

impl Targets {
    /// What an agent must serve.
    pub(crate) fn of(&self, name: &str, labels: &BTreeMap<String, String>) -> &Arc<Target> {
        match &self.rollout {
            Some((rollout, base)) if rollout.stage_of(name, labels).is_none() => base,
            Some(_) | None => &self.newest,
        }
    }

    /// True when every agent must serve the same under both.
    pub(crate) fn are_like(&self, other: &Self) -> bool {
        let name = |target: &Target| (target.revision, target.hash.clone());
        let rollouts_alike = match (&self.rollout, &other.rollout) {
            (None, None) => true,
            (Some((one, _)), Some((two, _))) => one.reaches_like(two),
            (Some(_), None) | (None, Some(_)) => false,
        };
        name(&self.newest) == name(&other.newest) && rollouts_alike
    }
}
