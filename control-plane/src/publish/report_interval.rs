//! How often agents must report while this replica has much to do. The interval is lengthened only,
//! and only so far that an agent which is a report late does not turn stale.

use std::time::Duration;

use crate::session::Rules;

/// Reports in a second that one replica is made for. More sessions than that times the usual
/// interval report less often.
const REPORTS_PER_SEC: u32 = 1_000;
/// Fewer sessions than this are no load, whatever waits.
const SESSIONS_MIN: usize = 100;

/// The interval for `sessions` open sessions, of whose records `waiting` have not been written to
/// the live view yet. Whole seconds, so that a session more or less changes nothing.
pub(crate) fn interval(rules: &Rules, sessions: usize, waiting: usize) -> Duration {
    let usual = rules.report_interval;
    let longest = (rules.stale_after / 2).max(usual);
    if sessions < SESSIONS_MIN {
        return usual;
    }
    // The view takes less than the agents say: most records are replaced before they are written.
    if waiting > sessions / 2 {
        return longest;
    }
    let by_rate = sessions.div_ceil(REPORTS_PER_SEC as usize);
    Duration::from_secs(u64::try_from(by_rate).unwrap_or(u64::MAX)).clamp(usual, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_grows_with_the_load_within_its_bounds() {
        let rules = Rules {
            report_interval: Duration::from_secs(10),
            stale_after: Duration::from_secs(30),
        };
        for (sessions, waiting, secs) in [
            (0, 0, 10),
            (50, 50, 10),
            (1_000, 0, 10),
            (10_000, 5_000, 10),
            (12_500, 0, 13),
            (20_000, 0, 15),
            (1_000, 501, 15),
            (1_000, 500, 10),
        ] {
            let chosen = interval(&rules, sessions, waiting);
            assert_eq!(chosen.as_secs(), secs, "{sessions} {waiting}");
        }
    }

    #[test]
    fn an_interval_that_is_long_already_stays() {
        let rules = Rules {
            report_interval: Duration::from_secs(20),
            stale_after: Duration::from_secs(30),
        };
        assert_eq!(interval(&rules, 1_000, 1_000).as_secs(), 20);
    }
}
