//! The latest outcomes of one cell, for replays: a bounded ring of small entries.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{Cause, Outcome, State};
use lanekeeper_model::journal::{JOURNAL_BYTES_MAX, JournalLine, OUTCOMES_MAX, Recorded};
use lanekeeper_model::{LaneName, PoolName};

/// One entry.
#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Instant,
    /// `None` longer than this can hold: 49 days.
    took_ms: u32,
    /// 0 = not asked for.
    retry_after_ms: u32,
    outcome: Recorded,
    cause: Option<Cause>,
}

const _: () = assert!(
    size_of::<Entry>() * OUTCOMES_MAX <= JOURNAL_BYTES_MAX,
    "a full ring fits"
);

/// The ring. It takes memory as outcomes come.
#[derive(Debug, Default)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
}

impl Ring {
    /// An attempt that began at `began` is over; one that proved nothing is not recorded.
    pub(super) fn record(&mut self, outcome: Outcome, began: Instant, now: Instant) {
        let (outcome, cause, retry_after) = match outcome {
            Outcome::Success => (Recorded::Success, None, None),
            Outcome::Transient { cause, retry_after } => {
                (Recorded::Transient, Some(cause), retry_after)
            }
            Outcome::HardDown { cause } => (Recorded::HardDown, Some(cause), None),
            Outcome::Neutral => return,
        };
        self.push(Entry {
            at: now,
            took_ms: millis(now.saturating_duration_since(began)),
            retry_after_ms: retry_after.map_or(0, millis),
            outcome,
            cause,
        });
    }

    /// The cell opened or closed.
    pub(super) fn turned(&mut self, to: State, cause: Option<Cause>, now: Instant) {
        let outcome = match to {
            State::Open => Recorded::Opened,
            State::Closed => Recorded::Closed,
            State::HalfOpen => return,
        };
        self.push(Entry {
            at: now,
            took_ms: 0,
            retry_after_ms: 0,
            outcome,
            cause,
        });
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() >= OUTCOMES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// The entries as a file has them. `now` is `now_ms` on the clock that times are given by.
    pub(super) fn lines<'a>(
        &'a self,
        (pool, lane): (&'a PoolName, &'a LaneName),
        endpoint: Option<&'a str>,
        now: Instant,
        now_ms: u64,
    ) -> impl Iterator<Item = JournalLine> + 'a {
        self.entries.iter().map(move |entry| {
            let age = now.saturating_duration_since(entry.at);
            let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            JournalLine {
                pool: pool.clone(),
                lane: lane.clone(),
                endpoint: endpoint.map(str::to_owned),
                at_ms: now_ms.saturating_sub(age_ms),
                outcome: entry.outcome,
                cause: entry.cause.map(|cause| cause.kind.as_str().to_owned()),
                status: entry.cause.and_then(|cause| cause.status),
                retry_after_ms: (entry.retry_after_ms > 0).then(|| entry.retry_after_ms.into()),
                took_ms: entry.took_ms.into(),
            }
        })
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use lanekeeper_breaker::CauseKind;

    #[test]
    fn the_latest_outcomes_are_kept_with_their_times_and_causes() {
        let start = clock::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut ring = Ring::default();
        for second in 0..2000 {
            ring.record(Outcome::Success, at(second), at(second));
        }
        ring.record(Outcome::Neutral, at(2000), at(2000));
        let failed = Outcome::Transient {
            cause: Cause::with_status(CauseKind::RateLimit, 429),
            retry_after: Some(Duration::from_secs(7)),
        };
        ring.record(failed, at(2000), at(2001));
        ring.turned(State::Open, None, at(2001));
        ring.turned(State::HalfOpen, None, at(2002));
        let (pool, lane) = (PoolName::from("chat"), LaneName::from("a"));
        let lines: Vec<_> = ring
            .lines((&pool, &lane), None, at(2002), 1_000_000_000)
            .collect();
        assert_eq!(lines.len(), OUTCOMES_MAX);
        let [.., failed, opened] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!(failed.at_ms, 999_999_000);
        assert_eq!((failed.took_ms, failed.retry_after_ms), (1000, Some(7000)));
        assert_eq!(
            (failed.cause.as_deref(), failed.status),
            (Some("rate_limit"), Some(429))
        );
        assert_eq!(opened.outcome, Recorded::Opened);
    }
}
