//! One step of a rollout: what its agents report goes in, what happened comes out.
//!
//! Steps are safe to repeat and to take on any replica; the store lets only one of two that saw the
//! same state win.

use std::collections::HashMap;

use super::health::{Baseline, SAMPLES_MAX, Sample};
use super::plan::Stage;
use super::{PLACES, Rollout, RolloutState, STOP_ERRORS_MAX, Stop, StopKind, place};
use crate::fleet::{AgentRecord, AgentState, FreshWindows, agent_state};

/// How often whoever looks after a rollout records it, in milliseconds.
pub const SEEN_EVERY_MS: u64 = 5_000;
/// After so long without such a record, nobody looked after it, in milliseconds.
const GAP_MS: u64 = 15_000;
/// Answer times after which a stage that is never whole counts as unanswered, whoever comes and
/// goes: an agent that restarts for ever is no answer.
const UNWHOLE_ANSWERS: u64 = 3;
/// A stage begins only while at least one of so many agents of the stage before is there: after a
/// restart the fleet comes back one by one.
const FLEET_PRESENT: u64 = 2;

/// What a step did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Nothing but notes for the next step.
    Noted,
    /// A stage began.
    Began {
        /// Its number, from 0.
        stage: usize,
    },
    /// All agents of the stage have applied the revision; it is watched now.
    Whole,
    /// They no longer have.
    Unwhole,
    /// The rollout stopped.
    Stopped {
        /// The plan has the old content come back.
        roll_back: bool,
    },
    /// Every agent has the revision.
    Done,
}

/// The agents of a rollout's begun stages, and what is to be said against them.
struct Party<'a> {
    /// Agents that count, by place.
    agents: Vec<&'a AgentRecord>,
    /// All of them have applied the revision, and there is one.
    whole: bool,
    fault: Option<Stop>,
}

impl Rollout {
    /// Looks at the agents of the gateway and takes at most one step. `None` when nothing changed.
    pub fn step(
        &mut self,
        agents: &[AgentRecord],
        windows: FreshWindows,
        now_ms: u64,
    ) -> Option<Transition> {
        if self.state != RolloutState::Running {
            return None;
        }
        let noted = self.note_watch(now_ms);
        let transition = if self.stages_begun() == 0 {
            self.begin(agents, windows, now_ms)
        } else {
            self.judge(agents, windows, now_ms)
        };
        transition.or_else(|| noted.then_some(Transition::Noted))
    }

    /// Starts the current stage's clocks again; the comparison is made anew at the next step.
    pub(super) fn restart_clocks(&mut self, now_ms: u64) {
        let progress = &mut self.progress;
        progress.stage_started_ms = now_ms;
        progress.unwhole_since_ms = now_ms;
        progress.watched_since_ms = now_ms;
        progress.seen_ms = now_ms;
        progress.whole_since_ms = None;
        progress.baseline = None;
    }

    fn note_watch(&mut self, now_ms: u64) -> bool {
        let silent_ms = now_ms.saturating_sub(self.progress.seen_ms);
        if silent_ms >= GAP_MS {
            self.progress.watched_since_ms = now_ms;
        }
        let due = silent_ms >= SEEN_EVERY_MS;
        if due {
            self.progress.seen_ms = now_ms;
        }
        due
    }

    /// Begins the next stage if it has anyone to prove it.
    fn begin(
        &mut self,
        agents: &[AgentRecord],
        windows: FreshWindows,
        now_ms: u64,
    ) -> Option<Transition> {
        let live: Vec<&AgentRecord> = agents
            .iter()
            .filter(|agent| agent_state(agent, now_ms, windows) == AgentState::Live)
            .collect();
        let stage = self.stages_begun();
        let cutoff = {
            let stages = self.plan.stages();
            let before = self.progress.reach.iter().copied().max().unwrap_or(0);
            before.max(match stages.get(stage)? {
                Stage::Labels(_) => 0,
                Stage::Percent(percent) => cutoff(&live, *percent),
                Stage::All => PLACES,
            })
        };
        self.progress.reach.push(cutoff);
        let reached = live
            .iter()
            .any(|agent| self.stage_of(&agent.name, &agent.labels).is_some());
        let waited_ms = now_ms.saturating_sub(
            self.progress
                .whole_since_ms
                .unwrap_or(now_ms)
                .saturating_add(self.hold_ms()),
        );
        let returning = (live.len() as u64).saturating_mul(FLEET_PRESENT) < self.progress.fleet
            && waited_ms < self.answer_timeout_ms();
        if !reached || returning {
            self.progress.reach.pop();
            return None;
        }
        self.progress.fleet = live.len() as u64;
        self.progress.stage_started_ms = now_ms;
        self.progress.unwhole_since_ms = now_ms;
        self.progress.whole_since_ms = None;
        self.compare(agents, windows, now_ms);
        Some(Transition::Began { stage })
    }

    /// Judges the stages that have begun and goes on when the latest is proven.
    fn judge(
        &mut self,
        agents: &[AgentRecord],
        windows: FreshWindows,
        now_ms: u64,
    ) -> Option<Transition> {
        let pruned = self.forget_those_who_left(agents);
        if self.progress.baseline.is_none() {
            self.compare(agents, windows, now_ms);
            return Some(Transition::Noted);
        }
        let Party {
            agents: party,
            whole,
            fault,
        } = self.party(agents, windows, now_ms);
        let rules = self.plan.rules();
        let fault = fault.or_else(|| self.troubled(&party)).or_else(|| {
            let baseline = self.progress.baseline.as_ref()?;
            baseline.worsened(&party, self.cells_per_agent, &rules)
        });
        if let Some(stop) = fault {
            self.state = RolloutState::Stopped;
            self.stop = Some(stop);
            return Some(Transition::Stopped {
                roll_back: rules.auto_rollback,
            });
        }
        match (whole, self.progress.whole_since_ms) {
            (true, None) => {
                self.progress.whole_since_ms = Some(now_ms);
                Some(Transition::Whole)
            }
            (false, Some(_)) => {
                self.progress.whole_since_ms = None;
                self.progress.unwhole_since_ms = now_ms;
                Some(Transition::Unwhole)
            }
            (true, Some(since_ms)) if now_ms.saturating_sub(since_ms) >= self.hold_ms() => {
                if self.stages_begun() < self.plan.stages().len() {
                    self.begin(agents, windows, now_ms)
                } else {
                    self.end(RolloutState::Done);
                    Some(Transition::Done)
                }
            }
            (true, Some(_)) | (false, None) => None,
        }
        .or_else(|| pruned.then_some(Transition::Noted))
    }

    /// Takes down how the agents of the begun stages do now.
    fn compare(&mut self, agents: &[AgentRecord], windows: FreshWindows, now_ms: u64) {
        let mut party = self.party(agents, windows, now_ms).agents;
        party.retain(|agent| agent_state(agent, now_ms, windows) == AgentState::Live);
        party.truncate(SAMPLES_MAX);
        let mut baseline = Baseline::of(&party, self.cells_per_agent);
        if let Some(earlier) = self.progress.baseline.take() {
            baseline.keep_problems_of(earlier);
        }
        self.progress.baseline = Some(baseline);
    }

    /// Agents that said goodbye are no longer waited for, and their records go some time later.
    fn forget_those_who_left(&mut self, agents: &[AgentRecord]) -> bool {
        let Some(baseline) = &mut self.progress.baseline else {
            return false;
        };
        let latest = latest_by_name(agents);
        let before = baseline.samples.len();
        baseline.samples.retain(|sample| {
            latest
                .get(sample.name.as_str())
                .is_none_or(|agent| !agent.left)
        });
        baseline.samples.len() < before
    }

    fn party<'a>(
        &self,
        agents: &'a [AgentRecord],
        windows: FreshWindows,
        now_ms: u64,
    ) -> Party<'a> {
        let latest = latest_by_name(agents);
        let mut party: Vec<&AgentRecord> = agents
            .iter()
            .filter(|agent| self.stage_of(&agent.name, &agent.labels).is_some())
            .filter(|agent| self.counts(agent, &latest, windows, now_ms))
            .collect();
        party.sort_by_cached_key(|agent| (place(&agent.name), agent.instance.clone()));
        let mut fault = party
            .iter()
            .find_map(|agent| self.refusal(agent))
            .or_else(|| {
                let silent = |agent: &&AgentRecord| self.silence(agent, windows, now_ms);
                party.iter().find_map(silent)
            });
        let waiting = party.iter().find(|agent| !self.is_applied_by(agent));
        let missing = self.missing(&latest);
        if fault.is_none() {
            fault = self.overdue(waiting.copied(), missing, windows, now_ms);
        }
        Party {
            whole: !party.is_empty() && waiting.is_none() && missing.is_none(),
            agents: party,
            fault,
        }
    }

    /// Whether an agent is waited for: not one that said goodbye, was replaced by a newer process
    /// of its name, drains, or was silent before the stage began.
    fn counts(
        &self,
        agent: &AgentRecord,
        latest: &HashMap<&str, &AgentRecord>,
        windows: FreshWindows,
        now_ms: u64,
    ) -> bool {
        match agent_state(agent, now_ms, windows) {
            AgentState::Live => true,
            AgentState::Draining => false,
            AgentState::Stale | AgentState::Gone => {
                let replaced = latest
                    .get(agent.name.as_str())
                    .is_some_and(|newest| newest.instance != agent.instance);
                let silent_from_ms = agent.last_sign_ms().saturating_add(windows.stale_after_ms);
                !agent.left && !replaced && silent_from_ms >= self.progress.stage_started_ms
            }
        }
    }

    fn refusal(&self, agent: &AgentRecord) -> Option<Stop> {
        let rejected = agent.last_error.as_ref()?;
        if rejected.revision != self.revision {
            return None;
        }
        let mut errors = rejected.errors.clone();
        errors.truncate(STOP_ERRORS_MAX);
        if errors.iter().any(|error| error.code == "unanswered") {
            return Some(unanswered(agent));
        }
        Some(Stop {
            errors,
            ..about(agent, StopKind::Rejected, "refused the revision")
        })
    }

    fn silence(&self, agent: &AgentRecord, windows: FreshWindows, now_ms: u64) -> Option<Stop> {
        let watched_ms = self.progress.watched_since_ms;
        if self.is_applied_by(agent) {
            let heard_ms = agent.last_sign_ms().max(watched_ms);
            let patience_ms = self.answer_timeout_ms().max(windows.stale_after_ms);
            let lost = now_ms.saturating_sub(heard_ms) > patience_ms;
            return lost.then(|| about(agent, StopKind::Lost, "fell silent after applying it"));
        }
        let asked_ms = self
            .progress
            .stage_started_ms
            .max(agent.connected_ms)
            .max(watched_ms);
        let late = now_ms.saturating_sub(asked_ms) > self.answer_timeout_ms();
        late.then(|| unanswered(agent))
    }

    /// A compared agent of whom the live view knows nothing, not even another process of its name.
    fn missing(&self, latest: &HashMap<&str, &AgentRecord>) -> Option<&Sample> {
        let baseline = self.progress.baseline.as_ref()?;
        let mut samples = baseline.samples.iter();
        samples.find(|sample| !latest.contains_key(sample.name.as_str()))
    }

    /// A stage that is not whole for too long, whoever it waits for.
    fn overdue(
        &self,
        waiting: Option<&AgentRecord>,
        missing: Option<&Sample>,
        windows: FreshWindows,
        now_ms: u64,
    ) -> Option<Stop> {
        let progress = &self.progress;
        let since_ms = progress.unwhole_since_ms.max(progress.watched_since_ms);
        if progress.whole_since_ms.is_some() {
            return None;
        }
        let unwhole_ms = now_ms.saturating_sub(since_ms);
        let patience_ms = self.answer_timeout_ms().max(windows.stale_after_ms);
        if let Some(sample) = missing
            && unwhole_ms > patience_ms
        {
            return Some(Stop {
                kind: StopKind::Lost,
                detail: format!("agent {} is gone", sample.name),
                agent: Some(sample.name.clone()),
                instance: Some(sample.instance.clone()),
                errors: Vec::new(),
            });
        }
        let agent = waiting?;
        (unwhole_ms > patience_ms.saturating_mul(UNWHOLE_ANSWERS)).then(|| unanswered(agent))
    }

    fn hold_ms(&self) -> u64 {
        self.plan.rules().hold_secs.saturating_mul(1000)
    }

    fn answer_timeout_ms(&self) -> u64 {
        self.plan.rules().answer_timeout_secs.saturating_mul(1000)
    }
}

/// The place below which so many percent of `live` agents are, rounded up to whole agents. Without
/// any, that share of all places.
fn cutoff(live: &[&AgentRecord], percent: u8) -> u64 {
    let mut places: Vec<u64> = live.iter().map(|agent| place(&agent.name)).collect();
    places.sort_unstable();
    let count = (places.len() * usize::from(percent)).div_ceil(100);
    match places.get(count.saturating_sub(1)) {
        Some(place) => place + 1,
        None => PLACES / 100 * u64::from(percent),
    }
}

/// The process that connected last under each name.
fn latest_by_name(agents: &[AgentRecord]) -> HashMap<&str, &AgentRecord> {
    let mut latest: HashMap<&str, &AgentRecord> = HashMap::new();
    for agent in agents {
        let newest = latest.entry(&agent.name).or_insert(agent);
        if agent.connected_ms > newest.connected_ms {
            *newest = agent;
        }
    }
    latest
}

fn unanswered(agent: &AgentRecord) -> Stop {
    about(agent, StopKind::Unanswered, "did not answer in time")
}

fn about(agent: &AgentRecord, kind: StopKind, what: &str) -> Stop {
    Stop {
        kind,
        detail: format!("agent {} {what}", agent.name),
        agent: Some(agent.name.clone()),
        instance: Some(agent.instance.clone()),
        errors: Vec::new(),
    }
}
