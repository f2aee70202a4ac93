//! How long a cell stays open: doubling, jitter band, the requested delay as a floor.

use std::time::Duration;

use crate::limits::{COOLDOWN_FLOOR, RETRY_AFTER_MAX};
use crate::policy::Policy;

/// The cooldown after the `reopens`-th re-opening (0 for a fresh trip).
///
/// `jitter` in [0, 1) picks a place in the band around the nominal value; a number outside is
/// pulled in, and one that is no number means the middle. The jitter spreads the probes of cells
/// that opened together, so it comes before the requested delay, which nothing may shorten.
pub(crate) fn cooldown(
    policy: &Policy,
    reopens: u32,
    retry_after: Option<Duration>,
    jitter: f64,
) -> Duration {
    let doubled = match 1_u32.checked_shl(reopens) {
        Some(factor) => policy.base_cooldown.saturating_mul(factor),
        None => Duration::MAX,
    };
    let nominal = doubled.min(policy.max_cooldown);
    let band = scaled(nominal, policy.jitter_ratio).max(policy.jitter_floor);
    let jitter = if jitter.is_nan() {
        0.5
    } else {
        jitter.clamp(0.0, 1.0)
    };
    let jittered = nominal
        .saturating_add(scaled(band, 2.0 * jitter))
        .saturating_sub(band)
        .max(COOLDOWN_FLOOR.min(nominal));
    jittered.max(requested_delay(retry_after))
}

/// The time the server asked for, cut to what is believed.
pub(crate) fn requested_delay(retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or_default().min(RETRY_AFTER_MAX)
}

fn scaled(span: Duration, factor: f64) -> Duration {
    // A negative product or one that is no number scales to nothing, an oversized one saturates.
    let seconds = (span.as_secs_f64() * factor).max(0.0);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(base: u64, max: u64) -> Policy {
        Policy {
            base_cooldown: Duration::from_secs(base),
            max_cooldown: Duration::from_secs(max),
            ..Policy::default()
        }
    }

    /// Field report B74.
    #[test]
    fn cooldown_doubles_up_to_the_maximum() {
        let exact = |k| cooldown(&policy(15, 120), k, None, 0.5).as_secs();
        assert_eq!(
            (0..6).map(exact).collect::<Vec<_>>(),
            [15, 30, 60, 120, 120, 120]
        );
    }

    /// Field report B75.
    #[test]
    fn any_number_of_reopenings_stays_within_the_band() {
        let policy = policy(15, 120);
        for k in (0..200).chain([u32::MAX - 1, u32::MAX]) {
            let low = cooldown(&policy, k, None, 0.0);
            let high = cooldown(&policy, k, None, 1.0);
            assert!(low >= Duration::from_secs_f64(13.5) && high <= Duration::from_secs(132));
            assert!(low < high);
        }
    }

    #[test]
    fn jitter_band_is_at_least_its_floor() {
        let policy = policy(4, 120);
        assert_eq!(
            cooldown(&policy, 0, None, 0.0),
            Duration::from_secs(3),
            "a tenth of 4 s would be 3.6 s"
        );
        assert_eq!(cooldown(&policy, 0, None, 1.0), Duration::from_secs(5));
    }

    #[test]
    fn jitter_never_goes_below_one_second_unless_the_policy_does() {
        assert_eq!(
            cooldown(&policy(1, 120), 0, None, 0.0),
            Duration::from_secs(1)
        );
        let short = Policy {
            base_cooldown: Duration::from_millis(200),
            ..Policy::default()
        };
        assert_eq!(
            cooldown(&short, 0, None, 0.0),
            Duration::from_millis(200),
            "the policy itself has less"
        );
    }

    #[test]
    fn no_jitter_is_exact() {
        let policy = Policy {
            jitter_ratio: 0.0,
            jitter_floor: Duration::ZERO,
            ..policy(30, 30)
        };
        for jitter in [0.0, 0.3, 0.999] {
            assert_eq!(cooldown(&policy, 9, None, jitter), Duration::from_secs(30));
        }
    }

    #[test]
    fn retry_after_longer_than_the_maximum_wins_and_is_cut_at_a_day() {
        let policy = policy(15, 60);
        let asked = |secs| cooldown(&policy, 9, Some(Duration::from_secs(secs)), 0.9);
        assert_eq!(asked(90), Duration::from_secs(90));
        assert_eq!(asked(u64::MAX), Duration::from_secs(86_400));
        assert!(
            asked(1) > Duration::from_secs(60),
            "a short delay changes nothing"
        );
    }

    /// Field report B75.
    #[test]
    fn scaling_saturates_at_both_ends() {
        let second = Duration::from_secs(1);
        assert_eq!(scaled(second, 0.5), second / 2);
        for nothing in [-1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(scaled(second, nothing), Duration::ZERO);
        }
        assert_eq!(scaled(Duration::MAX, 2.0), Duration::MAX);
        assert_eq!(scaled(second, f64::INFINITY), Duration::MAX);
    }

    #[test]
    fn extreme_policies_and_jitters_saturate() {
        let extremes = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
        let numbers = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300];
        for base in extremes {
            for max in extremes {
                for floor in extremes {
                    for ratio in numbers {
                        for jitter in numbers {
                            let policy = Policy {
                                base_cooldown: base,
                                max_cooldown: max,
                                jitter_floor: floor,
                                jitter_ratio: ratio,
                                ..Policy::default()
                            };
                            let asked = Some(Duration::from_secs(7));
                            for k in [0, 1, 31, 32, u32::MAX] {
                                assert!(
                                    cooldown(&policy, k, asked, jitter) >= Duration::from_secs(7)
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}
