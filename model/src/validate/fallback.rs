//! Chains of fallback pools must end.

use std::collections::{BTreeMap, BTreeSet};

use super::Report;
use crate::problem::pointer;

/// Refuses each cycle once, printed whole, at its first pool by name.
pub(super) fn refuse_cycles(next_of: &BTreeMap<&str, &str>, report: &mut Report<'_>) {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for start in next_of.keys() {
        let mut walk: Vec<&str> = Vec::new();
        let mut on_walk: BTreeSet<&str> = BTreeSet::new();
        let mut at = *start;
        // Ends: each step adds a pool to `on_walk`, of which there are finitely many.
        while !done.contains(at) && on_walk.insert(at) {
            walk.push(at);
            match next_of.get(at) {
                Some(next) => at = next,
                None => break,
            }
        }
        let closes = !done.contains(at) && next_of.contains_key(at);
        if closes && let Some(first) = walk.iter().position(|pool| *pool == at) {
            refuse_cycle(walk.get(first..).unwrap_or_default(), report);
        }
        done.extend(walk);
    }
}

fn refuse_cycle(cycle: &[&str], report: &mut Report<'_>) {
    let Some((start, first)) = cycle.iter().enumerate().min_by_key(|(_, pool)| **pool) else {
        return;
    };
    let (before, after) = cycle.split_at(start);
    let printed: Vec<&str> = after.iter().chain(before).chain([first]).copied().collect();
    report.refuse(
        pointer(["pools", first, "on_exhausted", "fallback_pool"]),
        "fallback_cycle",
        format!("pools fall back in a circle: {}", printed.join(" -> ")),
    );
}
