//! The operators' orders that this session was given, and the answers to them.

use lanekeeper_model::Override;
use lanekeeper_proto::message::{Overrides, OverridesResult, RefusedOverride};

use crate::plane::Plane;

/// Why an order is not carried out that names a cell which the agent does not have.
const NO_SUCH_CELL: &str = "the revision that the agent serves has no such cell";

/// The latest set, in short.
#[derive(Debug)]
pub(super) struct Given {
    generation: u64,
    ids: Vec<String>,
    unreadable: Vec<RefusedOverride>,
}

impl Given {
    /// Puts a set into force. What is not in it is over.
    pub(super) fn obey(plane: &Plane, overrides: Overrides) -> Self {
        plane.apply_overrides(&overrides.entries);
        log(&overrides.entries, overrides.generation);
        for order in &overrides.unreadable {
            tracing::warn!(
                id = order.id,
                reason = order.reason,
                "an override cannot be read"
            );
        }
        Self::of(overrides)
    }

    /// What is answered of a set that is in force.
    pub(super) fn of(overrides: Overrides) -> Self {
        Self {
            generation: overrides.generation,
            ids: overrides
                .entries
                .into_iter()
                .map(|order| order.id)
                .collect(),
            unreadable: overrides.unreadable,
        }
    }

    /// The answer, given the ids of the orders that concern no cell here.
    pub(super) fn answer(&self, unmet: &[String]) -> OverridesResult {
        let is_met = |id: &&String| !unmet.contains(id);
        let refused = self.ids.iter().filter(|id| !is_met(id));
        let refused = refused.map(|id| RefusedOverride {
            id: id.clone(),
            reason: NO_SUCH_CELL.to_owned(),
        });
        OverridesResult {
            generation: self.generation,
            applied: self.ids.iter().filter(is_met).cloned().collect(),
            refused: refused.chain(self.unreadable.iter().cloned()).collect(),
        }
    }
}

fn log(orders: &[Override], generation: u64) {
    tracing::info!(generation, orders = orders.len(), "overrides in force");
    for order in orders {
        tracing::debug!(
            id = order.id,
            action = order.action.as_str(),
            pool = order.pool.as_deref(),
            lane = %order.lane,
            remaining_ms = order.remaining_ms,
            "override"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_tells_orders_in_force_from_those_that_cannot_be() {
        let unreadable = RefusedOverride {
            id: "c".to_owned(),
            reason: "action: value 9 is not known".to_owned(),
        };
        let given = Given {
            generation: 4,
            ids: vec!["a".to_owned(), "b".to_owned()],
            unreadable: vec![unreadable.clone()],
        };
        let answer = given.answer(&["b".to_owned()]);
        assert_eq!(answer.generation, 4);
        assert_eq!(answer.applied, ["a"]);
        assert_eq!(answer.refused[0].id, "b");
        assert_eq!(answer.refused[1], unreadable);
        assert_eq!(given.answer(&[]).applied, ["a", "b"]);
    }
}
