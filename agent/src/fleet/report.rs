//! Builds the report of this moment within the sizes that the server accepts.

use lanekeeper_model::{CellReport, PoolReport, PoolUsability, Problem, Report, digest};
use lanekeeper_proto::limits::{
    NAME_BYTES_MAX, PROBLEMS_MAX, REPORT_CELLS_MAX, REPORT_MEMBERS_MAX, REPORT_POOLS_MAX,
    TEXT_BYTES_MAX,
};
use lanekeeper_proto::message::Limits;

use super::session::Numbered;
use crate::plane::Plane;
use crate::status::{Status, Topic};

/// Encoded bytes of a cell beside its texts: numbers at their longest and the tags.
const CELL_BYTES: usize = 128;
/// Encoded bytes of a pool beside its texts: counts of traffic at the most usual lengths.
const POOL_BYTES: usize = 256;
/// Encoded bytes of a pool's member beside its name.
const MEMBER_BYTES: usize = 48;
/// Share of a message that pools may take.
const POOLS_PART: usize = 4;
/// Encoded bytes kept free for all that is neither cells nor changes of state.
const ENVELOPE_BYTES: usize = 64 * 1024;
/// Encoded bytes of a change of state at most: five names at their longest, and numbers.
const TRANSITION_BYTES_MAX: usize = 6 * NAME_BYTES_MAX;
/// Ends a text that was cut.
const CUT: &str = "…";

/// The report of this moment.
pub(super) fn build(plane: &Plane, status: &Status, numbered: Numbered, limits: Limits) -> Report {
    let mut problems = status.problems();
    problems.extend(plane.problems());
    let (pools, over) = plane.report_pools();
    let (transitions, shed_transitions) = plane.transitions();
    let now = Report {
        pools,
        pools_over_ms: u64::try_from(over.as_millis()).unwrap_or(u64::MAX),
        cells: plane.cells(),
        totals: plane.totals(),
        revision: plane.applied().map_or(0, |applied| applied.revision),
        problems,
        draining: status.draining(),
        transitions,
        shed_transitions,
        ..Report::default()
    };
    let (report, left_out) = fit(now, numbered, limits);
    if left_out > 0 {
        status.raise(
            Topic::Report,
            format!("{left_out} cells and pools do not fit into one report"),
        );
    } else {
        status.clear(Topic::Report);
    }
    report
}

/// Numbers a report of every cell and brings it to what the server reads and the sizes that it
/// accepts; also how many cells and pools had to be left out for their size.
pub(super) fn fit(mut all: Report, numbered: Numbered, limits: Limits) -> (Report, usize) {
    if !numbered.provider_cells {
        all.cells.retain(|cell| !cell.is_of_provider());
    }
    if !numbered.transitions {
        all.transitions.clear();
        all.shed_transitions = None;
    }
    let digest = digest(&all.cells);
    let (pools, pools_left_out) = select_pools(std::mem::take(&mut all.pools), limits);
    let taken = all.transitions.len().saturating_mul(TRANSITION_BYTES_MAX);
    let rest = Limits {
        message_bytes: limits.message_bytes.saturating_sub(to_u32(taken)),
        ..limits
    };
    let (cells, left_out) = select(all.cells, numbered.dense, rest);
    let report = Report {
        pools,
        seq: numbered.seq,
        // A list with gaps must not pass for a whole one; what is left out first is closed, which
        // is what absence means in a report that is not dense.
        dense: numbered.dense && left_out == 0,
        cells,
        problems: fit_texts(all.problems),
        digest: Some(digest),
        ..all
    };
    (report, left_out + pools_left_out)
}

/// The pools to list, those that lack something first, and how many had to be left out.
fn select_pools(mut pools: Vec<PoolReport>, limits: Limits) -> (Vec<PoolReport>, usize) {
    pools.sort_by_key(|pool| (!pool.usability.exhausted, !pool.usability.is_amiss()));
    let bytes_max = limits.message_bytes as usize / POOLS_PART;
    let (mut bytes, mut members) = (0_usize, 0_usize);
    let fitting = { pools.iter().take(REPORT_POOLS_MAX) }
        .take_while(|pool| {
            let unusable = pool.usability.unusable.iter().map(|it| &it.lane);
            let lanes = unusable.chain(pool.traffic.attempts.iter().map(|(lane, _)| lane));
            bytes += POOL_BYTES + pool.usability.pool.len();
            for lane in lanes {
                members += 1;
                bytes += MEMBER_BYTES + lane.len();
            }
            bytes <= bytes_max && members <= REPORT_MEMBERS_MAX
        })
        .count();
    let left_out = pools.len() - fitting;
    pools.truncate(fitting);
    (pools, left_out)
}

/// The pools that lack something, within the sizes that the server accepts.
pub(super) fn fit_usability(pools: Vec<PoolUsability>, limits: Limits) -> Vec<PoolUsability> {
    let lacking = pools.into_iter().filter(PoolUsability::is_amiss);
    let reports = lacking.map(|usability| PoolReport {
        usability,
        ..PoolReport::default()
    });
    let (fitting, _) = select_pools(reports.collect(), limits);
    fitting.into_iter().map(|pool| pool.usability).collect()
}

fn to_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The cells to list, notable ones first, and how many had to be left out.
fn select(cells: Vec<CellReport>, dense: bool, limits: Limits) -> (Vec<CellReport>, usize) {
    let (mut listed, rest): (Vec<_>, Vec<_>) = cells.into_iter().partition(CellReport::is_notable);
    if dense {
        listed.extend(rest);
    }
    let cells_max = (limits.report_cells as usize).min(REPORT_CELLS_MAX);
    let pools_max = limits.message_bytes as usize / POOLS_PART;
    let bytes_max = (limits.message_bytes as usize).saturating_sub(ENVELOPE_BYTES + pools_max);
    let mut bytes = 0_usize;
    let fitting = listed
        .iter()
        .take(cells_max)
        .take_while(|cell| {
            bytes = bytes.saturating_add(encoded_bytes(cell));
            bytes <= bytes_max
        })
        .count();
    let left_out = listed.len() - fitting;
    listed.truncate(fitting);
    (listed, left_out)
}

fn encoded_bytes(cell: &CellReport) -> usize {
    let optional = [
        cell.endpoint.as_deref(),
        cell.cause.as_ref().map(|cause| cause.kind.as_str()),
        cell.override_action.as_deref(),
    ];
    let texts: usize = optional.into_iter().flatten().map(str::len).sum();
    CELL_BYTES + cell.pool.len() + cell.lane.len() + cell.provider.len() + texts
}

/// Problems within the bounds of the wire.
pub(super) fn fit_texts(mut texts: Vec<String>) -> Vec<String> {
    texts.truncate(PROBLEMS_MAX);
    texts.iter_mut().for_each(fit_text);
    texts
}

/// Errors within the bounds of the wire.
pub(super) fn fit_errors(mut errors: Vec<Problem>) -> Vec<Problem> {
    errors.truncate(PROBLEMS_MAX);
    for error in &mut errors {
        fit_text(&mut error.pointer);
        fit_text(&mut error.message);
    }
    errors
}

fn fit_text(text: &mut String) {
    if text.len() <= TEXT_BYTES_MAX {
        return;
    }
    let mut end = TEXT_BYTES_MAX - CUT.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str(CUT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanekeeper_model::CellState;
    use serde_json::json;

    const ROOMY: Limits = Limits {
        message_bytes: 1 << 24,
        report_cells: 1000,
    };

    fn cell(lane: &str, state: CellState) -> CellReport {
        let text = json!({"pool": "", "lane": lane, "provider": "p", "state": state});
        serde_json::from_value(text).unwrap()
    }

    fn lanes(cells: &[CellReport]) -> Vec<&str> {
        cells.iter().map(|cell| &*cell.lane).collect()
    }

    fn fleet() -> Vec<CellReport> {
        let mut parked = cell("parked", CellState::Closed);
        parked.parked_remaining_ms = 5;
        vec![
            cell("fine", CellState::Closed),
            cell("open", CellState::Open),
            parked,
            cell("half", CellState::HalfOpen),
        ]
    }

    #[test]
    fn a_sparse_report_lists_what_is_not_plainly_closed() {
        let (cells, left_out) = select(fleet(), false, ROOMY);
        assert_eq!(lanes(&cells), ["open", "parked", "half"]);
        assert_eq!(left_out, 0);
    }

    #[test]
    fn a_dense_report_lists_all() {
        assert_eq!(select(fleet(), true, ROOMY).0.len(), 4);
    }

    #[test]
    fn closed_cells_are_left_out_first() {
        let tight = Limits {
            report_cells: 3,
            ..ROOMY
        };
        let (cells, left_out) = select(fleet(), true, tight);
        assert_eq!(lanes(&cells), ["open", "parked", "half"]);
        assert_eq!(left_out, 1);

        let small = Limits {
            message_bytes: ((ENVELOPE_BYTES + 2 * CELL_BYTES + 50) * POOLS_PART / (POOLS_PART - 1))
                as u32,
            ..ROOMY
        };
        assert_eq!(lanes(&select(fleet(), true, small).0), ["open", "parked"]);
    }

    #[test]
    fn pools_that_serve_nobody_are_left_out_last() {
        let pool = |name: &str, exhausted, in_flight| {
            let mut pool = PoolReport::default();
            pool.usability.pool = name.into();
            (pool.usability.exhausted, pool.usability.in_flight) = (exhausted, in_flight);
            pool
        };
        let pools = vec![
            pool("busy", false, 3),
            pool("out", true, 0),
            pool("too", true, 0),
        ];
        let small = Limits {
            message_bytes: (2 * (POOL_BYTES + 4) * POOLS_PART) as u32,
            ..ROOMY
        };
        let (listed, left_out) = select_pools(pools, small);
        let names: Vec<&str> = listed.iter().map(|it| &*it.usability.pool).collect();
        assert_eq!((names, left_out), (vec!["out", "too"], 1));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let mut text = "ä".repeat(TEXT_BYTES_MAX);
        fit_text(&mut text);
        assert!(text.len() <= TEXT_BYTES_MAX && text.ends_with(CUT));
        assert_eq!(fit_texts(vec![String::new(); 1000]).len(), PROBLEMS_MAX);
    }
}
