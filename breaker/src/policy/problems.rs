//! Which numbers of a policy are out of bounds, by the field names of the document.

use std::time::Duration;

use super::{Policy, TripMode};
use crate::limits;

/// One field of a policy that is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The field as the document spells it, with a dot between block and field.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Policy {
    /// All fields that are out of bounds; an empty list means the policy may be used.
    pub fn problems(&self) -> Vec<PolicyProblem> {
        let mut found = Vec::new();
        let mut span = |field, value: Duration, least: Duration, most: Duration| {
            if value < least || value > most {
                found.push(PolicyProblem {
                    field,
                    message: format!(
                        "must be from {} to {} seconds, is {}",
                        least.as_secs_f64(),
                        most.as_secs_f64(),
                        value.as_secs_f64()
                    ),
                });
            }
        };
        let zero = Duration::ZERO;
        span(
            "base_cooldown_secs",
            self.base_cooldown,
            limits::COOLDOWN_MIN,
            limits::COOLDOWN_MAX,
        );
        span(
            "max_cooldown_secs",
            self.max_cooldown,
            limits::COOLDOWN_MIN,
            limits::COOLDOWN_MAX,
        );
        span(
            "hard_down_cooldown_secs",
            self.hard_down_cooldown,
            limits::COOLDOWN_MIN,
            limits::COOLDOWN_MAX,
        );
        span(
            "jitter_floor_secs",
            self.jitter_floor,
            zero,
            limits::JITTER_FLOOR_MAX,
        );
        span("park_secs", self.park, zero, limits::PARK_MAX);
        span("ramp_secs", self.ramp, zero, limits::RAMP_MAX);
        span(
            "trip.window_secs",
            self.trip.window,
            limits::WINDOW_MIN,
            limits::WINDOW_MAX,
        );
        if let Some(slow) = self.trip.slow_call {
            span(
                "trip.slow_call_secs",
                slow,
                limits::SLOW_CALL_MIN,
                limits::SLOW_CALL_MAX,
            );
        }

        let mut number = |field, value: u32, least: u32, most: u32| {
            if value < least || value > most {
                found.push(PolicyProblem {
                    field,
                    message: format!("must be from {least} to {most}, is {value}"),
                });
            }
        };
        number(
            "trip.min_requests",
            self.trip.min_requests,
            1,
            limits::COUNT_MAX,
        );
        number(
            "trip.consecutive_n",
            self.trip.consecutive_n,
            1,
            limits::COUNT_MAX,
        );
        number(
            "trip.failure_count",
            self.trip.failure_count,
            1,
            limits::COUNT_MAX,
        );
        number(
            "half_open.max_probes",
            self.half_open.max_probes,
            0,
            limits::PROBES_MAX,
        );
        number(
            "half_open.successes_to_close",
            self.half_open.successes_to_close,
            1,
            limits::SUCCESSES_TO_CLOSE_MAX,
        );

        if self.max_cooldown < self.base_cooldown {
            found.push(PolicyProblem {
                field: "max_cooldown_secs",
                message: format!(
                    "must not be below base_cooldown_secs ({} seconds), is {}",
                    self.base_cooldown.as_secs_f64(),
                    self.max_cooldown.as_secs_f64()
                ),
            });
        }
        // Written so that NaN is refused too.
        if !(self.trip.threshold > 0.0 && self.trip.threshold <= limits::THRESHOLD_MAX) {
            found.push(PolicyProblem {
                field: "trip.threshold",
                message: format!("must be above 0 and at most 1, is {}", self.trip.threshold),
            });
        }
        if !(self.jitter_ratio >= 0.0 && self.jitter_ratio <= limits::JITTER_RATIO_MAX) {
            found.push(PolicyProblem {
                field: "jitter_ratio",
                message: format!("must be from 0 to 1, is {}", self.jitter_ratio),
            });
        }
        if let TripMode::Any(rules) = self.trip.mode
            && !(rules.error_rate || rules.consecutive || rules.count)
        {
            found.push(PolicyProblem {
                field: "trip.mode",
                message: "any needs at least one of threshold, consecutive_n, failure_count"
                    .to_owned(),
            });
        }
        if let Some(codes) = &self.failure_status_codes {
            if codes.len() > limits::STATUS_CODES_MAX {
                found.push(PolicyProblem {
                    field: "failure_status_codes",
                    message: format!("must have at most {} entries", limits::STATUS_CODES_MAX),
                });
            }
            if let Some(code) = codes
                .iter()
                .find(|code| !(limits::STATUS_MIN..=limits::STATUS_MAX).contains(*code))
            {
                found.push(PolicyProblem {
                    field: "failure_status_codes",
                    message: format!(
                        "must hold statuses from {} to {}, holds {code}",
                        limits::STATUS_MIN,
                        limits::STATUS_MAX
                    ),
                });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Recovery, Rules, Trip};

    fn fields(policy: &Policy) -> Vec<&'static str> {
        policy
            .problems()
            .iter()
            .map(|problem| problem.field)
            .collect()
    }

    #[test]
    fn all_fields_out_of_bounds_are_named_at_once() {
        let policy = Policy {
            base_cooldown: Duration::ZERO,
            max_cooldown: Duration::MAX,
            hard_down_cooldown: Duration::ZERO,
            jitter_ratio: f64::NAN,
            jitter_floor: Duration::MAX,
            park: Duration::MAX,
            ramp: Duration::MAX,
            failure_status_codes: Some(vec![500, 600]),
            trip: Trip {
                mode: TripMode::Any(Rules {
                    error_rate: false,
                    consecutive: false,
                    count: false,
                }),
                window: Duration::ZERO,
                threshold: 0.0,
                min_requests: 0,
                consecutive_n: 0,
                failure_count: 0,
                slow_call: Some(Duration::ZERO),
                ..Trip::default()
            },
            half_open: Recovery {
                max_probes: 101,
                successes_to_close: 0,
            },
            ..Policy::default()
        };
        let mut found = fields(&policy);
        found.sort_unstable();
        assert_eq!(
            found,
            [
                "base_cooldown_secs",
                "failure_status_codes",
                "half_open.max_probes",
                "half_open.successes_to_close",
                "hard_down_cooldown_secs",
                "jitter_floor_secs",
                "jitter_ratio",
                "max_cooldown_secs",
                "park_secs",
                "ramp_secs",
                "trip.consecutive_n",
                "trip.failure_count",
                "trip.min_requests",
                "trip.mode",
                "trip.slow_call_secs",
                "trip.threshold",
                "trip.window_secs",
            ]
        );
    }

    #[test]
    fn edges_of_the_bounds_are_legal() {
        let policy = Policy {
            base_cooldown: limits::COOLDOWN_MIN,
            max_cooldown: limits::COOLDOWN_MIN,
            jitter_ratio: 0.0,
            jitter_floor: Duration::ZERO,
            park: Duration::ZERO,
            failure_status_codes: Some(Vec::new()),
            trip: Trip {
                window: limits::WINDOW_MAX,
                threshold: 1.0,
                min_requests: 1,
                consecutive_n: limits::COUNT_MAX,
                ..Trip::default()
            },
            half_open: Recovery {
                max_probes: 0,
                successes_to_close: 1,
            },
            ..Policy::default()
        };
        assert_eq!(fields(&policy), [""; 0]);
    }

    #[test]
    fn each_share_is_refused_on_either_side_of_its_bounds() {
        for (threshold, refused) in [
            (0.0, true),
            (0.01, false),
            (1.0, false),
            (1.01, true),
            (f64::NAN, true),
            (-0.5, true),
        ] {
            let policy = Policy {
                trip: Trip {
                    threshold,
                    ..Trip::default()
                },
                ..Policy::default()
            };
            assert_eq!(
                fields(&policy) == ["trip.threshold"],
                refused,
                "{threshold}"
            );
        }
        for (jitter_ratio, refused) in [
            (-0.01, true),
            (0.0, false),
            (1.0, false),
            (1.01, true),
            (f64::NAN, true),
        ] {
            let policy = Policy {
                jitter_ratio,
                ..Policy::default()
            };
            assert_eq!(
                fields(&policy) == ["jitter_ratio"],
                refused,
                "{jitter_ratio}"
            );
        }
    }

    #[test]
    fn any_needs_one_rule_and_no_more() {
        for only in 0..3 {
            let rules = Rules {
                error_rate: only == 0,
                consecutive: only == 1,
                count: only == 2,
            };
            let policy = Policy {
                trip: Trip {
                    mode: TripMode::Any(rules),
                    ..Trip::default()
                },
                ..Policy::default()
            };
            assert_eq!(fields(&policy), [""; 0], "{rules:?}");
        }
    }

    #[test]
    fn there_is_room_for_every_status_and_no_more() {
        let listing = |entries: usize| {
            let policy = Policy {
                failure_status_codes: Some(vec![500; entries]),
                ..Policy::default()
            };
            fields(&policy) == ["failure_status_codes"]
        };
        assert!(!listing(500));
        assert!(listing(501));
        assert!(listing(502));
    }

    #[test]
    fn bounds_are_the_documented_ones() {
        const DAY: Duration = Duration::from_secs(86_400);
        assert_eq!(limits::COOLDOWN_MAX, DAY);
        assert_eq!(limits::RETRY_AFTER_MAX, DAY);
        assert_eq!(limits::PARK_MAX, DAY);
        assert_eq!(limits::WINDOW_MAX, DAY);
        assert_eq!(limits::SLOW_CALL_MAX, DAY);
        assert_eq!(limits::RAMP_MAX, DAY);
        assert_eq!(limits::JITTER_FLOOR_MAX, Duration::from_secs(3_600));
        assert_eq!(limits::STATUS_CODES_MAX, 500);
    }

    #[test]
    fn modes_have_the_words_of_the_document() {
        let words: Vec<&str> = [
            TripMode::ErrorRate,
            TripMode::Consecutive,
            TripMode::Count,
            TripMode::Any(Rules::ALL),
        ]
        .into_iter()
        .map(TripMode::as_str)
        .collect();
        assert_eq!(words, ["error_rate", "consecutive", "count", "any"]);
    }

    #[test]
    fn maximum_below_base_is_refused() {
        let policy = Policy {
            max_cooldown: Duration::from_secs(14),
            ..Policy::default()
        };
        assert_eq!(fields(&policy), ["max_cooldown_secs"]);
    }
}
