//! What the fleet knows of a lane that its members should be warned about: a pure function of who
//! holds which cell open, the pools' rules and the time.
//!
//! An agent's word is one vote whatever the number of its processes. What is wrong with one agent
//! only (its network, its credential) is no vote. Advice never benches a pool's last good member,
//! nor more members than the pool allows, and is not given at all by who sees less than half of
//! the fleet.

use std::collections::{BTreeMap, BTreeSet};

use crate::gateway::Gateway;
use crate::ids::{LaneName, PoolName};
use crate::spec::FleetMode;

#[cfg(test)]
mod tests;

/// An agent that opened its cell within this of the moment the quorum stood could not have been
/// warned in time, in milliseconds.
const WARNING_MS: u64 = 1000;

/// Causes that say something about one agent and nothing about the lane: its resolver, what its
/// operator lets it connect to, and its credential and the account behind that.
const LOCAL_CAUSES: [&str; 4] = ["dns", "blocked", "auth", "billing"];

/// True for a cause that proves nothing to other agents.
pub fn is_local_cause(kind: &str) -> bool {
    LOCAL_CAUSES.contains(&kind)
}

/// How the agents of a gateway warn each other, by pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdviceRules(pub BTreeMap<PoolName, PoolRules>);

/// How agents warn each other about one pool's lanes.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolRules {
    /// Computed and shown, or sent as well.
    pub mode: FleetMode,
    /// Share of the fresh agents, in (0, 1].
    pub quorum: f64,
    /// Fewest agents, at least 1.
    pub min_agents: u32,
    /// Largest share of the members that may be advised against, in [0, 1].
    pub max_benched: f64,
    /// The members that may be selected at all.
    pub members: Vec<LaneName>,
}

impl AdviceRules {
    /// The rules of every pool that does not switch advice off.
    pub fn of(gateway: &Gateway) -> Self {
        let pools = gateway.pools.values().filter_map(|pool| {
            let fleet = &pool.fleet;
            (fleet.mode != FleetMode::Off).then(|| {
                let members = pool.usable_members().map(|member| member.lane.clone());
                let rules = PoolRules {
                    mode: fleet.mode,
                    quorum: fleet.quorum,
                    min_agents: fleet.min_agents,
                    max_benched: fleet.max_benched,
                    members: members.collect(),
                };
                (pool.name.clone(), rules)
            })
        });
        Self(pools.collect())
    }

    /// True when some pool's advice is sent.
    pub fn any_acts(&self) -> bool {
        self.0.values().any(|rules| rules.mode == FleetMode::Act)
    }
}

impl PoolRules {
    /// How many of `fresh` agents must hold a lane open: the share, and never fewer than
    /// `min_agents` or one.
    pub fn votes_needed(&self, fresh: u64) -> u64 {
        // The tolerance keeps 0.3 of 10 at 3.
        let share = (self.quorum * fresh as f64 - 1e-9).ceil().max(0.0);
        (share as u64).max(u64::from(self.min_agents)).max(1)
    }

    /// How many members may be advised against at a time.
    fn benched_max(&self) -> usize {
        let share = self.max_benched * self.members.len() as f64 + 1e-9;
        (share.floor().max(0.0) as usize).min(self.members.len().saturating_sub(1))
    }
}

/// Names a cell that advice is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdvisedCell {
    /// The pool.
    pub pool: PoolName,
    /// The lane.
    pub lane: LaneName,
    /// The endpoint, where the policy keeps a cell for each.
    pub endpoint: Option<String>,
}

/// One agent that holds a cell open. Times are unix milliseconds by the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Since when it has not had it closed.
    pub opened_ms: u64,
    /// When it last saw the lane fail, or earlier.
    pub evidence_ms: u64,
    /// The cause says something about this agent only, or an operator's override holds the cell
    /// open.
    pub is_local: bool,
    /// What failed, by kind and status.
    pub cause: Option<(String, Option<u16>)>,
    /// Failures with that cause since the cell was last closed.
    pub failures: u64,
}

/// What is known of one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// One for each agent identity that holds it open.
    pub votes: Vec<Vote>,
    /// Agent identities that report freshly and have the cell.
    pub fresh: u64,
    /// Agents on which an advisory is in force.
    pub advised: u64,
    /// Attempts that advisories have spared agents, as those count them.
    pub spared: u64,
}

/// Why a lane is not advised against although the quorum stands.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// No other member of the pool would be left.
    LastMember,
    /// As many members are advised against as the pool's `max_benched` allows.
    MaxBenched,
}

impl Withheld {
    /// The reason as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LastMember => "last_member",
            Self::MaxBenched => "max_benched",
        }
    }
}

/// A lane that enough agents hold open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The cell.
    pub cell: AdvisedCell,
    /// The pool's mode.
    pub mode: FleetMode,
    /// Why nobody is warned, if so.
    pub withheld: Option<Withheld>,
    /// Since when enough agents have held it open, unix milliseconds.
    pub since_ms: u64,
    /// When one of them last saw it fail, unix milliseconds. An agent with a later success of its
    /// own knows better.
    pub evidence_ms: u64,
    /// Agents that hold it open.
    pub open: u64,
    /// Agents that report freshly and have the cell.
    pub fresh: u64,
    /// The most frequent cause.
    pub cause: Option<(String, Option<u16>)>,
    /// Agents on which the advisory is in force.
    pub advised: u64,
    /// Attempts that it has spared them.
    pub spared: u64,
    /// Agents that opened their cells after there was time to warn them.
    pub late_agents: u64,
    /// Failures that those met.
    pub late_attempts: u64,
}

impl Advice {
    /// True when agents are to be told.
    pub fn is_sent(&self) -> bool {
        self.mode == FleetMode::Act && self.withheld.is_none()
    }
}

/// What is to be advised, in the order of the cells.
pub fn advise(rules: &AdviceRules, tallies: &BTreeMap<AdvisedCell, Tally>) -> Vec<Advice> {
    let mut all = Vec::new();
    for (pool, rules) in &rules.0 {
        let of_pool = tallies.iter().filter(|(cell, _)| cell.pool == *pool);
        let of_pool: Vec<(&AdvisedCell, &Tally)> = of_pool.collect();
        let mut found: Vec<Advice> = of_pool
            .iter()
            .filter(|(cell, _)| rules.members.contains(&cell.lane))
            .filter_map(|(cell, tally)| candidate(rules, cell, tally))
            .collect();
        found.sort_by(|a, b| (a.since_ms, &a.cell).cmp(&(b.since_ms, &b.cell)));
        bench(rules, &of_pool, &mut found);
        all.extend(found);
    }
    all.sort_by(|a, b| a.cell.cmp(&b.cell));
    all
}

/// The advice about a cell that enough agents hold open for what is wrong with the lane.
fn candidate(rules: &PoolRules, cell: &AdvisedCell, tally: &Tally) -> Option<Advice> {
    let needed = rules.votes_needed(tally.fresh);
    let votes: Vec<&Vote> = tally.votes.iter().filter(|vote| !vote.is_local).collect();
    let open = u64::try_from(votes.len()).unwrap_or(u64::MAX);
    if open < needed {
        return None;
    }
    let mut opened: Vec<u64> = votes.iter().map(|vote| vote.opened_ms).collect();
    opened.sort_unstable();
    let since_ms = *opened.get(usize::try_from(needed).ok()?.checked_sub(1)?)?;
    let evidence_ms = votes.iter().map(|vote| vote.evidence_ms).max()?;
    let too_late = since_ms.saturating_add(WARNING_MS);
    let late = votes.iter().filter(|vote| vote.opened_ms > too_late);
    let (late_agents, late_attempts) = late.fold((0, 0_u64), |(agents, attempts), vote| {
        (agents + 1, attempts.saturating_add(vote.failures))
    });
    Some(Advice {
        cell: cell.clone(),
        mode: rules.mode,
        withheld: None,
        since_ms,
        evidence_ms,
        open,
        fresh: tally.fresh,
        cause: most_frequent(&votes),
        advised: tally.advised,
        spared: tally.spared,
        late_agents,
        late_attempts,
    })
}

fn most_frequent(votes: &[&Vote]) -> Option<(String, Option<u16>)> {
    let mut counts: BTreeMap<&(String, Option<u16>), u64> = BTreeMap::new();
    for cause in votes.iter().filter_map(|vote| vote.cause.as_ref()) {
        *counts.entry(cause).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(cause, _)| cause.clone())
}

/// Withholds what a pool cannot spare. `found` is in the order in which its quorums came about.
fn bench(rules: &PoolRules, of_pool: &[(&AdvisedCell, &Tally)], found: &mut [Advice]) {
    // Members that the fleet cannot use anyway, for whatever cause.
    let down: BTreeSet<&LaneName> = of_pool
        .iter()
        .filter(|(_, tally)| {
            let held = u64::try_from(tally.votes.len()).unwrap_or(u64::MAX);
            held >= rules.votes_needed(tally.fresh)
        })
        .map(|(cell, _)| &cell.lane)
        .collect();
    let remains = rules.members.iter().any(|lane| !down.contains(lane));
    let benched_max = rules.benched_max();
    let mut benched: BTreeSet<LaneName> = BTreeSet::new();
    for advice in found {
        let lane = &advice.cell.lane;
        if !remains {
            advice.withheld = Some(Withheld::LastMember);
        } else if !benched.contains(lane) && benched.len() >= benched_max {
            advice.withheld = Some(Withheld::MaxBenched);
        } else {
            benched.insert(lane.clone());
        }
    }
}
