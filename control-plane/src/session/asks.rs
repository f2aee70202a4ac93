//! What the server asks of an agent's reports beyond acknowledging them: a dense one when what came
//! cannot be the whole truth, and another interval while its replica has much to do.

use std::time::{Duration, Instant};

use lanekeeper_model::{Report, digest};
use lanekeeper_proto::message::{FromServer, ReportAck};

use super::Effect;

/// Report intervals an agent may stay silent before the server leaves.
const SILENT_INTERVALS: u32 = 3;
/// Least time between two requests for a dense report: one that cannot be had is not asked for with
/// every acknowledgement.
const DENSE_GAP: Duration = Duration::from_secs(60);

/// What one agent was asked for.
#[derive(Debug)]
pub(super) struct Asks {
    /// The interval that the agent was told last.
    told: Duration,
    /// The interval that it must be told.
    wanted: Duration,
    asked_dense: Option<Instant>,
    /// Up to which number the agent's changes of state are stored.
    transitions_stored: u64,
}

impl Asks {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            told: interval,
            wanted: interval,
            asked_dense: None,
            transitions_stored: 0,
        }
    }

    pub(super) fn want_interval(&mut self, interval: Duration) {
        self.wanted = interval;
    }

    pub(super) fn set_transitions_stored(&mut self, through: u64) {
        self.transitions_stored = through;
    }

    /// How long an agent that reports as often as it was told may be silent.
    pub(super) fn silence_max(&self) -> Duration {
        self.told.saturating_mul(SILENT_INTERVALS)
    }

    /// The acknowledgement of a report. `in_doubt` when it cannot be the whole truth.
    pub(super) fn ack(
        &mut self,
        seq: u64,
        refused: Option<String>,
        in_doubt: bool,
        now: Instant,
    ) -> Effect {
        let is_recent = |asked: Instant| now.saturating_duration_since(asked) < DENSE_GAP;
        let want_dense = in_doubt && !self.asked_dense.is_some_and(is_recent);
        if want_dense {
            self.asked_dense = Some(now);
        }
        let next_interval = (self.wanted != self.told).then_some(self.wanted);
        self.told = self.wanted;
        Effect::Send(FromServer::ReportAck(ReportAck {
            seq,
            want_dense,
            next_interval,
            refused,
            transitions_stored: self.transitions_stored,
        }))
    }
}

/// A report that follows number `before` cannot be the whole truth: one between them is missing, or
/// cells are missing in it.
pub(super) fn is_in_doubt(before: u64, report: &Report) -> bool {
    let is_short = |said: u64| said != digest(&report.cells);
    report.seq > before.saturating_add(1) || report.digest.is_some_and(is_short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const TEN: Duration = Duration::from_secs(10);

    /// What an acknowledgement asks for.
    fn asked(effect: &Effect) -> (bool, Option<Duration>) {
        match effect {
            Effect::Send(FromServer::ReportAck(ack)) => (ack.want_dense, ack.next_interval),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_dense_report_is_asked_for_once_a_minute_at_most() {
        let start = clock::now();
        let mut asks = Asks::new(TEN);
        let mut at = |secs: u64, in_doubt| {
            let now = start + Duration::from_secs(secs);
            asked(&asks.ack(secs, None, in_doubt, now)).0
        };
        assert!(!at(0, false));
        assert!(at(10, true));
        assert!(!at(20, true) && !at(69, true));
        assert!(at(70, true));
        assert!(!at(200, false));
    }

    #[test]
    fn another_interval_is_told_once_and_silence_is_measured_by_it() {
        let now = clock::now();
        let mut asks = Asks::new(TEN);
        assert_eq!(asks.silence_max(), 3 * TEN);
        let longer = Duration::from_secs(15);
        asks.want_interval(longer);
        assert_eq!(asks.silence_max(), 3 * TEN, "not told yet");
        assert_eq!(asked(&asks.ack(1, None, false, now)), (false, Some(longer)));
        assert_eq!(asked(&asks.ack(2, None, false, now)), (false, None));
        assert_eq!(asks.silence_max(), 3 * longer);
        asks.want_interval(TEN);
        assert_eq!(asked(&asks.ack(3, None, false, now)), (false, Some(TEN)));
    }

    #[test]
    fn a_skipped_number_and_missing_cells_are_doubtful() {
        let report = |seq, digest| Report {
            seq,
            digest,
            ..Report::default()
        };
        assert!(!is_in_doubt(0, &report(1, None)));
        assert!(!is_in_doubt(4, &report(5, Some(0))));
        assert!(is_in_doubt(4, &report(6, Some(0))));
        assert!(is_in_doubt(4, &report(5, Some(17))));
    }
}
