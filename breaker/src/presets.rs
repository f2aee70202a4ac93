//! Ready-made policies that reproduce well-known gateways, so that a fleet can move here without
//! its breakers changing character.

use std::time::Duration;

use crate::policy::{
    ClosesAt, Policy, Recovery, StreamDeath, Trip, TripMode, Uncounted, WindowKind,
};

/// Error rate of 50 % over a sliding 30 s, cooldowns doubling from 15 s to 120 s.
pub fn default() -> Policy {
    Policy::default()
}

/// Five failures in a row; a fixed 30 s; one leased probe; a 5 s park after each failure.
pub fn rolter() -> Policy {
    Policy {
        failure_status_codes: Some(std::iter::once(429).chain(500..=599).collect()),
        trip: Trip {
            mode: TripMode::Consecutive,
            consecutive_n: 5,
            ..Trip::default()
        },
        ..fixed_cooldown()
    }
}

/// Five failures within 60 s on a counter that lives two windows and that a success empties; a
/// fixed 30 s; every request probes; a stream that dies late proves nothing.
pub fn myra() -> Policy {
    Policy {
        park: Duration::ZERO,
        failure_status_codes: Some(vec![500, 502, 503, 504]),
        stream_death: StreamDeath::Neutral,
        success_clears_count: true,
        trip: Trip {
            mode: TripMode::Count,
            failure_count: 5,
            window: Duration::from_secs(60),
            window_kind: WindowKind::Counter,
            ..Trip::default()
        },
        half_open: Recovery {
            max_probes: 0,
            successes_to_close: 1,
            closes_at: ClosesAt::End,
        },
        ..fixed_cooldown()
    }
}

/// Five overload answers within a tumbling 10 s, per endpoint; a fixed 30 s; three probes, three
/// successes.
pub fn aibridge() -> Policy {
    Policy {
        park: Duration::ZERO,
        failure_status_codes: Some(vec![429, 503, 529]),
        uncounted: Uncounted::Success,
        per_endpoint: true,
        trip: Trip {
            mode: TripMode::Count,
            failure_count: 5,
            window: Duration::from_secs(10),
            window_kind: WindowKind::Tumbling,
            ..Trip::default()
        },
        half_open: Recovery {
            max_probes: 3,
            successes_to_close: 3,
            ..Recovery::default()
        },
        ..fixed_cooldown()
    }
}

/// The policy of the preset called `name`, or `None` when there is none.
pub fn by_name(name: &str) -> Option<Policy> {
    match name {
        "default" | "busbar" => Some(default()),
        "rolter" => Some(rolter()),
        "myra" => Some(myra()),
        "aibridge" => Some(aibridge()),
        _ => None,
    }
}

/// The names [`by_name`] knows.
pub const NAMES: &[&str] = &["default", "busbar", "rolter", "myra", "aibridge"];

/// Thirty seconds every time: no doubling, no jitter, every failure charged.
fn fixed_cooldown() -> Policy {
    Policy {
        base_cooldown: Duration::from_secs(30),
        max_cooldown: Duration::from_secs(30),
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        poison_guard: false,
        ..Policy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_cooldowns_have_no_jitter_and_charge_every_failure() {
        for policy in [rolter(), myra(), aibridge()] {
            assert_eq!(policy.base_cooldown, policy.max_cooldown);
            assert_eq!(policy.jitter_ratio, 0.0);
            assert_eq!(policy.jitter_floor, Duration::ZERO);
            assert!(!policy.poison_guard);
        }
    }

    #[test]
    fn only_the_preset_that_parks_parks() {
        assert_eq!(rolter().park, Duration::from_secs(5));
        assert_eq!(myra().park, Duration::ZERO);
        assert_eq!(aibridge().park, Duration::ZERO);
    }

    #[test]
    fn counting_presets_need_five() {
        assert_eq!(myra().trip.failure_count, 5);
        assert_eq!(aibridge().trip.failure_count, 5);
    }
}
