//! How well the agents of a stage do, compared with how they did when it began.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::StagedPlan;
use super::{Stop, StopKind, problems};
use crate::fleet::AgentRecord;
use crate::report::CellState;

/// Agents of a stage that are compared; of more, those with the lowest places stand for all.
pub(super) const SAMPLES_MAX: usize = 200;

/// What a stage's agents looked like when it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Baseline {
    /// Share of open cells.
    open_share: f64,
    /// Share of exhausted requests, of all since the agents started.
    exhausted_share: f64,
    /// The agents.
    pub(super) samples: Vec<Sample>,
}

/// One agent when the stage began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) instance: String,
    pub(super) name: String,
    requests: u64,
    exhausted: u64,
    /// Digests of the problems it had.
    #[serde(default)]
    pub(super) problems: Vec<u64>,
}

impl Baseline {
    /// Takes down how `agents` do.
    pub(super) fn of(agents: &[&AgentRecord], cells_per_agent: u64) -> Self {
        let (requests, exhausted) = agents.iter().fold((0, 0), |(requests, exhausted), agent| {
            (
                requests + agent.totals.requests,
                exhausted + agent.totals.exhausted,
            )
        });
        let sample = |agent: &&AgentRecord| Sample {
            instance: agent.instance.clone(),
            name: agent.name.clone(),
            requests: agent.totals.requests,
            exhausted: agent.totals.exhausted,
            problems: problems::digests(agent),
        };
        Self {
            open_share: open_share(agents, cells_per_agent),
            exhausted_share: share(exhausted, requests),
            samples: agents.iter().map(sample).collect(),
        }
    }

    /// Takes over what was wrong with agents before an earlier stage: what the revision brought to
    /// them since is no part of how things were.
    pub(super) fn keep_problems_of(&mut self, earlier: Self) {
        let mut before: HashMap<String, Vec<u64>> = { earlier.samples.into_iter() }
            .map(|sample| (sample.name, sample.problems))
            .collect();
        for sample in &mut self.samples {
            if let Some(problems) = before.remove(&sample.name) {
                sample.problems = problems;
            }
        }
    }

    /// What has become too much worse since.
    pub(super) fn worsened(
        &self,
        agents: &[&AgentRecord],
        cells_per_agent: u64,
        rules: &StagedPlan,
    ) -> Option<Stop> {
        let known: HashMap<&str, &AgentRecord> = agents
            .iter()
            .map(|agent| (agent.instance.as_str(), *agent))
            .collect();
        let (mut requests, mut exhausted) = (0_u64, 0_u64);
        let mut compared = Vec::new();
        for sample in &self.samples {
            if let Some(agent) = known.get(sample.instance.as_str()) {
                requests += agent.totals.requests.saturating_sub(sample.requests);
                exhausted += agent.totals.exhausted.saturating_sub(sample.exhausted);
                compared.push(*agent);
            }
        }
        let open = open_share(&compared, cells_per_agent);
        if open - self.open_share > rules.open_share_rise_max {
            let what = "of the stage's cells are open";
            return Some(risen(StopKind::OpenShare, what, self.open_share, open));
        }
        let judged = requests >= rules.exhausted_requests_min;
        let exhausted = share(exhausted, requests);
        if judged && exhausted - self.exhausted_share > rules.exhausted_share_rise_max {
            let what = "of the stage's requests are exhausted";
            let before = self.exhausted_share;
            return Some(risen(StopKind::ExhaustedShare, what, before, exhausted));
        }
        None
    }
}

fn risen(kind: StopKind, what: &str, before: f64, now: f64) -> Stop {
    Stop {
        kind,
        detail: format!(
            "{:.1} % {what}, {:.1} % were before it",
            now * 100.0,
            before * 100.0
        ),
        agent: None,
        instance: None,
        errors: Vec::new(),
    }
}

/// Cells that operators opened by an override prove nothing about a revision, nor do direct routes,
/// which exist only once they are used.
fn open_share(agents: &[&AgentRecord], cells_per_agent: u64) -> f64 {
    let open = agents
        .iter()
        .flat_map(|agent| &agent.cells)
        .filter(|cell| cell.state == CellState::Open)
        .filter(|cell| cell.override_action.is_none() && !cell.pool.is_empty())
        .count() as u64;
    share(open, cells_per_agent.saturating_mul(agents.len() as u64))
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Cells of pools that an agent has under a document: one per member.
pub fn cells_of_document(document: &Value) -> u64 {
    let pools = document.get("pools").and_then(Value::as_object);
    pools
        .into_iter()
        .flat_map(serde_json::Map::values)
        .filter_map(|pool| pool.get("members").and_then(Value::as_array))
        .map(|members| members.len() as u64)
        .sum()
}
