//! What the agents report of one override: a pure function of the override, the agents' records and
//! now.

use serde::{Deserialize, Serialize};

use super::record::{AgentRecord, AgentState, FreshWindows, agent_state};
use crate::steer::ActiveOverride;

/// How far one agent is with an override.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AckState {
    /// It has not acknowledged that the override took effect.
    Pending,
    /// The override took effect there.
    Applied,
    /// It left, or has been silent for long, since the override was given.
    Gone,
}

/// One agent's acknowledgement of an override.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Acknowledgement {
    /// The agent's name.
    pub agent: String,
    /// The agent's instance.
    pub instance: String,
    /// How far it is with the override.
    pub state: AckState,
    /// Seconds since it was applied; for a pending one since it was given, for one that is gone
    /// since its last sign.
    pub age_secs: f64,
    /// Why it is still pending, where that is known.
    pub reason: Option<String>,
}

/// The moments of an override's life, unix milliseconds by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverrideTimes {
    /// When it was given.
    pub created_ms: u64,
    /// When it was released before its end.
    pub released_ms: Option<u64>,
    /// Now.
    pub now_ms: u64,
}

/// What the agents that an override selects report of it, in the order of state, name and instance.
///
/// `records` are those of the override's gateway. Of a released override only those are listed that
/// still have it in force, and of one that has ended by itself none: agents end it by themselves.
pub fn acknowledgements<'a>(
    override_: &ActiveOverride,
    times: OverrideTimes,
    records: impl IntoIterator<Item = &'a AgentRecord>,
    windows: FreshWindows,
) -> Vec<Acknowledgement> {
    if override_.expires_ms <= times.now_ms {
        return Vec::new();
    }
    let mut listed: Vec<Acknowledgement> = records
        .into_iter()
        .filter(|record| override_.selects(&record.labels))
        .filter_map(|record| acknowledgement(override_, times, record, windows))
        .collect();
    listed.sort_by(|a, b| (a.state, &a.agent, &a.instance).cmp(&(b.state, &b.agent, &b.instance)));
    listed
}

fn acknowledgement(
    override_: &ActiveOverride,
    times: OverrideTimes,
    record: &AgentRecord,
    windows: FreshWindows,
) -> Option<Acknowledgement> {
    let OverrideTimes {
        created_ms,
        released_ms,
        now_ms,
    } = times;
    let agent = agent_state(record, now_ms, windows);
    let applied_ms = record.overrides.applied.get(&override_.id);
    let (state, since_ms, reason) = match (agent, applied_ms) {
        (AgentState::Gone, _) if released_ms.is_some() || record.last_sign_ms() < created_ms => {
            return None;
        }
        (AgentState::Gone, _) => (AckState::Gone, record.last_sign_ms(), None),
        (_, Some(applied_ms)) => (AckState::Applied, *applied_ms, None),
        (_, None) if released_ms.is_some() => return None,
        (_, None) => (
            AckState::Pending,
            created_ms,
            hindrance(override_, record, agent),
        ),
    };
    Some(Acknowledgement {
        agent: record.name.clone(),
        instance: record.instance.clone(),
        state,
        age_secs: now_ms.saturating_sub(since_ms) as f64 / 1000.0,
        reason,
    })
}

fn hindrance(
    override_: &ActiveOverride,
    record: &AgentRecord,
    agent: AgentState,
) -> Option<String> {
    if let Some(reason) = record.overrides.refused.get(&override_.id) {
        Some(reason.clone())
    } else if agent == AgentState::Stale {
        Some("the agent is silent".to_owned())
    } else if record.overrides.understood {
        None
    } else {
        Some(format!(
            "agent release {} does not understand overrides",
            record.version
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OverrideAction;
    use crate::fleet::HeldOverrides;
    use serde_json::json;
    use std::collections::BTreeMap;

    const NOW_MS: u64 = 1_000_000;

    fn override_() -> ActiveOverride {
        ActiveOverride {
            id: "one".to_owned(),
            number: 1,
            action: OverrideAction::Drain,
            pool: None,
            lane: "fast".into(),
            provider: None,
            agents: BTreeMap::new(),
            expires_ms: NOW_MS + 60_000,
        }
    }

    fn times(released_ms: Option<u64>) -> OverrideTimes {
        OverrideTimes {
            created_ms: NOW_MS - 10_000,
            released_ms,
            now_ms: NOW_MS,
        }
    }

    fn record(name: &str, last_report_ms: u64, held: HeldOverrides) -> AgentRecord {
        let mut record: AgentRecord = serde_json::from_value(json!({
            "gateway": "edge", "instance": format!("i-{name}"), "name": name, "version": "0.0.9",
        }))
        .unwrap();
        record.report_received_ms = Some(last_report_ms);
        record.overrides = held;
        record
    }

    fn understanding() -> HeldOverrides {
        HeldOverrides {
            understood: true,
            ..HeldOverrides::default()
        }
    }

    fn applied() -> HeldOverrides {
        HeldOverrides {
            applied: [("one".to_owned(), NOW_MS - 9_500)].into(),
            ..understanding()
        }
    }

    fn listed(
        times: OverrideTimes,
        records: &[AgentRecord],
    ) -> Vec<(String, AckState, f64, Option<String>)> {
        acknowledgements(&override_(), times, records, FreshWindows::default())
            .into_iter()
            .map(|ack| (ack.agent, ack.state, ack.age_secs, ack.reason))
            .collect()
    }

    #[test]
    fn each_agent_is_listed_by_its_acknowledgement_and_why_it_is_late() {
        let mut refusing = understanding();
        refusing
            .refused
            .insert("one".to_owned(), "no such cell".to_owned());
        let records = [
            record("applied", NOW_MS, applied()),
            record("late", NOW_MS, understanding()),
            record("old", NOW_MS, HeldOverrides::default()),
            record("refusing", NOW_MS, refusing),
            record("silent", NOW_MS - 40_000, HeldOverrides::default()),
        ];
        let pending = |name: &str, reason: Option<&str>| {
            (
                name.to_owned(),
                AckState::Pending,
                10.0,
                reason.map(str::to_owned),
            )
        };
        assert_eq!(
            listed(times(None), &records),
            [
                pending("late", None),
                pending(
                    "old",
                    Some("agent release 0.0.9 does not understand overrides")
                ),
                pending("refusing", Some("no such cell")),
                pending("silent", Some("the agent is silent")),
                ("applied".to_owned(), AckState::Applied, 9.5, None),
            ]
        );
    }

    #[test]
    fn only_agents_that_were_there_are_gone() {
        let mut left = record("left", NOW_MS - 2_000, applied());
        left.left = true;
        let before = record("before", NOW_MS - 400_000, HeldOverrides::default());
        assert_eq!(
            listed(times(None), &[left, before]),
            [("left".to_owned(), AckState::Gone, 2.0, None)]
        );
    }

    #[test]
    fn released_order_lists_those_that_still_obey_it_and_an_ended_one_nobody() {
        let records = [
            record("behind", NOW_MS, applied()),
            record("free", NOW_MS, understanding()),
        ];
        let behind = ("behind".to_owned(), AckState::Applied, 9.5, None);
        assert_eq!(listed(times(Some(NOW_MS - 100)), &records), [behind]);
        let over = OverrideTimes {
            now_ms: NOW_MS + 60_000,
            ..times(None)
        };
        assert_eq!(listed(over, &records), []);
    }

    #[test]
    fn agents_with_other_labels_are_not_asked() {
        let mut selected = override_();
        selected.agents.insert("zone".to_owned(), "b".to_owned());
        let mut here = record("here", NOW_MS, understanding());
        here.labels.insert("zone".to_owned(), "b".to_owned());
        let records = [here, record("elsewhere", NOW_MS, understanding())];
        let acks = acknowledgements(&selected, times(None), &records, FreshWindows::default());
        let agents: Vec<&str> = acks.iter().map(|ack| ack.agent.as_str()).collect();
        assert_eq!(agents, ["here"]);
    }
}
