//! Processes that live under one identity: a cache folder with an agent's key was copied. A restart
//! leaves two for a moment, the old one and the new one, of which nothing is said.

use super::state::Key;
use lanekeeper_model::fleet::agent_state;
use lanekeeper_model::{AgentRecord, AgentState, FreshWindows};
use std::collections::BTreeMap;

/// A restart may leave the old process beside the new one for this long, in milliseconds: until one
/// that was killed counts as silent, and a report's time more.
pub(super) const OVERLAP_MS: u64 = 40_000;
/// The most processes of one identity that are named to each other.
const NAMED_MAX: usize = 3;

/// A process that came with an identity.
pub(super) struct Holder {
    pub(super) key: Key,
    /// When it was first reported of, unix milliseconds.
    pub(super) first_seen_ms: u64,
}

/// The processes of each identity that several came with.
pub(super) type Holders = BTreeMap<String, Vec<Holder>>;

/// For each agent that shares its identity, the names of all that do.
pub(super) type Sharing = BTreeMap<Key, Vec<(String, String)>>;

/// Who shares an identity with another process that lives, beyond the overlap of a restart.
pub(super) fn sharing<'a>(
    holders: &Holders,
    now_ms: u64,
    record_of: impl Fn(&Key) -> Option<&'a AgentRecord>,
) -> Sharing {
    let mut sharing = Sharing::new();
    for processes in holders.values() {
        let mut living: Vec<(&Holder, &AgentRecord)> = processes
            .iter()
            .filter_map(|holder| Some((holder, record_of(&holder.key)?)))
            .filter(|(_, record)| {
                let state = agent_state(record, now_ms, FreshWindows::default());
                matches!(state, AgentState::Live | AgentState::Draining)
            })
            .collect();
        living.sort_by_key(|(holder, _)| holder.first_seen_ms);
        let beyond =
            |(holder, _): &(&Holder, _)| now_ms.saturating_sub(holder.first_seen_ms) > OVERLAP_MS;
        if !living.get(1).is_some_and(beyond) {
            continue;
        }
        let named: Vec<(String, String)> = living
            .iter()
            .take(NAMED_MAX + 1)
            .map(|(_, record)| (record.instance.clone(), record.name.clone()))
            .collect();
        for (holder, _) in living {
            sharing.insert(holder.key.clone(), named.clone());
        }
    }
    sharing
}

/// What is to be said of an agent that shares its identity.
pub(super) fn problem_of(sharing: &Sharing, record: &AgentRecord) -> Option<String> {
    let named = sharing.get(&(record.gateway.clone(), record.instance.clone()))?;
    let others: Vec<String> = named
        .iter()
        .filter(|(instance, _)| *instance != record.instance)
        .take(NAMED_MAX)
        .map(|(instance, name)| format!("{name} ({instance})"))
        .collect();
    Some(format!(
        "other living processes hold this agent's certificate, a copy of its key: {}; deleting one of \
         them sends all away",
        others.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn record(name: &str, age_ms: u64, left: bool) -> AgentRecord {
        let text = serde_json::json!({"gateway": "edge", "instance": format!("i-{name}"),
            "name": name, "left": left, "report_received_ms": NOW_MS - age_ms});
        serde_json::from_value(text).unwrap()
    }

    /// Who is told of whom, of two processes: the first there for an hour, the second for `second_ms`.
    fn told(first: AgentRecord, second: AgentRecord, second_ms: u64) -> Vec<String> {
        let records: BTreeMap<Key, AgentRecord> = [first, second]
            .into_iter()
            .map(|record| ((record.gateway.clone(), record.instance.clone()), record))
            .collect();
        let ages = [3_600_000, second_ms];
        let processes = records.keys().zip(ages).map(|(key, age_ms)| Holder {
            key: key.clone(),
            first_seen_ms: NOW_MS - age_ms,
        });
        let holders = Holders::from([("a".to_owned(), processes.collect())]);
        let sharing = sharing(&holders, NOW_MS, |key| records.get(key));
        let problems = { records.values() }.filter_map(|record| problem_of(&sharing, record));
        problems.collect()
    }

    #[test]
    fn two_that_live_under_one_identity_are_told_of_each_other() {
        let told = told(record("a", 0, false), record("b", 0, false), OVERLAP_MS + 1);
        assert_eq!(told.len(), 2);
        assert!(
            told[0].contains("b (i-b)") && !told[0].contains("(i-a)"),
            "{told:?}"
        );
        assert!(
            told[1].contains("a (i-a)") && !told[1].contains("(i-b)"),
            "{told:?}"
        );
    }

    #[test]
    fn a_restart_is_no_sharing() {
        let nobody: [String; 0] = [];
        let soon = told(record("a", 0, false), record("b", 0, false), OVERLAP_MS);
        assert_eq!(soon, nobody, "the overlap of a surge");
        let hour_ms = 3_600_000;
        let left = told(record("a", 0, true), record("b", 0, false), hour_ms);
        assert_eq!(left, nobody, "the old one said goodbye");
        let silent = told(record("a", 30_001, false), record("b", 0, false), hour_ms);
        assert_eq!(silent, nobody, "the old one was killed");
    }
}
