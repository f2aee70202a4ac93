//! When a probe that streams has succeeded: at its first content or at its good end.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed step of a test is a failed test"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{
    Admission, Cause, CauseKind, Cell, ClosesAt, Outcome, Policy, Recovery, State, Ticket, Trip,
    TripMode,
};

const LEASE: Duration = Duration::from_secs(10);
const FAILED: Outcome = Outcome::Transient {
    cause: Cause::with_status(CauseKind::Status, 503),
    retry_after: None,
};

/// A half-open cell with its one probe, and the moment.
fn probing(closes_at: ClosesAt) -> (Cell, Ticket, Instant) {
    let policy = Policy {
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        trip: Trip {
            mode: TripMode::Consecutive,
            consecutive_n: 1,
            slow_call: Some(Duration::from_secs(2)),
            ..Trip::default()
        },
        half_open: Recovery {
            closes_at,
            ..Recovery::default()
        },
        ..Policy::default()
    };
    let start = Instant::now();
    let mut cell = Cell::new(Arc::new(policy), start);
    let Admission::Pass(ticket) = cell.admit(start, LEASE) else {
        panic!("closed");
    };
    cell.settle(ticket, FAILED, start, 0.5).unwrap();
    let later = start + Duration::from_secs(15);
    let Admission::Probe(probe, _) = cell.admit(later, LEASE) else {
        panic!("the cooldown is over");
    };
    (cell, probe, later)
}

#[test]
fn content_and_end_decide_as_the_policy_has_it() {
    use ClosesAt::{Content, End};
    let (good, neutral, failed) = (Outcome::Success, Outcome::Neutral, FAILED);
    for (closes_at, content_secs, at_content, end, at_end) in [
        (Content, 1, State::Closed, good, State::Closed),
        (Content, 1, State::Closed, neutral, State::Closed),
        (End, 1, State::HalfOpen, good, State::Closed),
        (End, 1, State::HalfOpen, neutral, State::HalfOpen),
        (End, 1, State::HalfOpen, failed, State::Open),
        (End, 3, State::HalfOpen, good, State::Open),
    ] {
        let (mut cell, mut probe, mut now) = probing(closes_at);
        now += Duration::from_secs(content_secs);
        cell.commit(&mut probe, now);
        let case = format!("{closes_at} {content_secs} {end:?}");
        assert_eq!(cell.view(now).state, at_content, "{case}");
        // The whole answer takes longer than content may: only the content is timed.
        now += Duration::from_secs(5);
        cell.settle(probe, end, now, 0.5);
        assert_eq!(cell.view(now).state, at_end, "{case}");
    }
}

#[test]
fn probe_that_delivers_keeps_its_slot_until_it_ends() {
    let (mut cell, mut probe, now) = probing(ClosesAt::End);
    cell.commit(&mut probe, now);
    assert!(probe.is_committed());
    assert!(matches!(cell.admit(now, LEASE), Admission::Refuse(_)));
    cell.settle(probe, Outcome::Neutral, now, 0.5);
    assert!(matches!(cell.admit(now, LEASE), Admission::Probe(..)));
}
