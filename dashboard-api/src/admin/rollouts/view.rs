//! Rollouts as the API tells of them.

use crate::clock;
use crate::fleet_view::FleetSnapshot;
use lanekeeper_model::fleet::{Rejected, agent_state};
use lanekeeper_model::rollout::{Rollout, RolloutPlan, RolloutState, Stop};
use lanekeeper_model::{AgentRecord, AgentState};
use lanekeeper_store::StoredRollout;
use schemars::JsonSchema;
use serde::Serialize;

/// Agents told of in one answer, those in trouble first; the counts are of all.
const MAX_AGENTS: usize = 1000;

/// A page of rollouts, newest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RolloutPage {
    /// The rollouts.
    pub(super) rollouts: Vec<RolloutInfo>,
    /// Where the next page starts; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// A rollout without its agents.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RolloutInfo {
    /// The gateway.
    gateway: String,
    /// The revision rolled out; it names the rollout.
    revision: u64,
    /// The revision that agents keep until a stage reaches them.
    base_revision: u64,
    /// How it stands.
    state: RolloutState,
    /// The plan it follows.
    plan: RolloutPlan,
    /// Its stages, in order.
    stages: Vec<StageInfo>,
    /// When the latest stage began or was resumed, RFC 3339; null before the first.
    stage_started_at: Option<String>,
    /// Since when all agents of that stage have applied the revision, RFC 3339; null while one
    /// has not.
    whole_since: Option<String>,
    /// Whom a running rollout waits for before its first stage: no live agent is in it; null
    /// otherwise.
    waits_for: Option<String>,
    /// Why it stopped; null when it did not.
    stop: Option<Stop>,
    /// The revision that brought the old content back; null when none did.
    rollback_revision: Option<u64>,
    /// The name of the token that wrote the revision.
    author: String,
    /// Why it was written.
    message: String,
    /// When it was written, RFC 3339.
    created_at: String,
    /// When the rollout last took a step, RFC 3339.
    updated_at: String,
}

/// One stage.
#[derive(Serialize, JsonSchema)]
struct StageInfo {
    /// Whom it reaches: labels, a share, or all.
    name: String,
    /// How it stands.
    state: StageState,
}

/// How a stage stands.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StageState {
    /// Not begun.
    Waiting,
    /// Begun, and the latest.
    Current,
    /// Proven.
    Done,
}

/// A rollout with its agents.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RolloutDetail {
    #[serde(flatten)]
    info: RolloutInfo,
    /// How many agents there are of each kind.
    counts: RolloutCounts,
    /// The agents that have not left, at most 1,000: those in trouble first, then by name.
    agents: Vec<RolloutAgent>,
    /// True when a share of the agents' reports is missing.
    partial: bool,
}

/// The gateway's agents that have not left, counted.
#[derive(Default, Serialize, JsonSchema)]
struct RolloutCounts {
    /// All of them.
    agents: u64,
    /// Those that a begun stage reaches.
    reached: u64,
    /// Those that serve the revision.
    applied: u64,
    /// Those that refused it.
    rejected: u64,
    /// Those that serve it with problems they did not have before.
    troubled: u64,
}

/// One agent of a rollout.
#[derive(Serialize, JsonSchema)]
struct RolloutAgent {
    /// Its name.
    agent: String,
    /// Its instance.
    instance: String,
    /// Live, draining, stale or gone.
    state: AgentState,
    /// The number of the stage that reaches it, from 0; null while none does.
    stage: Option<usize>,
    /// The revision it should serve now.
    target_revision: Option<u64>,
    /// The revision it serves.
    applied_revision: u64,
    /// Content hash of what it serves.
    applied_hash: String,
    /// True when it serves exactly what it should.
    converged: bool,
    /// The revision it refused, and why.
    last_error: Option<Rejected>,
    /// Its problems that are new with the revision; empty once the rollout is over.
    new_problems: Vec<String>,
}

impl From<StoredRollout> for RolloutInfo {
    fn from(stored: StoredRollout) -> Self {
        let rollout = stored.rollout;
        let begun = rollout.stages_begun();
        let stages = rollout.plan.stages();
        let infos = stages.iter().enumerate().map(|(number, stage)| StageInfo {
            name: stage.to_string(),
            state: if number >= begun {
                StageState::Waiting
            } else if number + 1 == begun && rollout.state != RolloutState::Done {
                StageState::Current
            } else {
                StageState::Done
            },
        });
        let waits_for = match stages.first() {
            Some(first) if rollout.waits_for_agents() => {
                Some(format!("a live agent in the stage {first}"))
            }
            Some(_) | None => None,
        };
        Self {
            stages: infos.collect(),
            waits_for,
            gateway: rollout.gateway.to_string(),
            revision: rollout.revision,
            base_revision: rollout.base,
            state: rollout.state,
            stage_started_at: (begun > 0)
                .then(|| clock::rfc3339(rollout.progress.stage_started_ms)),
            whole_since: rollout.progress.whole_since_ms.map(clock::rfc3339),
            plan: rollout.plan,
            stop: rollout.stop,
            rollback_revision: rollout.rollback_revision,
            author: rollout.author,
            message: rollout.message,
            created_at: clock::rfc3339(rollout.created_ms),
            updated_at: clock::rfc3339(stored.updated_ms),
        }
    }
}

impl RolloutDetail {
    /// Describes a rollout by what the agents last reported.
    pub(super) fn new(stored: StoredRollout, snapshot: &FleetSnapshot, now_ms: u64) -> Self {
        let rollout = &stored.rollout;
        let mut counts = RolloutCounts::default();
        let mut agents: Vec<(bool, RolloutAgent)> = snapshot
            .records_of(&rollout.gateway)
            .filter(|record| agent_state(record, now_ms, snapshot.windows()) != AgentState::Gone)
            .map(|record| {
                let is_rejected = rejects(rollout, record);
                let is_applied = rollout.is_applied_by(record);
                let agent = describe(rollout, record, snapshot, now_ms);
                counts.agents += 1;
                counts.reached += u64::from(agent.stage.is_some());
                counts.applied += u64::from(is_applied);
                counts.rejected += u64::from(is_rejected);
                let is_troubled = !agent.new_problems.is_empty();
                counts.troubled += u64::from(is_troubled);
                let is_late = agent.stage.is_some() && !is_applied;
                (!is_rejected && !is_troubled && !is_late, agent)
            })
            .collect();
        agents.sort_by(|(calm, one), (other_calm, other)| {
            (calm, &one.agent, &one.instance).cmp(&(other_calm, &other.agent, &other.instance))
        });
        agents.truncate(MAX_AGENTS);
        Self {
            counts,
            agents: agents.into_iter().map(|(_, agent)| agent).collect(),
            partial: snapshot.is_partial(),
            info: stored.into(),
        }
    }
}

fn rejects(rollout: &Rollout, record: &AgentRecord) -> bool {
    let rejected = record.last_error.as_ref();
    rejected.is_some_and(|rejected| rejected.revision == rollout.revision)
}

fn describe(
    rollout: &Rollout,
    record: &AgentRecord,
    snapshot: &FleetSnapshot,
    now_ms: u64,
) -> RolloutAgent {
    let target = snapshot.target_of(record);
    RolloutAgent {
        agent: record.name.clone(),
        instance: record.instance.clone(),
        state: agent_state(record, now_ms, snapshot.windows()),
        stage: rollout.stage_of(&record.name, &record.labels),
        target_revision: target.map(|(revision, _)| revision),
        applied_revision: record.applied_revision,
        applied_hash: record.applied_hash.clone(),
        converged: target.is_some_and(|(revision, hash)| {
            record.applied_revision == revision && record.applied_hash == hash
        }),
        last_error: record.last_error.clone(),
        new_problems: { rollout.new_problems_of(record).into_iter() }
            .map(str::to_owned)
            .collect(),
    }
}
