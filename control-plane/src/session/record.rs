//! The record of an agent as its session begins, and small judgements about what agents say.

use std::time::Duration;

use super::Effect;
use lanekeeper_model::fleet::HeldOverrides;
use lanekeeper_model::ids::CellOwner;
use lanekeeper_model::transition::Reporter;
use lanekeeper_model::{AgentRecord, CellReport, CellState, ConfigSource, Problem, Report, Totals};
use lanekeeper_proto::Unfit;
use lanekeeper_proto::message::{ABILITY_OVERRIDES, ConfigOutcome, ConfigResult, Hello};

/// What is known of an agent that has said Hello.
pub(super) fn record(hello: Hello, session_epoch: u64, now_ms: u64) -> AgentRecord {
    let (applied_revision, applied_hash, config_source) = match hello.applied {
        Some(applied) => (applied.revision, applied.hash, applied.source),
        None => (0, String::new(), ConfigSource::Live),
    };
    let understood = hello
        .capabilities
        .iter()
        .any(|ability| ability == ABILITY_OVERRIDES);
    AgentRecord {
        gateway: hello.gateway.into(),
        instance: hello.instance,
        name: hello.name,
        identity: None,
        labels: hello.labels,
        version: hello.agent_version,
        session_epoch,
        seq: 0,
        connected_ms: now_ms,
        report_received_ms: None,
        left: false,
        draining: false,
        applied_revision,
        applied_hash,
        config_source,
        problems: Vec::new(),
        last_error: None,
        clock_skew_ms: skew(hello.wall_ms, now_ms),
        cells: Vec::new(),
        pools: Vec::new(),
        totals: Totals::default(),
        overrides: HeldOverrides {
            understood,
            ..HeldOverrides::default()
        },
    }
}

/// A record with all but what the next report replaces.
pub(super) fn without_report(record: &AgentRecord) -> AgentRecord {
    AgentRecord {
        gateway: record.gateway.clone(),
        instance: record.instance.clone(),
        name: record.name.clone(),
        identity: record.identity.clone(),
        labels: record.labels.clone(),
        version: record.version.clone(),
        session_epoch: record.session_epoch,
        seq: record.seq,
        connected_ms: record.connected_ms,
        report_received_ms: record.report_received_ms,
        left: record.left,
        draining: record.draining,
        applied_revision: record.applied_revision,
        applied_hash: record.applied_hash.clone(),
        config_source: record.config_source,
        problems: Vec::new(),
        last_error: record.last_error.clone(),
        clock_skew_ms: record.clock_skew_ms,
        cells: Vec::new(),
        pools: Vec::new(),
        totals: record.totals,
        overrides: record.overrides.clone(),
    }
}

/// What an answer comes to that cannot be read: the revision counts as refused, and the agent as
/// serving what it served.
pub(super) fn unreadable(nonce: u64, unfit: &Unfit, record: &AgentRecord) -> ConfigResult {
    let message = format!("the agent's answer cannot be read: {unfit}");
    ConfigResult {
        nonce,
        outcome: ConfigOutcome::Rejected {
            errors: vec![Problem::new("", "unreadable", message)],
        },
        revision: record.applied_revision,
        hash: record.applied_hash.clone(),
        pools: Vec::new(),
    }
}

/// What makes two reports look alike to a person: which cells are in which state.
pub(super) fn states(
    cells: &[CellReport],
) -> impl Iterator<Item = (CellOwner, CellState, bool, Option<&str>)> {
    cells.iter().filter(|cell| cell.is_notable()).map(|cell| {
        (
            cell.owner(),
            cell.state,
            cell.parked_remaining_ms > 0,
            cell.override_action.as_deref(),
        )
    })
}

/// The changes of state that a report brings, if any.
pub(super) fn transitions(
    record: &AgentRecord,
    report: &mut Report,
    now_ms: u64,
) -> Option<Effect> {
    let reporter = Reporter {
        gateway: &record.gateway,
        instance: &record.instance,
        agent: &record.name,
        received_ms: now_ms,
    };
    let shed = report.shed_transitions.take();
    let shed = shed.map(|shed| reporter.shed(shed));
    let reported = std::mem::take(&mut report.transitions);
    let reported = reported.into_iter().map(|it| reporter.entry(it));
    let entries: Vec<_> = shed.into_iter().chain(reported).collect();
    (!entries.is_empty()).then_some(Effect::Transitions(entries))
}

/// The agent's clock less ours; what the wire took is part of it.
fn skew(agent_ms: u64, server_ms: u64) -> i64 {
    let size = i64::try_from(agent_ms.abs_diff(server_ms)).unwrap_or(i64::MAX);
    if agent_ms < server_ms { -size } else { size }
}

/// Spreads timed reports over the interval by the instance's name (FNV-1a), so that a fleet that
/// connected at one moment does not report at one moment.
pub(super) fn phase(instance: &str, interval: Duration) -> Duration {
    let hash = instance
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(hash.checked_rem(interval_ms).unwrap_or(0))
}
