//! Problems that agents have since a revision: one that lacks a variable of its environment takes
//! the revision all the same and serves a part of it only.

use std::collections::HashMap;

use super::health::{Baseline, Sample};
use super::{Rollout, STOP_ERRORS_MAX, Stop, StopKind, mixed};
use crate::fleet::AgentRecord;
use crate::problem::Problem;

/// The code of a problem among a stop's errors.
const CODE: &str = "agent_problem";

/// What was wrong with an agent, as digests of the texts: they are compared and never shown.
pub(super) fn digests(agent: &AgentRecord) -> Vec<u64> {
    agent.problems.iter().map(|text| mixed(text)).collect()
}

impl Rollout {
    /// The problems an agent has under the revision and did not have when its stage began. None of
    /// an agent that does not serve the revision, and of a rollout that is over.
    pub fn new_problems_of<'a>(&self, agent: &'a AgentRecord) -> Vec<&'a str> {
        match &self.progress.baseline {
            Some(baseline) if self.is_applied_by(agent) => {
                new_problems(&Known::of(baseline), agent)
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// More agents than the plan bears have problems that are new. Agents that came in mid-stage are
    /// measured by what troubled any of the others before.
    pub(super) fn troubled(&self, party: &[&AgentRecord]) -> Option<Stop> {
        let known = Known::of(self.progress.baseline.as_ref()?);
        let compared = party.iter().filter(|agent| {
            known.sample_of(agent).is_some() || agent.connected_ms >= self.progress.stage_started_ms
        });
        let mut count = 0_usize;
        let mut troubled = Vec::new();
        for agent in compared {
            count += 1;
            if self.is_applied_by(agent) {
                let problems = new_problems(&known, agent);
                if !problems.is_empty() {
                    troubled.push((*agent, problems));
                }
            }
        }
        let (first, problems) = troubled.first()?;
        let share = troubled.len() as f64 / count as f64;
        if share <= self.plan.rules().new_problem_share_max {
            return None;
        }
        let text = problems.first().copied().unwrap_or_default();
        let errors = problems.iter().take(STOP_ERRORS_MAX);
        Some(Stop {
            kind: StopKind::Problems,
            detail: format!(
                "{} of {count} compared agents have problems that are new with the revision; agent \
                 {}: {text}",
                troubled.len(),
                first.name
            ),
            agent: Some(first.name.clone()),
            instance: Some(first.instance.clone()),
            errors: errors.map(|text| Problem::new("", CODE, *text)).collect(),
        })
    }
}

/// The compared agents by the names that a record may be found under.
struct Known<'a> {
    samples: &'a [Sample],
    by_instance: HashMap<&'a str, &'a Sample>,
    by_name: HashMap<&'a str, &'a Sample>,
}

impl<'a> Known<'a> {
    fn of(baseline: &'a Baseline) -> Self {
        let samples = &baseline.samples;
        Self {
            samples,
            by_instance: { samples.iter() }
                .map(|sample| (sample.instance.as_str(), sample))
                .collect(),
            by_name: { samples.iter() }
                .map(|sample| (sample.name.as_str(), sample))
                .collect(),
        }
    }

    /// The agent when the stage began; a process that took its place stands for it.
    fn sample_of(&self, agent: &AgentRecord) -> Option<&'a Sample> {
        let same = self.by_instance.get(agent.instance.as_str());
        same.or_else(|| self.by_name.get(agent.name.as_str()))
            .copied()
    }
}

fn new_problems<'a>(known: &Known<'_>, agent: &'a AgentRecord) -> Vec<&'a str> {
    let sample = known.sample_of(agent);
    let is_known = |digest: u64| match sample {
        Some(sample) => sample.problems.contains(&digest),
        None => { known.samples.iter() }.any(|sample| sample.problems.contains(&digest)),
    };
    let texts = agent.problems.iter().map(String::as_str);
    texts.filter(|text| !is_known(mixed(text))).collect()
}
