//! What a report says of pools, held to the document that the agent serves: what the document does
//! not have is left out, so that an agent can put no name into the view that nobody configured.

use std::collections::BTreeSet;

use lanekeeper_model::{PoolName, PoolReport, PoolTraffic, PoolUsability};
use serde_json::Value;

/// What is said of an agent that reports what its document does not have.
pub(super) const FOREIGN: &str =
    "reports pools or lanes that its revision does not have; they are left out";

/// The pools and lanes that a document names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DocumentNames {
    pools: BTreeSet<String>,
    lanes: BTreeSet<String>,
}

impl DocumentNames {
    /// The names in a document that was validated before.
    pub(crate) fn of(document: &Value) -> Self {
        let keys = |field: &str| {
            let map = document.get(field).and_then(Value::as_object);
            map.map(|map| map.keys().cloned().collect())
        };
        Self {
            pools: keys("pools").unwrap_or_default(),
            lanes: keys("models").unwrap_or_default(),
        }
    }
}

/// What a report says of pools.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The pools of which there is anything to keep until the next report.
    pub(super) usability: Vec<PoolUsability>,
    /// What came of requests since the report before.
    pub(super) traffic: Vec<(PoolName, PoolTraffic)>,
    /// Something was left out.
    pub(super) is_foreign: bool,
}

/// Takes a report's pools apart. Without `names` (the document that the agent serves is not known
/// here) nothing is left out.
pub(super) fn split(pools: Vec<PoolReport>, names: Option<&DocumentNames>) -> Said {
    let mut said = Said::default();
    for PoolReport {
        mut usability,
        mut traffic,
    } in pools
    {
        if let Some(names) = names {
            if !usability.pool.is_direct() && !names.pools.contains(&*usability.pool) {
                said.is_foreign = true;
                continue;
            }
            let before = usability.unusable.len() + traffic.attempts.len();
            usability
                .unusable
                .retain(|it| names.lanes.contains(&*it.lane));
            traffic
                .attempts
                .retain(|(lane, _)| names.lanes.contains(&**lane));
            said.is_foreign |= before != usability.unusable.len() + traffic.attempts.len();
        }
        if !traffic.is_empty() {
            said.traffic.push((usability.pool.clone(), traffic));
        }
        if usability.is_notable() {
            said.usability.push(usability);
        }
    }
    said.usability.shrink_to_fit();
    said
}

/// What makes two reports look alike to a person: which pools lack what.
pub(super) fn lacks(
    pools: &[PoolUsability],
) -> impl Iterator<Item = (&PoolName, bool, &[lanekeeper_model::LaneUsability])> {
    pools
        .iter()
        .filter(|pool| pool.is_amiss())
        .map(|pool| (&pool.pool, pool.exhausted, pool.unusable.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanekeeper_model::{AttemptCounts, LaneUsability, UnusableReason};
    use serde_json::json;

    fn pool(name: &str, lane: &str) -> PoolReport {
        let mut pool = PoolReport::default();
        pool.usability.pool = name.into();
        pool.usability.unusable = vec![LaneUsability {
            lane: lane.into(),
            reasons: [UnusableReason::MissingKey].into_iter().collect(),
        }];
        let attempts = AttemptCounts {
            success: 1,
            ..AttemptCounts::default()
        };
        pool.traffic.attempts = vec![(lane.into(), attempts)];
        pool
    }

    #[test]
    fn names_that_the_document_lacks_are_left_out() {
        let document = json!({"pools": {"chat": {}}, "models": {"fast": {}}});
        let names = DocumentNames::of(&document);
        let good = || vec![pool("chat", "fast"), pool("", "fast")];
        let said = split(good(), Some(&names));
        assert_eq!(
            (said.usability.len(), said.traffic.len(), said.is_foreign),
            (2, 2, false)
        );
        let mut lying = good();
        lying.extend([pool("made-up", "fast"), pool("chat", "made-up")]);
        let said = split(lying, Some(&names));
        assert_eq!(
            (said.usability.len(), said.traffic.len(), said.is_foreign),
            (2, 2, true)
        );
        let said = split(vec![pool("any", "any")], None);
        assert_eq!((said.usability.len(), said.is_foreign), (1, false));
    }
}
