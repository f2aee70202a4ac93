//! What the agents report of one cell, added up.

use super::Agent;
use super::packed::{Causes, Mention, Names};
use crate::fleet::view::{CauseView, CellAgents, OverrideView};
use crate::ids::{CellOwner, ProviderName};
use crate::report::CellState;

/// What all fresh agents report of one cell.
#[derive(Default)]
pub(super) struct Sum<'a> {
    /// But for those that do not mention it.
    pub(super) agents: CellAgents,
    /// Agents that mention it and whose revision has it.
    pub(super) heard: u64,
    pub(super) trips: u64,
    pub(super) flaps: u64,
    pub(super) longest_ms: Option<u64>,
    pub(super) soonest_ms: Option<u64>,
    /// Agents on which an advisory is in force.
    pub(super) advised: u64,
    /// Attempts that it spared them.
    pub(super) spared: u64,
    /// Causes of agents that have it open or half-open, and of the others.
    troubled: Counts,
    calm: Counts,
    overrides: Counts,
    /// The first agent in order that mentions it.
    first: Option<&'a Agent>,
}

/// How often by number.
#[derive(Default)]
struct Counts(Vec<(u32, u64)>);

impl Counts {
    fn add(&mut self, number: u32, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == number) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.0.push((number, count)),
        }
    }

    /// The most frequent one; its name decides a tie.
    fn most<N: Ord>(&self, name: impl Fn(u32) -> Option<N>) -> Option<(N, u64)> {
        self.0
            .iter()
            .filter_map(|(number, count)| Some((*count, name(*number)?)))
            .max()
            .map(|(count, name)| (name, count))
    }
}

impl<'a> Sum<'a> {
    pub(super) fn is_mentioned(&self) -> bool {
        self.first.is_some()
    }

    pub(super) fn add(
        &mut self,
        mention: &Mention,
        agent: &'a Agent,
        since_report_ms: u64,
        has: bool,
    ) {
        self.first.get_or_insert(agent);
        let is_troubled = mention.state != CellState::Closed;
        *match mention.state {
            CellState::Closed => &mut self.agents.closed,
            CellState::HalfOpen => &mut self.agents.half_open,
            CellState::Open => &mut self.agents.open,
        } += 1;
        self.agents.parked += u64::from(mention.is_parked(since_report_ms));
        self.agents.overridden += u64::from(mention.override_.is_some());
        self.agents.forced_open += u64::from(mention.is_forced_open);
        self.heard += u64::from(has);
        self.trips = self.trips.saturating_add(mention.trips);
        self.advised += u64::from(mention.advisory);
        self.spared = self.spared.saturating_add(mention.spared);
        if is_troubled {
            self.flaps = self.flaps.max(u64::from(mention.reopens));
            let age_ms = mention.not_closed_for_ms(since_report_ms);
            self.longest_ms = self.longest_ms.max(Some(age_ms));
        }
        if mention.state == CellState::Open {
            let left_ms = mention.cooldown_ms(since_report_ms);
            self.soonest_ms = Some(
                self.soonest_ms
                    .map_or(left_ms, |soonest| soonest.min(left_ms)),
            );
        }
        if let Some(cause) = mention.cause {
            let causes = if is_troubled {
                &mut self.troubled
            } else {
                &mut self.calm
            };
            causes.add(cause, mention.cause_count);
        }
        if let Some(action) = mention.override_ {
            self.overrides.add(action, 1);
        }
    }

    /// The provider that the first agent names; the cell is in no current revision.
    pub(super) fn provider(
        &self,
        owner: &CellOwner,
        endpoint: Option<&str>,
    ) -> Option<&'a ProviderName> {
        let mut worst = None;
        for cell in &self.first?.record.cells {
            let is_it =
                cell.owner() == *owner && cell.endpoint.as_deref() == endpoint && cell.is_notable();
            if is_it && worst.is_none_or(|(state, _)| cell.state > state) {
                worst = Some((cell.state, &cell.provider));
            }
        }
        worst.map(|(_, provider)| provider)
    }

    pub(super) fn cause(&self, causes: &Causes) -> Option<CauseView> {
        let is_troubled = self.agents.open + self.agents.half_open > 0;
        let counts = if is_troubled {
            &self.troubled
        } else {
            &self.calm
        };
        counts
            .most(|number| causes.get(number))
            .map(|((kind, status), count)| CauseView {
                kind: kind.clone(),
                status: *status,
                count,
            })
    }

    pub(super) fn override_in_force(&self, names: &Names) -> Option<OverrideView> {
        self.overrides
            .most(|number| names.get(number))
            .map(|(action, agents)| OverrideView {
                action: action.clone(),
                agents,
                ..OverrideView::default()
            })
    }
}
