//! The record of an agent as its session begins, and small judgements about what agents say.

use std::time::Duration;

use lanekeeper_model::fleet::HeldOverrides;
use lanekeeper_model::{AgentRecord, CellReport, CellState, ConfigSource, Totals};
use lanekeeper_proto::message::{ABILITY_OVERRIDES, Hello};

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
        totals: Totals::default(),
        overrides: HeldOverrides {
            understood,
            ..HeldOverrides::default()
        },
    }
}

/// What makes two reports look alike to a person: which cells are in which state.
pub(super) fn states(
    cells: &[CellReport],
) -> impl Iterator<Item = (&str, &str, CellState, bool, Option<&str>)> {
    cells.iter().filter(|cell| cell.is_notable()).map(|cell| {
        (
            cell.pool.as_str(),
            cell.lane.as_str(),
            cell.state,
            cell.parked_remaining_ms > 0,
            cell.override_action.as_deref(),
        )
    })
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
