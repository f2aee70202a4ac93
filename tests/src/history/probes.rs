//! Probes of a lane that is always ill, distinguished by the agent that sent them: each agent has
//! at most one at a time.
//!
//! The ill lane answers every request late and badly. Once an agent was seen to hold its cell open,
//! what it still sends there are probes, and the next may only come when the one before is over.

use super::book::Book;
use serde_json::Value;
use std::collections::BTreeMap;

/// How long the ill lane takes to answer.
pub(super) const ANSWER_MS: u64 = 250;
/// Clocks of milliseconds, and the way of a request.
const SLACK_MS: u64 = 20;
/// After a cell was seen open, attempts that began before have arrived.
const LATE_RESULTS_MS: u64 = 400;

/// By the address of the agent.
#[derive(Debug, Default)]
pub(super) struct Probes {
    open_since_ms: BTreeMap<String, u64>,
    latest_ms: BTreeMap<String, u64>,
    /// Arrivals that were probes.
    pub(super) seen: u64,
}

impl Book {
    /// Takes in the state of the ill lane's cell as an agent reports it.
    pub(super) fn holds(&mut self, address: &str, is_closed: bool, now_ms: u64) {
        if is_closed {
            self.probes.open_since_ms.remove(address);
        } else {
            let since = &mut self.probes.open_since_ms;
            since.entry(address.to_owned()).or_insert(now_ms);
        }
    }

    /// Takes in the arrival of one agent's request at the ill lane.
    pub(super) fn arrives(&mut self, address: &str, at_ms: u64) {
        let before = self.probes.latest_ms.insert(address.to_owned(), at_ms);
        let Some(since) = self.probes.open_since_ms.get(address) else {
            return;
        };
        let first = since + LATE_RESULTS_MS;
        if at_ms < first {
            return;
        }
        self.probes.seen += 1;
        if let Some(before) = before
            && before >= first
            && at_ms < before + ANSWER_MS - SLACK_MS
        {
            let apart = at_ms.saturating_sub(before);
            let what = format!("{address} sent two probes within {apart} ms");
            self.violated("I7", what);
        }
    }
}

/// Whether the cell of a pool and lane is closed, by the word of its agent; `None` when it is not
/// listed.
pub(super) fn is_closed(stats: &Value, pool: &str, lane: &str) -> Option<bool> {
    let mut lanes = stats["lanes"].as_array()?.iter();
    let mut cells = lanes.find(|it| it["lane"] == lane)?["cells"]
        .as_array()?
        .iter();
    Some(cells.find(|it| it["pool"] == pool)?["state"] == "closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_probes_at_a_time_are_noticed_and_two_agents_may_have_one_each() {
        let mut book = Book::default();
        // Before it is open, any number.
        book.arrives("a", 1_000);
        book.arrives("a", 1_001);
        book.holds("a", false, 2_000);
        book.arrives("a", 2_001);
        book.holds("b", false, 2_000);
        for at_ms in [4_000, 4_300, 6_000] {
            book.arrives("a", at_ms);
            book.arrives("b", at_ms + 1);
        }
        assert!(book.violations.is_empty(), "{book:?}");
        assert_eq!(book.probes.seen, 6);
        book.arrives("a", 6_100);
        assert_eq!(book.violations.keys().collect::<Vec<_>>(), [&"I7"]);
    }

    #[test]
    fn a_closed_cell_sends_what_it_likes() {
        let mut book = Book::default();
        book.holds("a", false, 1_000);
        book.holds("a", true, 2_000);
        for at_ms in [3_000, 3_001] {
            book.arrives("a", at_ms);
        }
        assert!(book.violations.is_empty(), "{book:?}");
        assert_eq!(book.probes.seen, 0);
    }
}
