//! What was seen, and the rules by which a sight breaks an invariant.

use super::probes::Probes;
use crate::cluster::Written;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What two readings of one report's age may differ by: each view is a second old at most.
const AGE_SLACK: Duration = Duration::from_secs(2);
/// Violations that are kept of each kind.
const KEPT_MAX: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Book {
    /// Requests that were proxied.
    pub(super) requests: u64,
    /// Looks at an agent's revision.
    pub(super) looks: u64,
    /// Agents seen in a list.
    pub(super) listed: u64,
    /// Cells seen in a view.
    pub(super) cells: u64,
    pub(super) between_epochs: bool,
    /// By the invariant they break.
    pub(super) violations: BTreeMap<&'static str, Vec<String>>,
    /// The highest revision each agent instance was seen to serve.
    pub(super) served: BTreeMap<String, u64>,
    /// When each agent's newest report came in at the earliest, by API and instance.
    reported: BTreeMap<(usize, String), Instant>,
    pub(super) confirmed: Vec<u64>,
    pub(super) refused: u64,
    pub(super) unknown: u64,
    /// There are revisions of another epoch, of which nobody here knows.
    pub(super) is_restored: bool,
    pub(super) probes: Probes,
}

impl Book {
    pub(super) fn violated(&mut self, invariant: &'static str, what: String) {
        let kept = self.violations.entry(invariant).or_default();
        if kept.len() < KEPT_MAX {
            kept.push(what);
        }
    }

    pub(super) fn wrote(&mut self, written: &Written) {
        match written {
            Written::Confirmed(revision) => self.confirmed.push(*revision),
            Written::Refused(_) => self.refused += 1,
            Written::Unknown => self.unknown += 1,
        }
    }

    /// Takes in an agent's own word about itself.
    pub(super) fn serves(&mut self, stats: &Value) {
        let agent = &stats["agent"];
        let (Some(id), Some(revision)) = (agent["id"].as_str(), agent["revision"].as_u64()) else {
            return;
        };
        if self.between_epochs {
            return;
        }
        self.looks += 1;
        let highest = self.served.entry(id.to_owned()).or_insert(revision);
        if revision < *highest {
            let what = format!("{id} went from revision {highest} to {revision}");
            self.violated("I1", what);
        } else {
            *highest = revision;
        }
    }

    /// Takes in the list of agents as one API shows it, made some time between these two moments.
    pub(super) fn shows(&mut self, api: usize, agents: &Value, asked: Instant, answered: Instant) {
        for agent in agents["agents"].as_array().into_iter().flatten() {
            // Of a silent agent the age is that of the last sign of life still known, be it no
            // report: a Redis that was emptied takes the reports of the dead with it.
            if agent["state"] != "live" && agent["state"] != "draining" {
                continue;
            }
            let (Some(id), Some(age)) = (
                agent["instance"].as_str(),
                agent["last_report_age_secs"].as_f64(),
            ) else {
                continue;
            };
            let Ok(age) = Duration::try_from_secs_f64(age) else {
                continue;
            };
            let (Some(earliest), Some(latest)) =
                (asked.checked_sub(age), answered.checked_sub(age))
            else {
                continue;
            };
            self.listed += 1;
            let newest = self.reported.entry((api, id.to_owned()));
            let newest = newest.or_insert(earliest);
            if latest + AGE_SLACK < *newest {
                let (apart, took) = (*newest - latest, answered - asked);
                let what = format!(
                    "api {api} shows {id} with a report of {age:?}, {apart:?} older than one it \
                     showed before, after {took:?}"
                );
                self.violated("I4", what);
            } else {
                *newest = earliest.max(*newest);
            }
        }
    }

    /// Takes in the breakers as one API shows them.
    pub(super) fn counts(&mut self, api: usize, view: &Value) {
        let live = view["agents"]["live"].as_u64().unwrap_or_default();
        for cell in view["cells"].as_array().into_iter().flatten() {
            let count = |name: &str| cell["agents"][name].as_u64().unwrap_or_default();
            let reporting = count("reporting");
            self.cells += 1;
            if reporting > live || count("closed") + count("open") + count("half_open") != reporting
            {
                self.violated("I5", format!("api {api} with {live} live: {cell}"));
            }
        }
    }

    /// Compares the audit trail and the revisions with the answers that writers got.
    ///
    /// `done` and `refused` are the trail's entries about the gateway: the revision of each change
    /// that was made, and how many attempts failed.
    pub(super) fn settles(&mut self, revisions: &[u64], done: &[u64], refused: u64) {
        for revision in self.confirmed.clone() {
            if !revisions.contains(&revision) {
                self.violated("I3", format!("revision {revision} is gone"));
            }
        }
        let mut confirmed: Vec<u64> = self.confirmed.clone();
        confirmed.sort_unstable();
        if confirmed.windows(2).any(|pair| pair[0] == pair[1]) {
            self.violated(
                "I3",
                format!("one revision was confirmed twice: {confirmed:?}"),
            );
        }
        let mut existing = revisions.to_vec();
        existing.sort_unstable();
        if existing.iter().copied().ne(1..=existing.len() as u64) {
            self.violated("I3", format!("the revisions have gaps: {existing:?}"));
        }
        let mut audited = done.to_vec();
        audited.sort_unstable();
        if audited != existing {
            let what = format!("revisions {existing:?} have the entries {audited:?}");
            self.violated("I8", what);
        }
        // The first revision is older than the record.
        let made_unknown = (existing.len() as u64).saturating_sub(1 + confirmed.len() as u64);
        if !self.is_restored && made_unknown > self.unknown {
            let what = format!(
                "{made_unknown} revisions without a writer, of {} writers without an answer",
                self.unknown
            );
            self.violated("I8", what);
        }
        if refused < self.refused || refused > self.refused + self.unknown {
            let what = format!(
                "{refused} entries about {} failed attempts and {} that nobody knows of",
                self.refused, self.unknown
            );
            self.violated("I8", what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn broken(book: &Book) -> Vec<&'static str> {
        book.violations.keys().copied().collect()
    }

    #[test]
    fn a_revision_that_goes_down_is_noticed() {
        let stats = |revision: u64| json!({"agent": {"id": "a", "revision": revision}});
        let mut book = Book::default();
        for revision in [1, 2, 2, 3] {
            book.serves(&stats(revision));
        }
        assert!(broken(&book).is_empty());
        book.serves(&stats(2));
        assert_eq!(broken(&book), ["I1"]);
    }

    #[test]
    fn an_older_report_after_a_newer_one_is_noticed() {
        let shown = |age: f64| {
            json!({"agents": [
            {"instance": "a", "state": "live", "last_report_age_secs": age}]})
        };
        let now = Instant::now();
        let after = |secs: u64| now + Duration::from_secs(secs);
        let mut book = Book::default();
        book.shows(0, &shown(1.0), now, now);
        book.shows(0, &shown(11.0), after(10), after(10));
        book.shows(0, &shown(0.0), after(11), after(11));
        book.shows(1, &shown(9.0), after(11), after(11));
        // An answer that took long may tell of its end.
        book.shows(0, &shown(9.0), after(12), after(20));
        assert!(broken(&book).is_empty(), "{book:?}");
        book.shows(0, &shown(9.0), after(12), after(12));
        assert_eq!(broken(&book), ["I4"]);
    }

    #[test]
    fn a_cell_counted_by_more_than_the_live_agents_is_noticed() {
        let view = |live: u64, reporting: u64, closed: u64| {
            json!({"agents": {"live": live}, "cells": [
                {"agents": {"reporting": reporting, "closed": closed, "open": 1, "half_open": 0}}]})
        };
        let mut book = Book::default();
        book.counts(0, &view(3, 3, 2));
        assert!(broken(&book).is_empty());
        book.counts(0, &view(2, 3, 2));
        assert_eq!(broken(&book), ["I5"]);
        let mut book = Book::default();
        book.counts(0, &view(3, 3, 3));
        assert_eq!(broken(&book), ["I5"]);
    }

    /// A record of two confirmed writes, one refused and one without an answer.
    fn written() -> Book {
        let mut book = Book::default();
        for written in [
            Written::Confirmed(2),
            Written::Refused(400),
            Written::Unknown,
            Written::Confirmed(3),
        ] {
            book.wrote(&written);
        }
        book
    }

    #[test]
    fn a_trail_in_step_with_its_writers_is_in_order() {
        for (revisions, refused) in [
            (vec![3, 2, 1], 1),
            (vec![4, 3, 2, 1], 1),
            (vec![3, 2, 1], 2),
        ] {
            let mut book = written();
            book.settles(&revisions, &revisions, refused);
            assert!(broken(&book).is_empty(), "{book:?}");
        }
    }

    #[test]
    fn a_lost_write_a_missing_a_second_and_a_foreign_entry_are_noticed() {
        for (what, revisions, done, refused, invariants) in [
            ("lost", vec![1, 2], vec![1, 2], 1, vec!["I3"]),
            ("a gap", vec![1, 2, 3, 5], vec![1, 2, 3, 5], 1, vec!["I3"]),
            ("unaudited", vec![1, 2, 3], vec![1, 2], 1, vec!["I8"]),
            (
                "audited twice",
                vec![1, 2, 3],
                vec![1, 2, 3, 3],
                1,
                vec!["I8"],
            ),
            (
                "audited and not made",
                vec![1, 2, 3],
                vec![1, 2, 3, 4],
                1,
                vec!["I8"],
            ),
            (
                "nobody's",
                vec![1, 2, 3, 4, 5],
                vec![1, 2, 3, 4, 5],
                1,
                vec!["I8"],
            ),
            (
                "a failed attempt unaudited",
                vec![1, 2, 3],
                vec![1, 2, 3],
                0,
                vec!["I8"],
            ),
            (
                "a failed attempt audited thrice",
                vec![1, 2, 3],
                vec![1, 2, 3],
                3,
                vec!["I8"],
            ),
        ] {
            let mut book = written();
            book.settles(&revisions, &done, refused);
            assert_eq!(broken(&book), invariants, "{what}");
        }
    }
}
