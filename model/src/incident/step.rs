//! How an incident begins, goes on and ends.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    AGENTS_MAX, AgentPart, AgentSighting, CAUSES_MAX, CellCauses, Closed, CountedCause, Ending,
    FLAPPING_AFTER, Incident, SCOPES_MAX, ScopeChange, Share, Sighting, Subject, UNKNOWN_AFTER_MS,
};
use crate::fleet::Scope;
use crate::ids::GatewayName;
use crate::report::Totals;

/// What people should hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncidentEvent {
    /// It began.
    Opened,
    /// It reaches further than ever before.
    Widened {
        /// The widest scope until then.
        from: Scope,
    },
    /// It was over and came again, for the [`FLAPPING_AFTER`]th time.
    Flapping,
    /// It is over.
    Ended(Ending),
}

impl IncidentEvent {
    /// The event as webhooks and metrics spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "incident_opened",
            Self::Widened { .. } => "incident_widened",
            Self::Flapping => "incident_flapping",
            Self::Ended(_) => "incident_recovered",
        }
    }
}

impl Incident {
    /// An incident that begins with what fresh agents say; `None` when it fails nowhere. The id is
    /// the store's to give.
    pub fn open(
        gateway: &GatewayName,
        subject: &Subject,
        sighting: &Sighting,
        fresh: u64,
        now_ms: u64,
    ) -> Option<Self> {
        let share = share_of(sighting, fresh);
        let scope = Scope::of(share.affected, share.fresh)?;
        let since = sighting.affected.iter().map(|seen| seen.since_ms).min();
        let mut incident = Self {
            id: String::new(),
            gateway: gateway.clone(),
            subject: subject.clone(),
            provider: sighting.provider.clone(),
            pools: Vec::new(),
            opened_ms: since.unwrap_or(now_ms).min(now_ms),
            quiet_since_ms: None,
            unknown_since_ms: None,
            closed: None,
            scope: Some(scope),
            widest: scope,
            scopes: vec![ScopeChange {
                at_ms: now_ms,
                scope: Some(scope),
                share,
            }],
            peak: share,
            flaps: 0,
            causes: Vec::new(),
            agents: BTreeMap::new(),
            agents_beyond: 0,
            context: Vec::new(),
        };
        incident.meet(sighting, now_ms);
        Some(incident)
    }

    /// Takes the next look: what fresh agents say of the subject, how many there are, and whether
    /// the reports of some may be missing. Returns what people should hear of.
    pub fn step(
        &mut self,
        sighting: &Sighting,
        fresh: u64,
        partial: bool,
        now_ms: u64,
        quiet_ms: u64,
    ) -> Vec<IncidentEvent> {
        if self.closed.is_some() {
            return Vec::new();
        }
        let mut events = Vec::new();
        self.part(sighting, now_ms);
        self.meet(sighting, now_ms);
        self.rescope(share_of(sighting, fresh), now_ms, &mut events);
        if fresh == 0 {
            let since = *self.unknown_since_ms.get_or_insert(now_ms);
            if now_ms.saturating_sub(since) >= UNKNOWN_AFTER_MS {
                self.end(Ending::Unknown, now_ms, &mut events);
            }
            return events;
        }
        self.unknown_since_ms = None;
        if !sighting.affected.is_empty() {
            if self.quiet_since_ms.take().is_some() {
                self.flaps += 1;
                if self.flaps == FLAPPING_AFTER {
                    events.push(IncidentEvent::Flapping);
                }
            }
        } else if sighting.hidden > 0 || partial {
            // Neither does it fail, nor may it be called well.
            if sighting.hidden > 0 {
                self.quiet_since_ms = None;
            }
        } else {
            let since = *self.quiet_since_ms.get_or_insert(now_ms);
            if now_ms.saturating_sub(since) >= quiet_ms {
                self.end(Ending::Recovered, now_ms, &mut events);
            }
        }
        events
    }

    /// Ends it because its gateway is gone.
    pub fn remove(&mut self, now_ms: u64) -> Vec<IncidentEvent> {
        let mut events = Vec::new();
        if self.closed.is_none() {
            self.end(Ending::Removed, now_ms, &mut events);
        }
        events
    }

    fn end(&mut self, ending: Ending, now_ms: u64, events: &mut Vec<IncidentEvent>) {
        self.closed = Some(Closed {
            at_ms: now_ms,
            ending,
        });
        self.scope = None;
        for agent in self.agents.values_mut() {
            agent.affected = false;
            agent.counted.clear();
        }
        events.push(IncidentEvent::Ended(ending));
    }

    /// Takes leave of the agents on which it is over, or that are silent.
    fn part(&mut self, sighting: &Sighting, now_ms: u64) {
        let affected: BTreeSet<&str> = sighting
            .affected
            .iter()
            .map(|seen| seen.instance.as_str())
            .collect();
        for (instance, agent) in &mut self.agents {
            if agent.affected && !affected.contains(instance.as_str()) {
                agent.affected = false;
                agent.changed_ms = now_ms;
                agent.counted.clear();
            }
        }
    }

    /// Takes in the agents on which it fails.
    fn meet(&mut self, sighting: &Sighting, now_ms: u64) {
        if !sighting.provider.is_empty() {
            self.provider.clone_from(&sighting.provider);
        }
        for seen in &sighting.affected {
            for pool in &seen.pools {
                if !self.pools.contains(pool) {
                    self.pools.push(pool.clone());
                    self.pools.sort();
                }
            }
            let is_known = self.agents.contains_key(&seen.instance);
            if !is_known && self.agents.len() >= AGENTS_MAX {
                self.agents_beyond = self
                    .agents_beyond
                    .max((sighting.affected.len() as u64).saturating_sub(AGENTS_MAX as u64));
                continue;
            }
            let agent = self
                .agents
                .entry(seen.instance.clone())
                .or_insert_with(|| AgentPart::new(seen, now_ms));
            for (cause, count) in agent.take(seen, now_ms) {
                count_cause(&mut self.causes, cause, count);
            }
        }
    }

    fn rescope(&mut self, share: Share, now_ms: u64, events: &mut Vec<IncidentEvent>) {
        let scope = Scope::of(share.affected, share.fresh);
        let is_peak = share.exceeds(self.peak);
        if is_peak {
            self.peak = share;
        }
        if scope != self.scope {
            self.scope = scope;
            if self.scopes.len() >= SCOPES_MAX {
                self.scopes.remove(SCOPES_MAX / 2);
            }
            self.scopes.push(ScopeChange {
                at_ms: now_ms,
                scope,
                share,
            });
        } else if is_peak && let Some(last) = self.scopes.last_mut() {
            last.share = share;
        }
        if let Some(scope) = scope
            && scope.reach() > self.widest.reach()
        {
            let from = std::mem::replace(&mut self.widest, scope);
            events.push(IncidentEvent::Widened { from });
        }
    }
}

fn share_of(sighting: &Sighting, fresh: u64) -> Share {
    Share {
        affected: sighting.affected.len() as u64,
        fresh,
    }
}

impl AgentPart {
    fn new(seen: &AgentSighting, now_ms: u64) -> Self {
        Self {
            agent: seen.agent.clone(),
            first_ms: seen.since_ms.min(now_ms),
            affected: false,
            changed_ms: now_ms,
            openings: 0,
            reopens: 0,
            failovers: 0,
            failed: 0,
            totals: seen.totals,
            counted: Vec::new(),
        }
    }

    /// Takes what the agent says; returns the failures that are not counted yet.
    fn take(&mut self, seen: &AgentSighting, now_ms: u64) -> Vec<(super::TransitionCause, u64)> {
        if !self.affected {
            self.affected = true;
            self.openings += 1;
            self.changed_ms = seen
                .since_ms
                .clamp(self.first_ms, now_ms.max(self.first_ms));
            // What happened while it was well is not of the incident.
            self.totals = seen.totals;
        }
        self.reopens = self.reopens.max(seen.reopens);
        let Totals {
            failovers, failed, ..
        } = seen.totals;
        self.failovers += failovers.saturating_sub(self.totals.failovers);
        self.failed += failed.saturating_sub(self.totals.failed);
        self.totals = seen.totals;
        let news = seen.causes.iter().filter_map(|now| {
            let before = self.counted.iter().find(|before| before.cell == now.cell);
            let known = match before {
                Some(CellCauses { cause, count, .. }) if *cause == now.cause => *count,
                Some(_) | None => 0,
            };
            // A count that is lower than before began anew.
            let more = now.count.checked_sub(known).unwrap_or(now.count);
            (more > 0).then(|| (now.cause.clone(), more))
        });
        let news = news.collect();
        self.counted.clone_from(&seen.causes);
        news
    }
}

fn count_cause(causes: &mut Vec<CountedCause>, cause: super::TransitionCause, count: u64) {
    let has_room = causes.len() < CAUSES_MAX;
    match causes.iter_mut().find(|known| known.cause == cause) {
        Some(known) => known.count = known.count.saturating_add(count),
        None if has_room => causes.push(CountedCause { cause, count }),
        None => {}
    }
}
