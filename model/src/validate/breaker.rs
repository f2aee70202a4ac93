//! From a breaker block to a policy: the preset's numbers, then the block's own.

use std::time::Duration;

use lanekeeper_breaker::{
    ClosesAt, HardDownScope, Mode, Policy, Recovery, Rules, StreamDeath, Trip, TripMode,
    WindowKind, presets,
};

use super::Report;
use crate::spec;

/// The policy a block means. Numbers that are out of bounds are reported, never corrected.
pub(super) fn policy(spec: &spec::BreakerSpec, place: &str, report: &mut Report<'_>) -> Policy {
    let preset = match spec.preset {
        spec::Preset::Default | spec::Preset::Busbar => presets::default(),
        spec::Preset::Rolter => presets::rolter(),
        spec::Preset::Myra => presets::myra(),
        spec::Preset::Aibridge => presets::aibridge(),
    };
    let policy = Policy {
        mode: spec.mode.map_or(preset.mode, mode),
        base_cooldown: or(spec.base_cooldown_secs, preset.base_cooldown),
        max_cooldown: or(spec.max_cooldown_secs, preset.max_cooldown),
        jitter_ratio: spec.jitter_ratio.unwrap_or(preset.jitter_ratio),
        jitter_floor: or(spec.jitter_floor_secs, preset.jitter_floor),
        hard_down_cooldown: or(spec.hard_down_cooldown_secs, preset.hard_down_cooldown),
        hard_down_scope: spec
            .hard_down_scope
            .map_or(preset.hard_down_scope, |scope| match scope {
                spec::HardDownScope::Cell => HardDownScope::Cell,
                spec::HardDownScope::Lane => HardDownScope::Lane,
            }),
        park: or(spec.park_secs, preset.park),
        failure_status_codes: spec
            .failure_status_codes
            .clone()
            .unwrap_or(preset.failure_status_codes),
        uncounted: preset.uncounted,
        per_endpoint: spec.per_endpoint.unwrap_or(preset.per_endpoint),
        poison_guard: spec.poison_guard.unwrap_or(preset.poison_guard),
        stream_death: spec
            .stream_death
            .map_or(preset.stream_death, |death| match death {
                spec::StreamDeath::Failure => StreamDeath::Failure,
                spec::StreamDeath::Neutral => StreamDeath::Neutral,
            }),
        success_clears_count: spec
            .success_clears_count
            .unwrap_or(preset.success_clears_count),
        trip: trip(&spec.trip, preset.trip),
        half_open: Recovery {
            max_probes: spec
                .half_open
                .max_probes
                .unwrap_or(preset.half_open.max_probes),
            successes_to_close: spec
                .half_open
                .successes_to_close
                .unwrap_or(preset.half_open.successes_to_close),
            closes_at: spec
                .half_open
                .closes_at
                .map_or(preset.half_open.closes_at, |at| match at {
                    spec::ClosesAt::Content => ClosesAt::Content,
                    spec::ClosesAt::End => ClosesAt::End,
                }),
        },
        ramp: or(spec.ramp_secs, preset.ramp),
    };
    refuse_out_of_bounds(spec, &policy, place, report);
    policy
}

fn trip(spec: &spec::TripSpec, preset: Trip) -> Trip {
    Trip {
        mode: match spec.mode {
            None => preset.mode,
            Some(spec::TripMode::ErrorRate) => TripMode::ErrorRate,
            Some(spec::TripMode::Consecutive) => TripMode::Consecutive,
            Some(spec::TripMode::Count) => TripMode::Count,
            // Only rules the block fills count, or every preset would bring all three.
            Some(spec::TripMode::Any) => TripMode::Any(Rules {
                error_rate: spec.threshold.is_some() || spec.min_requests.is_some(),
                consecutive: spec.consecutive_n.is_some(),
                count: spec.failure_count.is_some(),
            }),
        },
        window: or(spec.window_secs, preset.window),
        window_kind: spec.window.map_or(preset.window_kind, |kind| match kind {
            spec::WindowKind::Sliding => WindowKind::Sliding,
            // One preset tumbles in its own way; writing "tumbling" there must not change it.
            spec::WindowKind::Tumbling if preset.window_kind == WindowKind::Counter => {
                WindowKind::Counter
            }
            spec::WindowKind::Tumbling => WindowKind::Tumbling,
        }),
        threshold: spec.threshold.unwrap_or(preset.threshold),
        min_requests: spec.min_requests.unwrap_or(preset.min_requests),
        consecutive_n: spec.consecutive_n.unwrap_or(preset.consecutive_n),
        failure_count: spec.failure_count.unwrap_or(preset.failure_count),
        slow_call: spec.slow_call_secs.and_then(secs).or(preset.slow_call),
    }
}

fn mode(mode: spec::BreakerMode) -> Mode {
    match mode {
        spec::BreakerMode::Enforce => Mode::Enforce,
        spec::BreakerMode::Observe => Mode::Observe,
        spec::BreakerMode::Off => Mode::Off,
    }
}

/// The policy judges its own numbers. Base over maximum gets a message of its own, at the field
/// that was written: with a preset's maximum it is the base that is wrong.
fn refuse_out_of_bounds(
    spec: &spec::BreakerSpec,
    policy: &Policy,
    place: &str,
    report: &mut Report<'_>,
) {
    let base_over_max = policy.base_cooldown > policy.max_cooldown;
    if base_over_max {
        let field = if spec.max_cooldown_secs.is_some() {
            "max_cooldown_secs"
        } else {
            "base_cooldown_secs"
        };
        report.refuse(
            format!("{place}/{field}"),
            "base_over_max",
            format!(
                "base_cooldown_secs ({}) must not be over max_cooldown_secs ({})",
                policy.base_cooldown.as_secs_f64(),
                policy.max_cooldown.as_secs_f64()
            ),
        );
    }
    for problem in policy.problems() {
        if base_over_max && problem.field == "max_cooldown_secs" {
            continue;
        }
        let field = problem.field.replace('.', "/");
        let code = if field == "trip/mode" {
            "nothing_trips"
        } else {
            "out_of_range"
        };
        report.refuse(format!("{place}/{field}"), code, problem.message);
    }
}

fn or(value: Option<f64>, preset: Duration) -> Duration {
    value.and_then(secs).unwrap_or(preset)
}

/// Seconds as a duration; the schema has bounded them by now.
fn secs(value: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value).ok()
}
