//! What this side has to say about an agent, beside the problems that the agent reports itself.

use std::time::{Duration, Instant};

/// How long a copy is spoken of after it was turned away last. It waits 60 s to 120 s between two
/// attempts.
const DUPLICATE_TTL: Duration = Duration::from_secs(180);

const DUPLICATE: &str = "another living process claims this agent's instance and is turned away";
const UNDRAINABLE: &str =
    "this agent cannot be taken out of service: its release does not understand it";

/// The notes about one agent.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// When a copy was turned away last.
    duplicate: Option<Instant>,
    /// Someone wants it out of service, which it does not understand.
    undrainable: bool,
}

impl Notes {
    pub(super) fn duplicate(&mut self, now: Instant) {
        self.duplicate = Some(now);
    }

    pub(super) fn undrainable(&mut self, is_wanted: bool) {
        self.undrainable = is_wanted;
    }

    /// An agent's own problems, and the notes that count at `now`.
    pub(super) fn beside(&self, mut problems: Vec<String>, now: Instant) -> Vec<String> {
        problems.retain(|problem| problem != DUPLICATE && problem != UNDRAINABLE);
        let is_recent = |at: Instant| now.saturating_duration_since(at) < DUPLICATE_TTL;
        if self.duplicate.is_some_and(is_recent) {
            problems.push(DUPLICATE.to_owned());
        }
        if self.undrainable {
            problems.push(UNDRAINABLE.to_owned());
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn notes_stand_beside_the_agents_problems_while_they_count() {
        let start = clock::now();
        let own = || vec!["disk is read-only".to_owned()];
        let mut notes = Notes::default();
        assert_eq!(notes.beside(own(), start), own());
        notes.duplicate(start);
        notes.undrainable(true);
        let both = notes.beside(own(), start);
        assert_eq!(both.len(), 3);
        assert_eq!(notes.beside(both.clone(), start), both, "not twice");
        notes.undrainable(false);
        let later = start + DUPLICATE_TTL;
        assert_eq!(notes.beside(both, later), own());
    }
}
