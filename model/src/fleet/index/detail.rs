//! Each agent's own state of the cells in a view.

use std::collections::BTreeMap;

use super::pools::mentions;
use super::{FleetIndex, FoldedFleet, GatewayIndex};
use crate::fleet::record::{AgentState, FreshWindows, agent_state, reports_freshly};
use crate::fleet::times::secs;
use crate::fleet::view::{AgentCell, AgentCellState, FleetView};
use crate::ids::GatewayName;
use crate::report::CellState;
use crate::usability::Reasons;

impl FleetIndex {
    /// Adds each agent's own state to the cells of a view of `folded`.
    pub fn add_agents(&self, view: &mut FleetView, folded: &FoldedFleet) {
        let mut wanted: BTreeMap<GatewayName, BTreeMap<u32, Vec<AgentCell>>> = BTreeMap::new();
        for cell in &view.cells {
            let number = self.gateways.get(&cell.gateway).and_then(|gateway| {
                let cells = &gateway.cells;
                cells.find(&cell.owner(), cell.endpoint.as_deref())
            });
            if let Some(number) = number {
                let of_gateway = wanted.entry(cell.gateway.clone()).or_default();
                of_gateway.insert(number, Vec::new());
            }
        }
        for (name, rows) in &mut wanted {
            if let Some(gateway) = self.gateways.get(name) {
                gateway.add_mentions(rows, folded.now_ms, folded.windows);
            }
        }
        for cell in &mut view.cells {
            let Some(gateway) = self.gateways.get(&cell.gateway) else {
                cell.by_agent = Some(Vec::new());
                continue;
            };
            let number = gateway.cells.find(&cell.owner(), cell.endpoint.as_deref());
            let rows = wanted.get_mut(&cell.gateway);
            let mut agents = number
                .zip(rows)
                .and_then(|(number, rows)| rows.remove(&number))
                .unwrap_or_default();
            agents.extend(gateway.silent(number, folded.now_ms, folded.windows));
            cell.by_agent = Some(agents);
        }
    }
}

impl GatewayIndex {
    /// Adds what fresh agents report of the cells in `rows`, in the agents' order.
    fn add_mentions(
        &self,
        rows: &mut BTreeMap<u32, Vec<AgentCell>>,
        now_ms: u64,
        windows: FreshWindows,
    ) {
        for agent in self.agents.values() {
            if !reports_freshly(&agent.record, now_ms, windows) {
                continue;
            }
            let since_report_ms = agent.record.report_age_ms(now_ms).unwrap_or(0);
            let unusable: BTreeMap<u32, Reasons> = agent
                .pools
                .unusable_beside_its_cell()
                .map(|mention| (mention.cell, mention.reasons))
                .collect();
            for (cell, reasons) in &unusable {
                if let Some(row) = rows.get_mut(cell)
                    && !mentions(&agent.mentions, *cell)
                {
                    row.push(AgentCell {
                        agent: agent.record.name.clone(),
                        instance: agent.record.instance.clone(),
                        state: AgentCellState::Closed,
                        age_secs: 0.0,
                        cooldown_remaining_secs: 0.0,
                        unusable: *reasons,
                    });
                }
            }
            for mention in &agent.mentions {
                let Some(row) = rows.get_mut(&mention.cell) else {
                    continue;
                };
                row.push(AgentCell {
                    agent: agent.record.name.clone(),
                    instance: agent.record.instance.clone(),
                    state: match mention.state {
                        CellState::Closed => AgentCellState::Closed,
                        CellState::HalfOpen => AgentCellState::HalfOpen,
                        CellState::Open => AgentCellState::Open,
                    },
                    age_secs: secs(mention.age_ms(since_report_ms)),
                    cooldown_remaining_secs: secs(mention.cooldown_ms(since_report_ms)),
                    unusable: unusable.get(&mention.cell).copied().unwrap_or_default(),
                });
            }
        }
    }

    /// The silent agents that have a cell, in the agents' order.
    fn silent(
        &self,
        cell: Option<u32>,
        now_ms: u64,
        windows: FreshWindows,
    ) -> impl Iterator<Item = AgentCell> {
        self.agents
            .values()
            .map(|agent| &agent.record)
            .filter(move |record| {
                !reports_freshly(record, now_ms, windows)
                    && agent_state(record, now_ms, windows) != AgentState::Gone
            })
            .filter(move |record| {
                let has = self.has(record.applied_revision);
                cell.is_some_and(|cell| has.of(cell))
            })
            .map(move |record| AgentCell {
                agent: record.name.clone(),
                instance: record.instance.clone(),
                state: AgentCellState::Stale,
                age_secs: secs(now_ms.saturating_sub(record.last_sign_ms())),
                cooldown_remaining_secs: 0.0,
                unusable: Reasons::NONE,
            })
    }
}
