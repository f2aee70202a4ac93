//! What changed from one moment to the next.

use super::event::{
    AckCounts, AcknowledgementsEvent, AgentsEvent, CellsEvent, Draft, IncidentsEvent,
    OverridesEvent, RolloutEvent,
};
use super::state::{GatewayState, PageState};
use crate::clock;
use crate::fleet_view::{FleetSnapshot, change};
use lanekeeper_model::fleet::{Acknowledgement, FleetAgents};
use lanekeeper_model::incident::IncidentView;
use lanekeeper_model::{AgentRecord, FleetView, GatewayName};
use lanekeeper_store::StoredIncident;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most agents that one event lists; a page shows no more at once.
const AGENTS_MAX: usize = 250;
/// Most acknowledgements that one event lists.
const ACKS_MAX: usize = 250;

/// The changes from one moment to the next.
pub(super) fn events(
    before: &PageState,
    after: &PageState,
    snapshot: &FleetSnapshot,
    ended: &[Arc<StoredIncident>],
) -> Vec<Draft> {
    let now_ms = clock::now_ms();
    let mut drafts = incidents(before, after, ended, now_ms);
    let mut records = BTreeMap::<&str, &AgentRecord>::new();
    for record in &snapshot.records {
        records.insert(&record.instance, record);
    }
    let nothing = GatewayState::default();
    let names: BTreeSet<&GatewayName> = before
        .gateways
        .keys()
        .chain(after.gateways.keys())
        .collect();
    for name in names {
        let was = before.gateways.get(name).unwrap_or(&nothing);
        let is = after.gateways.get(name).unwrap_or(&nothing);
        drafts.extend(cells(name, was, is));
        drafts.extend(rollout(name, was, is));
        drafts.extend(overrides(name, was, is));
        drafts.extend(acknowledgements(name, was, is));
        drafts.extend(agents(name, was, is, |instance| {
            let record = records.get(instance)?;
            Some(snapshot.agent_view(record, now_ms))
        }));
    }
    if before.summary != after.summary {
        drafts.push(Draft::new("summary", None, &after.summary));
    }
    drafts
}

fn incidents(
    before: &PageState,
    after: &PageState,
    ended: &[Arc<StoredIncident>],
    now_ms: u64,
) -> Vec<Draft> {
    let mut changed = BTreeMap::<&GatewayName, Vec<IncidentView>>::new();
    for (id, stored) in &after.incidents {
        let known = before.incidents.get(id);
        if known.is_some_and(|known| known.version == stored.version) {
            continue;
        }
        let incident = &stored.incident;
        // One that ended before any page was open is not among the ended ones.
        if incident.is_open() || ended.iter().any(|it| it.incident.id == *id) {
            let of_gateway = changed.entry(&incident.gateway).or_default();
            of_gateway.push(incident.view(now_ms));
        }
    }
    changed
        .into_iter()
        .map(|(gateway, incidents)| {
            let event = IncidentsEvent {
                gateway: gateway.clone(),
                incidents,
            };
            Draft::new("incidents", Some(gateway), &event)
        })
        .collect()
}

fn cells(name: &GatewayName, was: &GatewayState, is: &GatewayState) -> Option<Draft> {
    let empty = |view: &FleetView| FleetView {
        cells: Vec::new(),
        agents: FleetAgents::default(),
        ..view.clone()
    };
    let either = is.view.as_ref().or(was.view.as_ref())?;
    let old = was.timeless.clone().unwrap_or_else(|| {
        let mut none = empty(either);
        none.generated_at.clear();
        none
    });
    let new = is.view.clone().unwrap_or_else(|| empty(either));
    let (change, _) = change::between(&old, new)?;
    let event = CellsEvent {
        gateway: name.clone(),
        change,
    };
    Some(Draft::new("cells", Some(name), &event))
}

fn rollout(name: &GatewayName, was: &GatewayState, is: &GatewayState) -> Option<Draft> {
    if (was.revision, &was.rollout) == (is.revision, &is.rollout) {
        return None;
    }
    let event = RolloutEvent {
        gateway: name.clone(),
        revision: is.revision,
        rollout: is.rollout.clone(),
    };
    Some(Draft::new("rollout", Some(name), &event))
}

fn overrides(name: &GatewayName, was: &GatewayState, is: &GatewayState) -> Option<Draft> {
    if was.overrides == is.overrides {
        return None;
    }
    let event = OverridesEvent {
        gateway: name.clone(),
        overrides: is.overrides.clone(),
    };
    Some(Draft::new("overrides", Some(name), &event))
}

fn acknowledgements(name: &GatewayName, was: &GatewayState, is: &GatewayState) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (id, acks) in &is.acks {
        let known = was.acks.get(id).map_or(&[][..], Vec::as_slice);
        let known: BTreeMap<&str, &Acknowledgement> = known
            .iter()
            .map(|ack| (ack.instance.as_str(), ack))
            .collect();
        let is_news = |ack: &&Acknowledgement| {
            known
                .get(ack.instance.as_str())
                .is_none_or(|known| (known.state, &known.reason) != (ack.state, &ack.reason))
        };
        let mut news: Vec<Acknowledgement> = acks.iter().filter(is_news).cloned().collect();
        let counts = AckCounts::of(id, acks);
        if news.is_empty() && acks.len() == known.len() {
            continue;
        }
        let truncated = news.len() > ACKS_MAX;
        news.truncate(ACKS_MAX);
        let event = AcknowledgementsEvent {
            gateway: name.clone(),
            counts,
            acks: news,
            truncated,
        };
        drafts.push(Draft::new("acknowledgements", Some(name), &event));
    }
    drafts
}

fn agents(
    name: &GatewayName,
    was: &GatewayState,
    is: &GatewayState,
    view: impl Fn(&str) -> Option<lanekeeper_model::fleet::AgentView>,
) -> Option<Draft> {
    let is_news = |(instance, mark): &(&String, &u64)| was.agents.get(*instance) != Some(mark);
    let news: Vec<&String> = is
        .agents
        .iter()
        .filter(is_news)
        .map(|(instance, _)| instance)
        .collect();
    let is_gone = |instance: &&String| !is.agents.contains_key(*instance);
    let mut gone: Vec<String> = was.agents.keys().filter(is_gone).cloned().collect();
    if news.is_empty() && gone.is_empty() {
        return None;
    }
    let truncated = news.len() > AGENTS_MAX || gone.len() > AGENTS_MAX;
    gone.truncate(AGENTS_MAX);
    let listed = news.into_iter().take(AGENTS_MAX);
    let event = AgentsEvent {
        gateway: name.clone(),
        agents: listed.filter_map(|instance| view(instance)).collect(),
        gone,
        truncated,
    };
    Some(Draft::new("agents", Some(name), &event))
}
