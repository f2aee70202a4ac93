//! How the first lane behaves while a client plays a scripted task, and what must come of it.

use lanekeeper_tests::{FIRST_LANE, LaneCall};
use serde_json::{Value, json};

/// How the first lane behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Nothing,
    /// The connection breaks before the first frame of content.
    Dies,
    /// Nothing comes for 12 s, once; then everything does.
    Silence,
    /// It throttles.
    Throttles,
}

pub(crate) const TROUBLES: [Trouble; 4] = [
    Trouble::Nothing,
    Trouble::Dies,
    Trouble::Silence,
    Trouble::Throttles,
];

/// Calls of a whole scripted task: two that are answered with a tool call, one with the last text.
const TURNS: usize = 3;

impl Trouble {
    pub(crate) fn fault(self) -> Option<Value> {
        match self {
            Self::Nothing => None,
            Self::Dies => Some(json!({"cut_after_frames": 0})),
            Self::Silence => Some(json!({"delay_ms": 12_000, "count": 1})),
            Self::Throttles => Some(json!({"status": 429, "headers": {"retry-after": "20"}})),
        }
    }

    /// Checks what reached the lanes of a task that its client finished.
    pub(crate) fn check(self, client: &str, calls: &[LaneCall]) {
        let failed = calls.iter().filter(|call| call.failed).count();
        let served = calls.len() - failed;
        let seen = format!("{client} {self:?}: {calls:?}");
        match self {
            Self::Nothing => assert_eq!((failed, served), (0, TURNS), "{seen}"),
            Self::Dies | Self::Throttles => {
                assert!(failed > 0, "the failing lane is tried; {seen}");
                assert_eq!(served, TURNS, "the other one serves; {seen}");
                let last = calls.last().map(|call| call.lane.as_str());
                assert_ne!(last, Some(FIRST_LANE), "{seen}");
            }
            // A lane that is slow is not left: every turn takes one call.
            Self::Silence => assert_eq!((failed, served), (1, TURNS - 1), "{seen}"),
        }
    }
}
