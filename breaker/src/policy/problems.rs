//! Which numbers of a policy are out of bounds, by the field names of the document.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Policy, Recovery, Trip};
use crate::limits;

/// One field of a policy that is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The field as the document spells it, with a dot between block and field.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub message: String,
}

impl PolicyProblem {
    fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self {
            field,
            message: message.into(),
        }
    }
}

impl Policy {
    /// All fields that are out of bounds; an empty list means the policy may be used.
    pub fn problems(&self) -> Vec<PolicyProblem> {
        let spans = self.spans().into_iter().filter_map(span_problem);
        let counts = self.counts().into_iter().filter_map(count_problem);
        let shares = self.shares().into_iter().flatten();
        spans
            .chain(counts)
            .chain(shares)
            .chain(self.comparisons())
            .chain(self.status_problems())
            .collect()
    }

    /// Every duration with its bounds.
    fn spans(&self) -> [(&'static str, Duration, RangeInclusive<Duration>); 8] {
        let cooldown = limits::COOLDOWN_MIN..=limits::COOLDOWN_MAX;
        let slow_call = self.trip.slow_call.unwrap_or(limits::SLOW_CALL_MAX);
        let up_to = |most| Duration::ZERO..=most;
        [
            ("base_cooldown_secs", self.base_cooldown, cooldown.clone()),
            ("max_cooldown_secs", self.max_cooldown, cooldown.clone()),
            ("hard_down_cooldown_secs", self.hard_down_cooldown, cooldown),
            (
                "jitter_floor_secs",
                self.jitter_floor,
                up_to(limits::JITTER_FLOOR_MAX),
            ),
            ("park_secs", self.park, up_to(limits::PARK_MAX)),
            ("ramp_secs", self.ramp, up_to(limits::RAMP_MAX)),
            (
                "trip.window_secs",
                self.trip.window,
                limits::WINDOW_MIN..=limits::WINDOW_MAX,
            ),
            (
                "trip.slow_call_secs",
                slow_call,
                limits::SLOW_CALL_MIN..=limits::SLOW_CALL_MAX,
            ),
        ]
    }

    /// Every whole number with its bounds.
    fn counts(&self) -> [(&'static str, u32, RangeInclusive<u32>); 5] {
        let Trip {
            min_requests,
            consecutive_n,
            failure_count,
            ..
        } = self.trip;
        let Recovery {
            max_probes,
            successes_to_close,
            closes_at: _,
        } = self.half_open;
        let count = 1..=limits::COUNT_MAX;
        let successes = 1..=limits::SUCCESSES_TO_CLOSE_MAX;
        [
            ("trip.min_requests", min_requests, count.clone()),
            ("trip.consecutive_n", consecutive_n, count.clone()),
            ("trip.failure_count", failure_count, count),
            ("half_open.max_probes", max_probes, 0..=limits::PROBES_MAX),
            (
                "half_open.successes_to_close",
                successes_to_close,
                successes,
            ),
        ]
    }

    /// What is wrong with shares. Written so that NaN is refused too.
    fn shares(&self) -> [Option<PolicyProblem>; 2] {
        let threshold = self.trip.threshold;
        let is_threshold = threshold > 0.0 && threshold <= limits::THRESHOLD_MAX;
        let jitter = self.jitter_ratio;
        let is_jitter = (0.0..=limits::JITTER_RATIO_MAX).contains(&jitter);
        [
            (!is_threshold).then(|| {
                let message = format!("must be above 0 and at most 1, is {threshold}");
                PolicyProblem::new("trip.threshold", message)
            }),
            (!is_jitter).then(|| {
                let message = format!("must be from 0 to 1, is {jitter}");
                PolicyProblem::new("jitter_ratio", message)
            }),
        ]
    }

    /// Fields that contradict each other.
    fn comparisons(&self) -> impl Iterator<Item = PolicyProblem> {
        let below_base = (self.max_cooldown < self.base_cooldown).then(|| {
            let base = self.base_cooldown.as_secs_f64();
            let max = self.max_cooldown.as_secs_f64();
            let message =
                format!("must not be below base_cooldown_secs ({base} seconds), is {max}");
            PolicyProblem::new("max_cooldown_secs", message)
        });
        let rules = self.trip.mode.rules();
        let no_rule = !(rules.error_rate || rules.consecutive || rules.count);
        let no_rule = no_rule.then(|| {
            let message = "any needs at least one of threshold, consecutive_n, failure_count";
            PolicyProblem::new("trip.mode", message)
        });
        below_base.into_iter().chain(no_rule)
    }

    fn status_problems(&self) -> impl Iterator<Item = PolicyProblem> {
        const FIELD: &str = "failure_status_codes";
        let codes = self.failure_status_codes.as_deref().unwrap_or_default();
        let too_many = (codes.len() > limits::STATUS_CODES_MAX).then(|| {
            let message = format!("must have at most {} entries", limits::STATUS_CODES_MAX);
            PolicyProblem::new(FIELD, message)
        });
        let legal = limits::STATUS_MIN..=limits::STATUS_MAX;
        let unknown = codes
            .iter()
            .find(|code| !legal.contains(*code))
            .map(|code| {
                let (least, most) = (legal.start(), legal.end());
                let message = format!("must hold statuses from {least} to {most}, holds {code}");
                PolicyProblem::new(FIELD, message)
            });
        too_many.into_iter().chain(unknown)
    }
}

fn span_problem(
    (field, value, bounds): (&'static str, Duration, RangeInclusive<Duration>),
) -> Option<PolicyProblem> {
    let secs = Duration::as_secs_f64;
    (!bounds.contains(&value)).then(|| {
        let (least, most, is) = (secs(bounds.start()), secs(bounds.end()), secs(&value));
        let message = format!("must be from {least} to {most} seconds, is {is}");
        PolicyProblem::new(field, message)
    })
}

fn count_problem(
    (field, value, bounds): (&'static str, u32, RangeInclusive<u32>),
) -> Option<PolicyProblem> {
    (!bounds.contains(&value)).then(|| {
        let (least, most) = (bounds.start(), bounds.end());
        PolicyProblem::new(field, format!("must be from {least} to {most}, is {value}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Rules, TripMode};

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
                ..Recovery::default()
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
                ..Recovery::default()
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
