//! Incidents as the API gives them: `GET /api/v1/incidents` and `/api/v1/incidents/{id}`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ContextKind, ContextMark, Ending, Incident, Share, Subject};
use crate::fleet::{Scope, rfc3339};
use crate::ids::GatewayName;
use crate::transition::{EntryKind, TimelineEntry};

/// Where an incident is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IncidentState {
    /// It fails on some agent, or an override hides how it is.
    Active,
    /// It is over on every agent that reports, though not for long enough.
    Quiet,
    /// It is over.
    Closed,
}

impl IncidentState {
    /// The state as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Quiet => "quiet",
            Self::Closed => "closed",
        }
    }
}

/// An incident in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentView {
    /// Names the incident in paths.
    pub id: String,
    /// The gateway.
    pub gateway: GatewayName,
    /// What failed.
    pub subject: Subject,
    /// The lane's provider, or the provider itself; null for a pool.
    pub provider: Option<String>,
    /// The pools whose cells of the lane opened; the empty name for direct routes.
    pub pools: Vec<String>,
    /// Where it is.
    pub state: IncidentState,
    /// When the first agent met it, RFC 3339.
    pub opened_at: String,
    /// When it was over on the last agent, RFC 3339; null while it is not known to be over.
    pub ended_at: Option<String>,
    /// When it was declared over, RFC 3339; null while it goes on.
    pub closed_at: Option<String>,
    /// How it ended; null while it goes on.
    pub ending: Option<Ending>,
    /// Seconds from its beginning to its end, or until now.
    pub duration_secs: f64,
    /// How much of the fleet has it now; null while nobody has.
    pub scope: Option<Scope>,
    /// The most of the fleet that had it.
    pub widest_scope: Scope,
    /// Agents that had it at the same time at most, and how many reported then.
    pub peak: Share,
    /// Agents that have it now.
    pub agents_affected: u64,
    /// Agents that have or had it.
    pub agents_total: u64,
    /// How often it was over everywhere and came again.
    pub flaps: u64,
    /// Failures by cause over all agents, the most frequent first.
    pub causes: Vec<IncidentCause>,
    /// Calls that moved to another lane, on agents while they had it. Where incidents share an
    /// agent's time, each counts all.
    pub calls_failed_over: u64,
    /// Calls that ended in an error, on agents while they had it; likewise.
    pub calls_failed: u64,
    /// What began within two minutes before it and may have caused it.
    pub suspects: Vec<IncidentContext>,
}

/// A cause with its failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentCause {
    /// Kind in snake case.
    pub kind: String,
    /// HTTP status, when there was one.
    pub status: Option<u16>,
    /// Failures for it.
    pub count: u64,
}

/// What an operator did around an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentContext {
    /// What.
    pub kind: ContextKind,
    /// The revision's number, or the override's id.
    pub id: String,
    /// When it began, RFC 3339.
    pub at: String,
    /// When it ended, RFC 3339; null while it has not, and for what has no end.
    pub ended_at: Option<String>,
    /// Who did it.
    pub actor: String,
    /// What it was, in words.
    pub detail: String,
    /// It began within two minutes before the incident.
    pub suspect: bool,
}

/// An incident in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentDetail {
    /// The incident in short.
    pub incident: IncidentView,
    /// How its scope changed, the earliest first.
    pub scopes: Vec<IncidentScope>,
    /// The agents that met it, the first to meet it first, at most 1,000.
    pub agents: Vec<IncidentAgentView>,
    /// Overrides, revisions and rollouts in its time and shortly before, the earliest first.
    pub context: Vec<IncidentContext>,
    /// Each agent's states over the incident's time, from the timeline; the first to meet it first.
    pub strip: Vec<StripAgent>,
    /// True when the strip lacks something: changes of state that are no longer stored or were shed,
    /// or more of them than are read for one strip.
    pub strip_truncated: bool,
}

/// A scope and how long it held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentScope {
    /// From when on, RFC 3339.
    pub at: String,
    /// The scope; null = over everywhere.
    pub scope: Option<Scope>,
    /// Agents that had it.
    pub affected: u64,
    /// Agents that reported.
    pub fresh: u64,
}

/// One agent's part in an incident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IncidentAgentView {
    /// The agent's name.
    pub agent: String,
    /// The agent's instance.
    pub instance: String,
    /// When it first met it, RFC 3339.
    pub first_at: String,
    /// It has it now.
    pub affected: bool,
    /// When it last began or was over there, RFC 3339.
    pub changed_at: String,
    /// How often it began there.
    pub openings: u64,
    /// Most re-openings of one cell there since it was last closed.
    pub reopens: u64,
    /// Calls that moved to another lane there while it had it.
    pub calls_failed_over: u64,
    /// Calls that ended in an error there while it had it.
    pub calls_failed: u64,
}

/// One agent's states over an incident's time. Of several cells of a lane the worst counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StripAgent {
    /// The agent's name.
    pub agent: String,
    /// The agent's instance.
    pub instance: String,
    /// Its states, one after the other.
    pub spans: Vec<StripSpan>,
}

/// A state and how long it held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StripSpan {
    /// The state.
    pub state: StripState,
    /// From when on, RFC 3339.
    pub from: String,
    /// Until when, RFC 3339; null when it holds still.
    pub until: Option<String>,
}

/// What a strip shows of an agent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StripState {
    /// Passing.
    Closed,
    /// Probing.
    HalfOpen,
    /// Refusing.
    Open,
}

impl Incident {
    /// Where it is.
    pub fn state(&self) -> IncidentState {
        match (&self.closed, self.quiet_since_ms) {
            (Some(_), _) => IncidentState::Closed,
            (None, Some(_)) => IncidentState::Quiet,
            (None, None) => IncidentState::Active,
        }
    }

    /// The incident in short.
    pub fn view(&self, now_ms: u64) -> IncidentView {
        let ended_ms = self.ended_ms().or(self.quiet_since_ms);
        let until_ms = ended_ms.unwrap_or(now_ms);
        let (calls_failed_over, calls_failed) = self.calls();
        let mut causes: Vec<IncidentCause> = self
            .causes
            .iter()
            .map(|counted| IncidentCause {
                kind: counted.cause.kind.clone(),
                status: counted.cause.status,
                count: counted.count,
            })
            .collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
        let affected = self.agents.values().filter(|agent| agent.affected);
        IncidentView {
            id: self.id.clone(),
            gateway: self.gateway.clone(),
            subject: self.subject.clone(),
            provider: (!self.provider.is_empty()).then(|| self.provider.clone()),
            pools: self.pools.clone(),
            state: self.state(),
            opened_at: rfc3339(self.opened_ms),
            ended_at: ended_ms.map(rfc3339),
            closed_at: self.closed.map(|closed| rfc3339(closed.at_ms)),
            ending: self.closed.map(|closed| closed.ending),
            duration_secs: until_ms.saturating_sub(self.opened_ms) as f64 / 1000.0,
            scope: self.scope,
            widest_scope: self.widest,
            peak: self.peak,
            agents_affected: affected.count() as u64,
            agents_total: self.agents.len() as u64 + self.agents_beyond,
            flaps: self.flaps,
            causes,
            calls_failed_over,
            calls_failed,
            suspects: self
                .suspects()
                .map(|mark| self.context_view(mark))
                .collect(),
        }
    }

    /// The incident in full, with the changes of state of its time, in any order. `truncated` when
    /// there are more than these.
    pub fn detail(
        &self,
        timeline: &[TimelineEntry],
        truncated: bool,
        now_ms: u64,
    ) -> IncidentDetail {
        let mut agents: Vec<_> = self.agents.iter().collect();
        agents.sort_by_key(|(_, agent)| agent.first_ms);
        let shed = timeline.iter().any(|entry| entry.kind == EntryKind::Shed);
        IncidentDetail {
            incident: self.view(now_ms),
            scopes: self
                .scopes
                .iter()
                .map(|change| IncidentScope {
                    at: rfc3339(change.at_ms),
                    scope: change.scope,
                    affected: change.share.affected,
                    fresh: change.share.fresh,
                })
                .collect(),
            agents: agents
                .into_iter()
                .map(|(instance, agent)| IncidentAgentView {
                    agent: agent.agent.clone(),
                    instance: instance.clone(),
                    first_at: rfc3339(agent.first_ms),
                    affected: agent.affected,
                    changed_at: rfc3339(agent.changed_ms),
                    openings: agent.openings,
                    reopens: agent.reopens,
                    calls_failed_over: agent.failovers,
                    calls_failed: agent.failed,
                })
                .collect(),
            context: self
                .context
                .iter()
                .map(|mark| self.context_view(mark))
                .collect(),
            strip: strip(timeline),
            strip_truncated: truncated || shed,
        }
    }

    fn context_view(&self, mark: &ContextMark) -> IncidentContext {
        IncidentContext {
            kind: mark.kind,
            id: mark.id.clone(),
            at: rfc3339(mark.at_ms),
            ended_at: mark.ended_ms.map(rfc3339),
            actor: mark.actor.clone(),
            detail: mark.detail.clone(),
            suspect: self
                .suspects()
                .any(|suspect| suspect.kind == mark.kind && suspect.id == mark.id),
        }
    }
}

/// The cells of one agent as they change.
#[derive(Default)]
struct AgentCells<'a> {
    agent: &'a str,
    cells: BTreeMap<(&'a str, &'a str), StripState>,
    spans: Vec<(StripState, u64)>,
}

/// Each agent's worst state over time. Within an agent the numbers of its changes tell their order.
fn strip(timeline: &[TimelineEntry]) -> Vec<StripAgent> {
    let mut entries: Vec<&TimelineEntry> = timeline.iter().collect();
    entries.sort_by_key(|entry| (&entry.instance, entry.sequence));
    let mut agents = BTreeMap::<&str, AgentCells<'_>>::new();
    for entry in entries {
        let state = match entry.kind {
            EntryKind::Opened => StripState::Open,
            EntryKind::HalfOpened => StripState::HalfOpen,
            EntryKind::Closed => StripState::Closed,
            EntryKind::Shed => continue,
        };
        let agent = agents.entry(&entry.instance).or_default();
        agent.agent = &entry.agent;
        let pool = entry.pool.as_deref().unwrap_or_default();
        let endpoint = entry.detail.endpoint.as_deref().unwrap_or_default();
        agent.cells.insert((pool, endpoint), state);
        let worst = agent.cells.values().max().copied().unwrap_or(state);
        match agent.spans.last() {
            Some((known, _)) if *known == worst => {}
            Some(_) | None => agent.spans.push((worst, entry.at_ms)),
        }
    }
    let mut strips: Vec<(u64, StripAgent)> = agents
        .into_iter()
        .map(|(instance, agent)| {
            let until = agent.spans.iter().skip(1).map(|(_, at)| Some(*at));
            let spans = agent.spans.iter().zip(until.chain([None]));
            let spans = spans.map(|((state, from_ms), until_ms)| StripSpan {
                state: *state,
                from: rfc3339(*from_ms),
                until: until_ms.map(rfc3339),
            });
            let first = agent.spans.first().map_or(u64::MAX, |(_, at)| *at);
            let strip = StripAgent {
                agent: agent.agent.to_owned(),
                instance: instance.to_owned(),
                spans: spans.collect(),
            };
            (first, strip)
        })
        .collect();
    strips.sort_by_key(|(first, _)| *first);
    strips.into_iter().map(|(_, strip)| strip).collect()
}
