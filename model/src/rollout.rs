//! A rollout: how one revision reaches a gateway's agents stage by stage, and when it must not go
//! on.
//!
//! A plain value that is stored after every step, so that any replica of the control plane may take
//! the next one. Agents that no stage has reached keep the base revision; those that one has
//! reached get the new one, also when they join late. Every replica draws the same line between the
//! two, because it depends on the agent's name and labels and on stored numbers alone.

mod health;
mod plan;
mod problems;
mod step;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use health::Baseline;
pub use health::cells_of_document;
pub use plan::{
    ANSWER_TIMEOUT_SECS_DEFAULT, ANSWER_TIMEOUT_SECS_MAX, ANSWER_TIMEOUT_SECS_MIN, Canary,
    EXHAUSTED_REQUESTS_MIN_DEFAULT, EXHAUSTED_SHARE_RISE_MAX_DEFAULT, HOLD_SECS_DEFAULT,
    HOLD_SECS_MAX, LABEL_LEN_MAX, LABELS_MAX, NEW_PROBLEM_SHARE_MAX_DEFAULT,
    OPEN_SHARE_RISE_MAX_DEFAULT, PERCENTS_DEFAULT, PERCENTS_MAX, RolloutPlan, Stage, StagedPlan,
};
pub use step::{SEEN_EVERY_MS, Transition};

use crate::fleet::AgentRecord;
use crate::ids::GatewayName;
use crate::problem::Problem;

/// Beyond the place of every agent.
const PLACES: u64 = 1 << 32;
/// The most reasons that are kept of an agent's refusal, or of its problems.
const STOP_ERRORS_MAX: usize = 10;

/// How a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RolloutState {
    /// Going on.
    Running,
    /// Held by an operator; agents keep what they have.
    Paused,
    /// Stopped by a fault or an operator; agents keep what they have.
    Stopped,
    /// Every agent has the revision.
    Done,
    /// The old content is back, as a newer revision.
    RolledBack,
    /// A newer revision was written before this one was everywhere.
    Superseded,
}

impl RolloutState {
    /// The state as the API spells it and the store keeps it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Done => "done",
            Self::RolledBack => "rolled_back",
            Self::Superseded => "superseded",
        }
    }

    /// True while it decides what agents serve.
    pub fn is_active(self) -> bool {
        match self {
            Self::Running | Self::Paused | Self::Stopped => true,
            Self::Done | Self::RolledBack | Self::Superseded => false,
        }
    }
}

/// What stopped a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// An agent refused the revision.
    Rejected,
    /// An agent did not answer in time.
    Unanswered,
    /// An agent that had applied the revision fell silent.
    Lost,
    /// Too many cells opened.
    OpenShare,
    /// Too many requests were exhausted.
    ExhaustedShare,
    /// Too many agents have problems that are new with the revision.
    Problems,
    /// An operator stopped it.
    Operator,
}

impl StopKind {
    /// The reason as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Unanswered => "unanswered",
            Self::Lost => "lost",
            Self::OpenShare => "open_share",
            Self::ExhaustedShare => "exhausted_share",
            Self::Problems => "problems",
            Self::Operator => "operator",
        }
    }
}

/// Why a rollout stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    /// What kind of reason.
    pub kind: StopKind,
    /// The reason, for people.
    pub detail: String,
    /// The name of the agent it is about, if it is about one.
    pub agent: Option<String>,
    /// The instance of that agent.
    pub instance: Option<String>,
    /// Why that agent refused, or what troubles it now; at most ten reasons.
    pub errors: Vec<Problem>,
}

/// What an operator may ask of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutOrder {
    /// Hold still.
    Pause,
    /// Go on, with the current stage's clocks and comparison anew.
    Resume,
    /// Stop where it is.
    Stop,
}

/// An order that a rollout in this state does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderRefused {
    /// The state it is in.
    pub state: RolloutState,
}

/// One revision on its way to a gateway's agents. Times are unix milliseconds by the servers'
/// clocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// The gateway.
    pub gateway: GatewayName,
    /// The revision rolled out; it names the rollout within its gateway.
    pub revision: u64,
    /// That revision's content hash.
    pub hash: String,
    /// The revision that agents keep until a stage reaches them.
    pub base: u64,
    /// That revision's content hash.
    pub base_hash: String,
    /// Who wrote the revision.
    pub author: String,
    /// The reason given.
    pub message: String,
    /// When the revision was written.
    pub created_ms: u64,
    /// The plan it follows, whatever becomes of the gateway's.
    pub plan: RolloutPlan,
    /// How it stands.
    pub state: RolloutState,
    /// Why it stopped, if it did.
    pub stop: Option<Stop>,
    /// The revision that brought the old content back.
    pub rollback_revision: Option<u64>,
    /// Cells of pools that an agent has under this revision.
    pub cells_per_agent: u64,
    /// How far it has come.
    pub progress: Progress,
}

/// How far a rollout has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// For each stage that has begun, the place below which it reaches agents by share.
    reach: Vec<u64>,
    /// When the latest stage began, or was resumed.
    pub stage_started_ms: u64,
    /// Since when all its agents have applied the revision.
    pub whole_since_ms: Option<u64>,
    /// Since when they have not.
    unwhole_since_ms: u64,
    /// Since when the rollout is looked after without a gap: nothing that happened in a gap is
    /// held against an agent.
    watched_since_ms: u64,
    /// When a replica last said that it looks after it.
    seen_ms: u64,
    /// Live agents of the gateway when the latest stage began.
    fleet: u64,
    /// What the latest stage is compared with.
    baseline: Option<Baseline>,
}

/// A revision that is about to be rolled out.
#[derive(Clone, Debug)]
pub struct NewRollout {
    /// The gateway.
    pub gateway: GatewayName,
    /// Number and content hash of the revision.
    pub revision: (u64, String),
    /// Number and content hash of what agents keep until then.
    pub base: (u64, String),
    /// Who wrote it.
    pub author: String,
    /// The reason given.
    pub message: String,
    /// Cells of pools that an agent has under it.
    pub cells_per_agent: u64,
}

impl Rollout {
    /// A rollout that has reached nobody yet.
    pub fn new(new: NewRollout, plan: RolloutPlan, now_ms: u64) -> Self {
        Self {
            gateway: new.gateway,
            revision: new.revision.0,
            hash: new.revision.1,
            base: new.base.0,
            base_hash: new.base.1,
            author: new.author,
            message: new.message,
            created_ms: now_ms,
            plan,
            state: RolloutState::Running,
            stop: None,
            rollback_revision: None,
            cells_per_agent: new.cells_per_agent,
            progress: Progress {
                watched_since_ms: now_ms,
                seen_ms: now_ms,
                unwhole_since_ms: now_ms,
                ..Progress::default()
            },
        }
    }

    /// The stages that have begun.
    pub fn stages_begun(&self) -> usize {
        self.progress.reach.len()
    }

    /// True while it goes on and has reached nobody: no live agent is in its first stage.
    pub fn waits_for_agents(&self) -> bool {
        self.state == RolloutState::Running && self.stages_begun() == 0
    }

    /// The number of the first begun stage that reaches an agent; `None` while none does.
    pub fn stage_of(&self, name: &str, labels: &BTreeMap<String, String>) -> Option<usize> {
        let stages = self.plan.stages();
        let mut begun = stages.iter().zip(&self.progress.reach);
        begun.position(|(stage, cutoff)| match stage {
            Stage::Labels(wanted) => wanted
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value)),
            Stage::Percent(_) => place(name) < *cutoff,
            Stage::All => true,
        })
    }

    /// The revision an agent must serve and its content hash, while the rollout is active.
    pub fn target_of(&self, name: &str, labels: &BTreeMap<String, String>) -> (u64, &str) {
        match self.stage_of(name, labels) {
            Some(_) => (self.revision, &self.hash),
            None => (self.base, &self.base_hash),
        }
    }

    /// True when both reach the same agents with the same revisions.
    pub fn reaches_like(&self, other: &Self) -> bool {
        (self.revision, self.base) == (other.revision, other.base)
            && self.plan == other.plan
            && self.progress.reach == other.progress.reach
    }

    /// True when a record shows an agent that serves the revision.
    pub fn is_applied_by(&self, record: &AgentRecord) -> bool {
        record.applied_revision == self.revision && record.applied_hash == self.hash
    }

    /// Takes an operator's order.
    ///
    /// # Errors
    ///
    /// [`OrderRefused`] in a state that does not take it.
    pub fn order(
        &mut self,
        order: RolloutOrder,
        actor: &str,
        now_ms: u64,
    ) -> Result<(), OrderRefused> {
        let refused = OrderRefused { state: self.state };
        match (order, self.state) {
            (RolloutOrder::Pause, RolloutState::Running) => self.state = RolloutState::Paused,
            (RolloutOrder::Resume, RolloutState::Paused | RolloutState::Stopped) => {
                self.state = RolloutState::Running;
                self.stop = None;
                self.restart_clocks(now_ms);
            }
            (RolloutOrder::Stop, RolloutState::Running | RolloutState::Paused) => {
                self.state = RolloutState::Stopped;
                self.stop = Some(Stop::by(actor));
            }
            (RolloutOrder::Pause | RolloutOrder::Resume | RolloutOrder::Stop, _) => {
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Notes that the old content came back as a newer revision. Without a fault it was `actor`.
    pub fn rolled_back(&mut self, revision: u64, actor: &str) {
        self.end(RolloutState::RolledBack);
        self.rollback_revision = Some(revision);
        self.stop.get_or_insert_with(|| Stop::by(actor));
    }

    /// Notes that a newer revision was written.
    pub fn supersede(&mut self) {
        self.end(RolloutState::Superseded);
    }

    /// A rollout that is over is compared with nothing.
    fn end(&mut self, state: RolloutState) {
        self.state = state;
        self.progress.baseline = None;
    }
}

impl Stop {
    fn by(actor: &str) -> Self {
        Self {
            kind: StopKind::Operator,
            detail: format!("stopped by {actor}"),
            agent: None,
            instance: None,
            errors: Vec::new(),
        }
    }
}

/// Where an agent stands among all names, 0 to 2^32: a share of the fleet is everyone below a
/// place.
fn place(name: &str) -> u64 {
    mixed(name) >> 32
}

/// A text as a number that every replica computes alike: FNV-1a finished by a mixer (that of
/// MurmurHash3), since names of one fleet differ in their last letters only.
fn mixed(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests;
