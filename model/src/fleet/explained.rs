//! Which override it is that agents report under a cell: reports name only its action.

use std::collections::BTreeMap;

use super::view::FleetView;
use crate::ids::GatewayName;
use crate::steer::ActiveOverride;

/// An active override with the reason that people want beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedOverride {
    /// The override.
    pub override_: ActiveOverride,
    /// Why it was given.
    pub reason: String,
}

/// Adds id, reason and end to each cell's override. An override that is not among the active ones
/// (it was released a moment ago, or the configuration database does not answer) stays without.
pub fn explain_overrides(
    view: &mut FleetView,
    active: &BTreeMap<GatewayName, Vec<ExplainedOverride>>,
    now_ms: u64,
) {
    for cell in &mut view.cells {
        let owner = cell.owner();
        let (Some(shown), Some(overrides)) = (&mut cell.override_, active.get(&cell.gateway))
        else {
            continue;
        };
        let obeyed = overrides
            .iter()
            .filter(|it| {
                it.override_.action.as_str() == shown.action && it.override_.expires_ms > now_ms
            })
            .filter(|it| it.override_.concerns(&owner))
            .reduce(|one, next| {
                if next.override_.takes_precedence_over(&one.override_) {
                    next
                } else {
                    one
                }
            });
        if let Some(obeyed) = obeyed {
            let remaining_ms = obeyed.override_.expires_ms.saturating_sub(now_ms);
            shown.id = Some(obeyed.override_.id.clone());
            shown.reason = Some(obeyed.reason.clone());
            shown.expires_in_secs = Some(remaining_ms as f64 / 1000.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OverrideAction;
    use crate::fleet::tests::oracle::fleet_view;
    use crate::fleet::{AgentRecord, FreshWindows, ViewQuery};
    use serde_json::json;

    const NOW_MS: u64 = 1_000_000;

    fn override_(number: u64, action: OverrideAction, pool: Option<&str>) -> ExplainedOverride {
        ExplainedOverride {
            override_: ActiveOverride {
                id: format!("o{number}"),
                number,
                action,
                pool: pool.map(Into::into),
                lane: "fast".into(),
                provider: None,
                agents: BTreeMap::new(),
                expires_ms: NOW_MS + number * 1000,
            },
            reason: format!("reason {number}"),
        }
    }

    fn shown(overrides: &[ExplainedOverride]) -> Option<(String, String, f64)> {
        let record: AgentRecord = serde_json::from_value(json!({
            "gateway": "edge", "instance": "i", "name": "n", "applied_revision": 1,
            "report_received_ms": NOW_MS,
            "cells": [{"pool": "chat", "lane": "fast", "provider": "p", "state": "open",
                "override_action": "drain"}],
        }))
        .unwrap();
        let query = ViewQuery::default();
        let mut view = fleet_view(&[record], &[], &query, NOW_MS, FreshWindows::default());
        let active = BTreeMap::from([("edge".into(), overrides.to_vec())]);
        explain_overrides(&mut view, &active, NOW_MS);
        let shown = view.cells.remove(0).override_.unwrap();
        assert_eq!(shown.action, "drain");
        Some((shown.id?, shown.reason?, shown.expires_in_secs?))
    }

    #[test]
    fn override_that_the_cell_obeys_is_named() {
        use OverrideAction::{Drain, ForceOpen};
        let expected =
            |id: &str, reason: &str, secs| Some((id.to_owned(), reason.to_owned(), secs));
        let (for_all, of_pool) = (override_(3, Drain, None), override_(2, Drain, Some("chat")));
        assert_eq!(
            shown(std::slice::from_ref(&for_all)),
            expected("o3", "reason 3", 3.0)
        );
        assert_eq!(
            shown(&[of_pool, for_all]),
            expected("o2", "reason 2", 2.0),
            "the pool's override holds before a later one for all"
        );
        let (later, earlier) = (override_(5, Drain, None), override_(4, Drain, None));
        assert_eq!(shown(&[later, earlier]), expected("o5", "reason 5", 5.0));
        let others = [
            override_(1, ForceOpen, None),
            override_(1, Drain, Some("other")),
        ];
        assert_eq!(shown(&others), None);
        assert_eq!(shown(&[override_(0, Drain, None)]), None, "it is over");
    }
}
