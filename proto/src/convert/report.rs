//! The report. One cell that cannot be read refuses the whole report: leaving the cell out would show it as closed.

use lanekeeper_model::transition::TRANSITIONS_PER_REPORT_MAX;
use lanekeeper_model::{CauseReport, CellReport, CellState, Report, Totals};

use super::bounds::{at_most, name, required, texts, unknown};
use super::pools;
use crate::error::WireError;
use crate::limits::REPORT_CELLS_MAX;
use crate::wire;

impl TryFrom<wire::Report> for Report {
    type Error = WireError;

    fn try_from(report: wire::Report) -> Result<Self, WireError> {
        at_most(report.cells.len(), "cells", REPORT_CELLS_MAX)?;
        let transitions = report.transitions;
        at_most(transitions.len(), "transitions", TRANSITIONS_PER_REPORT_MAX)?;
        let totals = report.totals.ok_or_else(|| WireError::Missing {
            field: "totals".to_owned(),
        })?;
        Ok(Self {
            seq: report.seq,
            dense: report.dense,
            cells: report
                .cells
                .into_iter()
                .enumerate()
                .map(|(index, cell)| {
                    CellReport::try_from(cell).map_err(|e| e.within(&format!("cells[{index}]")))
                })
                .collect::<Result<_, _>>()?,
            totals: Totals {
                requests: totals.requests,
                ok: totals.ok,
                failed: totals.failed,
                failovers: totals.failovers,
                exhausted: totals.exhausted,
                inflight: totals.inflight,
            },
            revision: report.revision,
            problems: texts(report.problems, "problems")?,
            draining: report.draining,
            digest: report.digest,
            pools: pools::read(report.pools, report.pools_over_ms)?,
            pools_over_ms: report.pools_over_ms,
            transitions: transitions
                .into_iter()
                .enumerate()
                .map(|(index, transition)| {
                    transition
                        .try_into()
                        .map_err(|e: WireError| e.within(&format!("transitions[{index}]")))
                })
                .collect::<Result<_, _>>()?,
            shed_transitions: report.shed_transitions.map(Into::into),
        })
    }
}

impl From<Report> for wire::Report {
    fn from(report: Report) -> Self {
        Self {
            seq: report.seq,
            dense: report.dense,
            cells: report.cells.into_iter().map(wire::Cell::from).collect(),
            totals: Some(wire::Totals {
                requests: report.totals.requests,
                ok: report.totals.ok,
                failed: report.totals.failed,
                failovers: report.totals.failovers,
                exhausted: report.totals.exhausted,
                inflight: report.totals.inflight,
            }),
            revision: report.revision,
            problems: report.problems,
            draining: report.draining,
            digest: report.digest,
            pools: report.pools.into_iter().map(wire::Pool::from).collect(),
            pools_over_ms: report.pools_over_ms,
            transitions: report.transitions.into_iter().map(Into::into).collect(),
            shed_transitions: report.shed_transitions.map(Into::into),
        }
    }
}

impl TryFrom<wire::Cell> for CellReport {
    type Error = WireError;

    fn try_from(cell: wire::Cell) -> Result<Self, WireError> {
        let state = state(cell.state, "state")?;
        // A provider's own cell has neither pool nor lane; in a pool there is no cell without one.
        let lane = match cell.pool.as_str() {
            "" => name(cell.lane, "lane")?,
            _ => required(cell.lane, "lane")?,
        };
        Ok(Self {
            pool: name(cell.pool, "pool")?.into(),
            lane: lane.into(),
            provider: required(cell.provider, "provider")?.into(),
            endpoint: cell
                .endpoint
                .map(|endpoint| name(endpoint, "endpoint"))
                .transpose()?,
            state,
            state_age_ms: cell.state_age_ms,
            open_age_ms: cell.open_age_ms,
            cooldown_remaining_ms: cell.cooldown_remaining_ms,
            parked_remaining_ms: cell.parked_remaining_ms,
            streak: cell.streak,
            trips: cell.trips,
            reopens: cell.reopens,
            window_ok: cell.window_ok,
            window_failed: cell.window_failed,
            cause: cell
                .cause
                .map(|cause| CauseReport::try_from(cause).map_err(|e| e.within("cause")))
                .transpose()?,
            override_action: cell
                .override_action
                .map(|action| name(action, "override_action"))
                .transpose()?,
            advisory: cell.advisory,
            advisory_spared: cell.advisory_spared,
        })
    }
}

impl From<CellReport> for wire::Cell {
    fn from(cell: CellReport) -> Self {
        Self {
            pool: cell.pool.to_string(),
            lane: cell.lane.to_string(),
            provider: cell.provider.to_string(),
            endpoint: cell.endpoint,
            state: wire_state(cell.state).into(),
            state_age_ms: cell.state_age_ms,
            open_age_ms: cell.open_age_ms,
            cooldown_remaining_ms: cell.cooldown_remaining_ms,
            parked_remaining_ms: cell.parked_remaining_ms,
            streak: cell.streak,
            trips: cell.trips,
            reopens: cell.reopens,
            window_ok: cell.window_ok,
            window_failed: cell.window_failed,
            cause: cell.cause.map(|cause| wire::Cause {
                kind: cause.kind,
                status: cause.status.map(u32::from),
                count: cause.count,
            }),
            override_action: cell.override_action,
            advisory: cell.advisory,
            advisory_spared: cell.advisory_spared,
        }
    }
}

impl TryFrom<wire::Cause> for CauseReport {
    type Error = WireError;

    fn try_from(cause: wire::Cause) -> Result<Self, WireError> {
        let status = status(cause.status, "status")?;
        Ok(Self {
            kind: required(cause.kind, "kind")?,
            status,
            count: cause.count,
        })
    }
}

/// A state in its field.
pub(super) fn state(value: i32, field: &str) -> Result<CellState, WireError> {
    match wire::CellState::try_from(value) {
        Ok(wire::CellState::Closed) => Ok(CellState::Closed),
        Ok(wire::CellState::Open) => Ok(CellState::Open),
        Ok(wire::CellState::HalfOpen) => Ok(CellState::HalfOpen),
        Ok(wire::CellState::Unspecified) | Err(_) => Err(unknown(field, value)),
    }
}

/// A state as the wire has it.
pub(super) fn wire_state(state: CellState) -> wire::CellState {
    match state {
        CellState::Closed => wire::CellState::Closed,
        CellState::Open => wire::CellState::Open,
        CellState::HalfOpen => wire::CellState::HalfOpen,
    }
}

/// An HTTP status in its field.
pub(super) fn status(value: Option<u32>, field: &str) -> Result<Option<u16>, WireError> {
    value
        .map(|status| {
            u16::try_from(status).map_err(|_| WireError::OutOfRange {
                field: field.to_owned(),
                value: u64::from(status),
                limit: u64::from(u16::MAX),
            })
        })
        .transpose()
}
