//! When one session reports, and when it gives the server up: the rules of a real agent as a plain
//! value.

use lanekeeper_proto::message::{ABILITY_SPARSE, ReportAck, Welcome};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Report intervals without an acknowledgement after which the agent leaves.
const MISSING_ACKS_MAX: u32 = 2;
/// Time between dense reports.
const DENSE_INTERVAL: Duration = Duration::from_secs(300);
/// A transition waits this long for others to share its report.
const GATHER: Duration = Duration::from_millis(100);
/// Least time between a report and one that a transition asks for.
const REPORT_GAP: Duration = Duration::from_millis(900);
/// Shortest and longest interval that a server can order.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// See [`INTERVAL_MIN`].
const INTERVAL_MAX: Duration = Duration::from_secs(300);
/// Share by which an interval varies, each way.
const INTERVAL_SPREAD: f64 = 0.1;
/// Unacknowledged reports whose times are kept.
const UNACKED_MAX: usize = 64;

/// The reports of one session.
#[derive(Debug)]
pub(crate) struct Schedule {
    interval: Duration,
    /// Time between dense reports; `None` when the server does without.
    dense_interval: Option<Duration>,
    next_timed: Instant,
    next_dense: Option<Instant>,
    wanted: Option<Instant>,
    last_sent: Option<Instant>,
    seq: u64,
    unacked: VecDeque<(u64, Instant)>,
}

impl Schedule {
    /// The first report goes at once, the timed ones by the phase that the server gave.
    pub(crate) fn new(welcome: &Welcome, now: Instant) -> Self {
        let interval = clamp(welcome.report_interval);
        let is_sparse = welcome.capabilities.iter().any(|it| it == ABILITY_SPARSE);
        Self {
            interval,
            dense_interval: (!is_sparse).then_some(DENSE_INTERVAL),
            next_timed: now + welcome.report_phase.min(interval),
            next_dense: (!is_sparse).then_some(now),
            wanted: Some(now),
            last_sent: None,
            seq: 0,
            unacked: VecDeque::new(),
        }
    }

    /// A cell changed its state.
    pub(crate) fn stir(&mut self, now: Instant) {
        self.want(now + GATHER);
    }

    /// When the next report is due.
    pub(crate) fn next_report(&self) -> Instant {
        let gap_ends = self.last_sent.map(|sent| sent + REPORT_GAP);
        let wanted = self
            .wanted
            .map(|wanted| gap_ends.map_or(wanted, |end| wanted.max(end)));
        wanted.map_or(self.next_timed, |wanted| wanted.min(self.next_timed))
    }

    /// When the server has been silent for too long.
    pub(crate) fn patience_ends(&self) -> Instant {
        let patience = self.interval.saturating_mul(MISSING_ACKS_MAX);
        let oldest = self.unacked.front().map(|(_, sent)| *sent);
        oldest.unwrap_or_else(|| self.next_report()) + patience
    }

    /// Numbers the report that goes now, for `jitter` in `[0, 1)`; true when it is dense.
    pub(crate) fn number(&mut self, now: Instant, jitter: f64) -> (u64, bool) {
        let dense = self.next_dense.is_some_and(|due| now >= due);
        if dense {
            self.next_dense = self.dense_interval.map(|interval| now + interval);
        }
        if now >= self.next_timed {
            let factor = 1.0 - INTERVAL_SPREAD + 2.0 * INTERVAL_SPREAD * jitter;
            let step = self.interval.mul_f64(factor);
            self.next_timed = (self.next_timed + step).max(now + step / 2);
        }
        self.wanted = None;
        self.last_sent = Some(now);
        self.seq += 1;
        if self.unacked.len() < UNACKED_MAX {
            self.unacked.push_back((self.seq, now));
        }
        (self.seq, dense)
    }

    /// Takes an acknowledgement and tells how long the report it names took, if that is known. It
    /// covers all before it, whose answers were merged into it.
    pub(crate) fn acknowledged(&mut self, ack: &ReportAck, now: Instant) -> Option<Duration> {
        let mut took = None;
        while let Some((seq, sent)) = self.unacked.front().copied() {
            if seq > ack.seq {
                break;
            }
            self.unacked.pop_front();
            took = (seq == ack.seq).then(|| now.saturating_duration_since(sent));
        }
        if ack.want_dense {
            self.next_dense = Some(now);
            self.want(now);
        }
        if let Some(interval) = ack.next_interval.map(clamp) {
            if interval < self.interval {
                self.next_timed = self.next_timed.min(now + interval);
            }
            self.interval = interval;
        }
        took
    }

    fn want(&mut self, from: Instant) {
        self.wanted = Some(self.wanted.map_or(from, |wanted| wanted.min(from)));
    }
}

fn clamp(interval: Duration) -> Duration {
    interval.clamp(INTERVAL_MIN, INTERVAL_MAX)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a moment to count from")]
mod tests {
    use super::*;
    use lanekeeper_proto::message::Limits;

    const SECOND: Duration = Duration::from_secs(1);

    fn welcome() -> Welcome {
        Welcome {
            session_epoch: 1,
            control_epoch: "one".to_owned(),
            report_interval: 10 * SECOND,
            report_phase: 4 * SECOND,
            stale_after: 30 * SECOND,
            target_revision: 0,
            protocol: 1,
            gateway_exists: true,
            limits: Limits {
                message_bytes: 1 << 20,
                report_cells: 1000,
            },
            capabilities: Vec::new(),
        }
    }

    fn ack(seq: u64) -> ReportAck {
        ReportAck {
            seq,
            want_dense: false,
            next_interval: None,
            refused: None,
        }
    }

    #[test]
    fn the_first_report_is_dense_and_at_once_and_the_next_by_phase() {
        let now = Instant::now();
        let mut schedule = Schedule::new(&welcome(), now);
        assert_eq!(schedule.next_report(), now);
        assert_eq!(schedule.number(now, 0.5), (1, true));
        assert_eq!(schedule.next_report(), now + 4 * SECOND);
        let later = now + 4 * SECOND;
        assert_eq!(schedule.number(later, 0.5), (2, false));
        assert_eq!(schedule.next_report(), now + 14 * SECOND);
    }

    #[test]
    fn a_server_that_does_without_closed_cells_gets_no_dense_report() {
        let now = Instant::now();
        let sparse = Welcome {
            capabilities: vec![ABILITY_SPARSE.to_owned()],
            ..welcome()
        };
        let mut schedule = Schedule::new(&sparse, now);
        assert_eq!(schedule.number(now, 0.5), (1, false));
        assert_eq!(schedule.number(now + 400 * SECOND, 0.5), (2, false));
    }

    #[test]
    fn a_transition_is_reported_within_a_second() {
        let now = Instant::now();
        let mut schedule = Schedule::new(&welcome(), now);
        schedule.number(now, 0.5);
        schedule.stir(now);
        assert!(schedule.next_report() <= now + SECOND);
        let calm = now + 2 * SECOND;
        schedule.stir(calm);
        assert!(schedule.next_report() <= calm);
    }

    #[test]
    fn one_acknowledgement_covers_all_before_it() {
        let now = Instant::now();
        let mut schedule = Schedule::new(&welcome(), now);
        schedule.number(now, 0.5);
        schedule.number(now + SECOND, 0.5);
        let took = schedule.acknowledged(&ack(2), now + 3 * SECOND);
        assert_eq!(took, Some(2 * SECOND));
        assert_eq!(schedule.acknowledged(&ack(2), now + 4 * SECOND), None);
    }

    #[test]
    fn patience_lasts_two_intervals_from_the_oldest_unanswered_report() {
        let now = Instant::now();
        let mut schedule = Schedule::new(&welcome(), now);
        schedule.number(now, 0.5);
        assert_eq!(schedule.patience_ends(), now + 20 * SECOND);
        schedule.acknowledged(&ack(1), now + SECOND);
        assert_eq!(schedule.patience_ends(), now + 24 * SECOND);
    }

    #[test]
    fn the_server_can_slow_reports_down() {
        let now = Instant::now();
        let mut schedule = Schedule::new(&welcome(), now);
        schedule.number(now, 0.5);
        let slower = ReportAck {
            next_interval: Some(30 * SECOND),
            ..ack(1)
        };
        schedule.acknowledged(&slower, now);
        schedule.number(now + 4 * SECOND, 0.5);
        assert_eq!(schedule.next_report(), now + 34 * SECOND);
    }
}
