//! Of two cells that judge one attempt, the stricter.

use crate::lanes::pool::exhaustion::SATURATION_RETRY_AFTER;
use lanekeeper_breaker::Selectable;
use std::time::Duration;

/// Two cells that must both admit. Of two refusals the one that lasts longer counts; nobody knows
/// how long a probe takes, but it is one request.
pub(super) fn stricter(a: Selectable, b: Selectable) -> Selectable {
    match (a, b) {
        (
            Selectable::No {
                retry_in: first, ..
            },
            Selectable::No {
                retry_in: second, ..
            },
        ) => {
            let wait = |retry_in: Option<Duration>| retry_in.unwrap_or(SATURATION_RETRY_AFTER);
            if wait(first) >= wait(second) { a } else { b }
        }
        (no @ Selectable::No { .. }, _) | (_, no @ Selectable::No { .. }) => no,
        (Selectable::SoftParked, _) | (_, Selectable::SoftParked) => Selectable::SoftParked,
        (Selectable::Advised, _) | (_, Selectable::Advised) => Selectable::Advised,
        (Selectable::Probe, _) | (_, Selectable::Probe) => Selectable::Probe,
        (Selectable::Yes, Selectable::Yes) => Selectable::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanekeeper_breaker::RefusalReason;

    const fn no(secs: u64) -> Selectable {
        Selectable::No {
            retry_in: Some(Duration::from_secs(secs)),
            reason: RefusalReason::Open,
        }
    }

    const PROBED: Selectable = Selectable::No {
        retry_in: None,
        reason: RefusalReason::ProbeBusy,
    };

    #[test]
    fn member_with_two_cells_waits_for_the_later_one() {
        for (a, b, expected) in [
            (no(3), no(40), no(40)),
            (PROBED, no(40), no(40)),
            (PROBED, no(1), PROBED),
            (PROBED, PROBED, PROBED),
            (Selectable::Yes, no(3), no(3)),
            (Selectable::Probe, no(3), no(3)),
            (Selectable::SoftParked, PROBED, PROBED),
            (
                Selectable::SoftParked,
                Selectable::Probe,
                Selectable::SoftParked,
            ),
            (Selectable::Advised, PROBED, PROBED),
            (
                Selectable::SoftParked,
                Selectable::Advised,
                Selectable::SoftParked,
            ),
            (Selectable::Advised, Selectable::Yes, Selectable::Advised),
            (Selectable::Yes, Selectable::Probe, Selectable::Probe),
            (Selectable::Yes, Selectable::Yes, Selectable::Yes),
        ] {
            assert_eq!(stricter(a, b), expected, "{a:?} and {b:?}");
            assert_eq!(stricter(b, a), expected, "{b:?} and {a:?}");
        }
    }
}
