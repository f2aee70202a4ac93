//! The overrides that this session was given, and the answer to them.

use lanekeeper_proto::message::{Overrides, OverridesResult, RefusedOverride};

/// Why an override is not carried out that names a cell which the agent does not have.
const NO_SUCH_CELL: &str = "the revision that the agent serves has no such cell";

/// The latest set, in short.
#[derive(Debug)]
pub(super) struct Given {
    generation: u64,
    ids: Vec<String>,
    unreadable: Vec<RefusedOverride>,
}

impl Given {
    pub(super) fn new(overrides: &Overrides) -> Self {
        let ids = overrides.entries.iter().map(|active| active.id.clone());
        Self {
            generation: overrides.generation,
            ids: ids.collect(),
            unreadable: overrides.unreadable.clone(),
        }
    }

    /// The answer, given the ids of those that concern no cell here.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_separates_overrides_in_force_from_those_that_cannot_be() {
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
