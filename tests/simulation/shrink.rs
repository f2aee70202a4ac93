//! Makes a history that breaks an invariant as short as it gets: actions that do not matter go
//! out of it.

use crate::plan::Action;
use crate::world::{Outcome, Settings, World, actions, brief};
use std::fmt::Write;
use std::time::Duration;

/// Histories that are played in search of a shorter one.
const TRIES_MAX: usize = 60;
/// Lines of the trace that are told.
const LINES_MAX: usize = 40;

fn breaks(settings: &Settings, plan: &[(Duration, Action)], invariant: &str) -> bool {
    let outcome = World::new(settings, plan.to_vec(), false).run();
    outcome
        .violation
        .is_some_and(|it| it.invariant == invariant)
}

/// Tells the shortest history found that breaks what the seed breaks.
pub fn shortest(settings: &Settings) -> String {
    let mut plan = actions(settings);
    let first = World::new(settings, plan.clone(), false).run();
    let Some(violation) = first.violation else {
        return format!("seed {} breaks nothing now", settings.seed);
    };
    let (mut tries, mut size) = (0, plan.len().div_ceil(2));
    while size > 0 && tries < TRIES_MAX {
        let mut start = 0;
        while start < plan.len() && tries < TRIES_MAX {
            let mut shorter = plan.clone();
            shorter.drain(start..(start + size).min(plan.len()));
            tries += 1;
            if breaks(settings, &shorter, violation.invariant) {
                plan = shorter;
            } else {
                start += size;
            }
        }
        size /= 2;
    }
    tell(
        settings,
        &plan,
        &World::new(settings, plan.clone(), true).run(),
    )
}

fn tell(settings: &Settings, plan: &[(Duration, Action)], outcome: &Outcome) -> String {
    let mut told = format!("SEED={} AGENTS={} breaks", settings.seed, settings.agents);
    if let Some(violation) = &outcome.violation {
        let _ = writeln!(told, " {}: {}", violation.invariant, violation.what);
    }
    for (at, action) in plan {
        let _ = writeln!(told, "{:>10.4} {}", at.as_secs_f64(), brief(action));
    }
    let skipped = outcome.trace.len().saturating_sub(LINES_MAX);
    told.push_str("the end of it:\n");
    for line in &outcome.trace[skipped..] {
        let _ = writeln!(told, "{line}");
    }
    told
}
