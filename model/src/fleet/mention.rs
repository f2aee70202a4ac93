//! What agents say about one cell, put together: times as of now, the prevailing cause, the order in
//! force, and how much of the fleet is touched.

use std::collections::BTreeMap;

use super::record::AgentRecord;
use super::view::{CauseView, OverrideView, Scope};
use crate::report::{CellReport, CellState};

/// What one agent says about one cell. Ages grow and remainders shrink by the time since the report.
#[derive(Clone, Copy)]
pub(super) struct Mention<'a> {
    pub(super) record: &'a AgentRecord,
    pub(super) cell: &'a CellReport,
}

impl Mention<'_> {
    pub(super) fn is_parked(&self, now_ms: u64) -> bool {
        self.cell.state == CellState::Closed
            && self.cell.parked_remaining_ms > self.since_report_ms(now_ms)
    }

    /// Milliseconds in the present state.
    pub(super) fn age_ms(&self, now_ms: u64) -> u64 {
        self.cell
            .state_age_ms
            .saturating_add(self.since_report_ms(now_ms))
    }

    /// Milliseconds since the cell was last closed. An agent that does not report it knows the age of
    /// the state at least.
    pub(super) fn open_age_ms(&self, now_ms: u64) -> u64 {
        self.cell
            .open_age_ms
            .saturating_add(self.since_report_ms(now_ms))
            .max(self.age_ms(now_ms))
    }

    /// Milliseconds until a probe may go.
    pub(super) fn cooldown_ms(&self, now_ms: u64) -> u64 {
        self.cell
            .cooldown_remaining_ms
            .saturating_sub(self.since_report_ms(now_ms))
    }

    fn since_report_ms(&self, now_ms: u64) -> u64 {
        self.record.report_age_ms(now_ms).unwrap_or(0)
    }
}

/// Tells "1 of 40" from "38 of 40". Half comes first: one agent of two is the fleet.
pub(super) fn scope(touched: u64, fresh: u64) -> Option<Scope> {
    if touched == 0 {
        None
    } else if touched.saturating_mul(2) >= fresh {
        Some(Scope::Fleet)
    } else if touched == 1 || touched.saturating_mul(10) <= fresh {
        Some(Scope::Local)
    } else {
        Some(Scope::Partial)
    }
}

/// The cause with the largest count over all agents. Kind and status decide a tie, so that replicas
/// agree.
pub(super) fn cause(mentions: &[Mention<'_>]) -> Option<CauseView> {
    let mut counts: BTreeMap<(&str, Option<u16>), u64> = BTreeMap::new();
    for cause in mentions.iter().filter_map(|it| it.cell.cause.as_ref()) {
        let count = counts.entry((&cause.kind, cause.status)).or_default();
        *count = count.saturating_add(cause.count);
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|((kind, status), count)| CauseView {
            kind: kind.to_owned(),
            status,
            count,
        })
}

pub(super) fn override_in_force(mentions: &[Mention<'_>]) -> Option<OverrideView> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for mention in mentions {
        if let Some(action) = &mention.cell.override_action {
            *counts.entry(action).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .max_by_key(|(_, agents)| *agents)
        .map(|(action, agents)| OverrideView {
            action: action.to_owned(),
            agents,
            ..OverrideView::default()
        })
}
