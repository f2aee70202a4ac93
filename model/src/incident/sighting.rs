//! What fresh agents say of everything that fails at one moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Subject, SubjectKind};
use crate::fleet::{AgentRecord, FreshWindows, reports_freshly};
use crate::ids::GatewayName;
use crate::report::{CellReport, CellState, Totals};
use crate::steer::OverrideAction;
use crate::transition::TransitionCause;

/// What fails on the agents of one gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sightings {
    /// Agents that report freshly.
    pub fresh: u64,
    /// What fails.
    pub subjects: BTreeMap<Subject, Sighting>,
}

/// What fresh agents say of one subject.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sighting {
    /// The lane's provider, or the provider itself; empty for a pool.
    pub provider: String,
    /// The agents on which it fails.
    pub affected: Vec<AgentSighting>,
    /// Agents on which an override hides how it is.
    pub hidden: u64,
}

/// What one agent says of one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSighting {
    /// The agent's instance.
    pub instance: String,
    /// The agent's name.
    pub agent: String,
    /// When it began there, unix milliseconds.
    pub since_ms: u64,
    /// The pools in which it fails there.
    pub pools: Vec<String>,
    /// Most re-openings of one cell since it was last closed.
    pub reopens: u64,
    /// What it failed for, by cell.
    pub causes: Vec<CellCauses>,
    /// The agent's requests since it started.
    pub totals: Totals,
}

/// The latest cause of one cell, and how often it was seen since the cell was last closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellCauses {
    /// The cell's pool and endpoint.
    pub cell: String,
    /// The cause.
    pub cause: TransitionCause,
    /// How often.
    pub count: u64,
}

/// What fails, by gateway, by the records of agents. A gateway of which some agent reports freshly
/// is listed also when nothing fails there.
pub fn sightings<'a>(
    records: impl IntoIterator<Item = &'a AgentRecord>,
    now_ms: u64,
    windows: FreshWindows,
) -> BTreeMap<GatewayName, Sightings> {
    let mut gateways = BTreeMap::<GatewayName, Sightings>::new();
    for record in records {
        if !reports_freshly(record, now_ms, windows) {
            continue;
        }
        let sightings = gateways.entry(record.gateway.clone()).or_default();
        sightings.fresh += 1;
        let received_ms = record.report_received_ms.unwrap_or(now_ms).min(now_ms);
        let mut of_agent = BTreeMap::<Subject, AgentSighting>::new();
        for cell in &record.cells {
            if cell.state == CellState::Closed {
                continue;
            }
            let subject = subject_of(cell);
            let sighting = sightings.subjects.entry(subject.clone()).or_default();
            sighting.provider = cell.provider.to_string();
            if is_hidden(cell) {
                sighting.hidden += 1;
                continue;
            }
            let seen = of_agent.entry(subject).or_insert_with(|| AgentSighting {
                instance: record.instance.clone(),
                agent: record.name.clone(),
                since_ms: received_ms,
                pools: Vec::new(),
                reopens: 0,
                causes: Vec::new(),
                totals: record.totals,
            });
            seen.add(cell, received_ms);
        }
        for (subject, seen) in of_agent {
            let sighting = sightings.subjects.entry(subject).or_default();
            sighting.affected.push(seen);
        }
    }
    gateways
}

fn subject_of(cell: &CellReport) -> Subject {
    if cell.is_of_provider() {
        Subject {
            kind: SubjectKind::Provider,
            name: cell.provider.to_string(),
        }
    } else {
        Subject {
            kind: SubjectKind::Lane,
            name: cell.lane.to_string(),
        }
    }
}

/// True when the cell refuses because an operator says so, whatever it has seen.
fn is_hidden(cell: &CellReport) -> bool {
    [OverrideAction::ForceOpen, OverrideAction::Drain]
        .iter()
        .any(|action| cell.override_action.as_deref() == Some(action.as_str()))
}

impl AgentSighting {
    fn add(&mut self, cell: &CellReport, received_ms: u64) {
        // An agent of an older release does not say since when a cell was not closed.
        let age_ms = cell.open_age_ms.max(cell.state_age_ms);
        self.since_ms = self.since_ms.min(received_ms.saturating_sub(age_ms));
        self.reopens = self.reopens.max(u64::from(cell.reopens));
        if !cell.is_of_provider() && !self.pools.iter().any(|pool| *pool == *cell.pool) {
            self.pools.push(cell.pool.to_string());
        }
        if let Some(cause) = &cell.cause {
            let endpoint = cell.endpoint.as_deref().unwrap_or_default();
            self.causes.push(CellCauses {
                cell: format!("{} {endpoint}", cell.pool),
                cause: TransitionCause {
                    kind: cause.kind.clone(),
                    status: cause.status,
                },
                count: cause.count,
            });
        }
    }
}
