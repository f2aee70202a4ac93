//! Who holds which cell open, counted from the packed mentions for the fleet's advice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::folded::Row;
use super::{Agent, FleetIndex, GatewayIndex};
use crate::fleet::advice::{Advice, AdviceRules, AdvisedCell, Tally, Vote, advise, is_local_cause};
use crate::fleet::record::{AgentRecord, FreshWindows, reports_freshly};
use crate::fleet::times::secs;
use crate::ids::GatewayName;
use crate::report::CellState;

/// A report from further ahead than this in the future proves nothing: the clock of whoever
/// received it is wrong, and it would never become old. In milliseconds.
const AHEAD_MAX_MS: u64 = 30_000;

/// How a reader judges whose reports count for advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdviceWindows {
    /// How old a report may be.
    pub fresh: FreshWindows,
    /// Agents with a sign of life within this count as part of the fleet, in milliseconds.
    pub known_ms: u64,
}

/// What one identity says of one cell, over all its processes.
struct Held {
    instances: u32,
    vote: Vote,
}

impl FleetIndex {
    /// What is to be advised to the agents of a gateway as of now, by its rules. Nothing while fewer
    /// than half of the known agents report: who sees so little cannot speak for the fleet.
    pub fn advice(
        &self,
        gateway: &GatewayName,
        rules: &AdviceRules,
        now_ms: u64,
        windows: AdviceWindows,
    ) -> Vec<Advice> {
        match self.gateways.get(gateway) {
            Some(of_gateway) => of_gateway.advice(rules, now_ms, windows),
            None => Vec::new(),
        }
    }
}

impl GatewayIndex {
    /// Adds what the fleet advises, or would, to the rows.
    pub(super) fn add_advice(&self, rows: &mut [Row], now_ms: u64, fresh: FreshWindows) {
        let windows = AdviceWindows {
            fresh,
            known_ms: fresh.gone_after_ms,
        };
        let rules = &self.configured.rules;
        for advice in self.advice(rules, now_ms, windows) {
            let is_it = |row: &&mut Row| {
                let (view, cell) = (&row.view, &advice.cell);
                view.pool.as_ref() == Some(&cell.pool)
                    && view.lane.as_ref() == Some(&cell.lane)
                    && view.endpoint == cell.endpoint
            };
            let Some(row) = rows.iter_mut().find(is_it) else {
                continue;
            };
            let shown = row.view.advisory.get_or_insert_default();
            shown.mode = Some(advice.mode);
            shown.withheld = advice.withheld;
            shown.advised_for_secs = Some(secs(now_ms.saturating_sub(advice.since_ms)));
            shown.open_agents = advice.open;
            shown.late_agents = advice.late_agents;
            shown.late_attempts = advice.late_attempts;
        }
    }

    fn advice(&self, rules: &AdviceRules, now_ms: u64, windows: AdviceWindows) -> Vec<Advice> {
        if rules.0.is_empty() {
            return Vec::new();
        }
        let is_fresh = |record: &AgentRecord| {
            reports_freshly(record, now_ms, windows.fresh)
                && record
                    .report_received_ms
                    .is_some_and(|received| received <= now_ms.saturating_add(AHEAD_MAX_MS))
        };
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let mut instances: HashMap<&str, u32> = HashMap::new();
        let mut by_revision: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
        for agent in self.agents.values() {
            let record = &*agent.record;
            let is_known = now_ms.saturating_sub(record.last_sign_ms()) <= windows.known_ms;
            if !record.left && is_known {
                known.insert(record.voter());
            }
            if is_fresh(record) {
                *instances.entry(record.voter()).or_default() += 1;
                let of_revision = by_revision.entry(record.applied_revision).or_default();
                of_revision.insert(record.voter());
            }
        }
        if instances.len().saturating_mul(2) < known.len() {
            return Vec::new();
        }
        let fresh = self.agents.values().filter(|it| is_fresh(&it.record));
        let tallies = self.tallies(rules, now_ms, fresh, &instances, &by_revision);
        advise(rules, &tallies)
    }

    fn tallies<'a>(
        &'a self,
        rules: &AdviceRules,
        now_ms: u64,
        fresh: impl Iterator<Item = &'a Agent>,
        instances: &HashMap<&'a str, u32>,
        by_revision: &BTreeMap<u64, BTreeSet<&'a str>>,
    ) -> BTreeMap<AdvisedCell, Tally> {
        let is_advisable: Vec<bool> = { self.cells.keys().iter() }
            .map(|key| {
                let member = key.owner.member();
                member.is_some_and(|(pool, _)| rules.0.contains_key(pool))
            })
            .collect();
        let mut held: BTreeMap<u32, HashMap<&str, Held>> = BTreeMap::new();
        let mut effects: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for agent in fresh {
            let voter = agent.record.voter();
            let received_ms = agent.record.report_received_ms.unwrap_or(now_ms);
            for mention in &agent.mentions {
                let is_wanted = is_advisable.get(mention.cell as usize);
                if !is_wanted.copied().unwrap_or(false) {
                    continue;
                }
                let (advised, spared) = effects.entry(mention.cell).or_default();
                *advised += u64::from(mention.advisory);
                *spared = spared.saturating_add(mention.spared);
                if mention.state == CellState::Closed {
                    continue;
                }
                let opened_ms = received_ms.saturating_sub(mention.not_closed_for_ms(0));
                // A probe is newer than the failure before it, of which nothing more is known.
                let evidence_ms = match mention.state {
                    CellState::Open => received_ms.saturating_sub(mention.state_age_ms),
                    CellState::HalfOpen | CellState::Closed => opened_ms,
                };
                let cause = mention.cause.and_then(|number| self.causes.get(number));
                let is_local = mention.override_.is_some()
                    || cause.is_none_or(|(kind, _)| is_local_cause(kind));
                let vote = Vote {
                    opened_ms,
                    evidence_ms,
                    is_local,
                    cause: cause.cloned(),
                    failures: mention.cause_count,
                };
                let of_cell = held.entry(mention.cell).or_default();
                match of_cell.get_mut(voter) {
                    Some(known) => known.add(vote),
                    None => {
                        of_cell.insert(voter, Held { instances: 1, vote });
                    }
                }
            }
        }
        let mut tallies = BTreeMap::new();
        for (number, of_cell) in held {
            let Some(key) = self.cells.keys().get(number as usize) else {
                continue;
            };
            let Some((pool, lane)) = key.owner.member() else {
                continue;
            };
            // An identity whose other process has the cell closed does not hold it open.
            let votes = of_cell
                .into_iter()
                .filter(|(voter, it)| instances.get(voter).is_none_or(|all| *all == it.instances))
                .map(|(_, it)| it.vote);
            let mut votes: Vec<Vote> = votes.collect();
            votes.sort_by_key(|vote| vote.opened_ms);
            let mut having: BTreeSet<&str> = BTreeSet::new();
            for (revision, voters) in by_revision {
                if self.has(*revision).of(number) {
                    having.extend(voters);
                }
            }
            let (advised, spared) = effects.get(&number).copied().unwrap_or_default();
            let cell = AdvisedCell {
                pool: pool.clone(),
                lane: lane.clone(),
                endpoint: key.endpoint.clone(),
            };
            let fresh = u64::try_from(having.len()).unwrap_or(u64::MAX);
            let tally = Tally {
                votes,
                fresh,
                advised,
                spared,
            };
            tallies.insert(cell, tally);
        }
        tallies
    }
}

impl Held {
    fn add(&mut self, other: Vote) {
        self.instances += 1;
        self.vote.opened_ms = self.vote.opened_ms.max(other.opened_ms);
        self.vote.evidence_ms = self.vote.evidence_ms.max(other.evidence_ms);
        self.vote.is_local |= other.is_local;
        self.vote.failures = self.vote.failures.saturating_add(other.failures);
    }
}

#[cfg(test)]
mod tests;
