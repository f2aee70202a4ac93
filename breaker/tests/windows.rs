//! Traffic spread over time, and what a cell makes of it: windows, streaks and waits.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{
    Admission, Cause, CauseKind, Cell, Outcome, Policy, Reason, Selectable, State, Transition,
    Trip, TripMode,
};

const LEASE: Duration = Duration::from_secs(10);

const FAILED: Outcome = Outcome::Transient {
    cause: Cause::with_status(CauseKind::Status, 503),
    retry_after: None,
};

/// A cell and the moment its clock began; the tests count in seconds since then.
struct Clocked {
    cell: Cell,
    start: Instant,
}

impl Clocked {
    fn new(policy: Policy) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
        let start = Instant::now();
        Self {
            cell: Cell::new(Arc::new(policy), start),
            start,
        }
    }

    fn at(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }

    /// An attempt that is over at once.
    fn attempt(&mut self, seconds: f64, outcome: Outcome) -> Option<Transition> {
        let now = self.at(seconds);
        match self.cell.admit(now, LEASE) {
            Admission::Pass(ticket) | Admission::Probe(ticket, _) => {
                self.cell.settle(ticket, outcome, now, 0.5)
            }
            Admission::Refuse(refusal) => panic!("refused at {seconds}: {refusal:?}"),
        }
    }

    fn state(&self, seconds: f64) -> State {
        self.cell.view(self.at(seconds)).state
    }
}

fn consecutive(consecutive_n: u32) -> Policy {
    Policy {
        trip: Trip {
            mode: TripMode::Consecutive,
            consecutive_n,
            ..Trip::default()
        },
        ..Policy::default()
    }
}

/// Field report B85: the same traffic gives the same verdict wherever a fixed boundary would fall.
#[test]
fn failures_are_judged_by_the_last_window_and_not_by_a_fixed_one() {
    let mut diluted = Clocked::new(Policy::default());
    for second in 0..=28 {
        diluted.attempt(f64::from(second), Outcome::Success);
    }
    for second in [31.0, 31.2, 31.4, 31.6, 31.8] {
        assert_eq!(diluted.attempt(second, FAILED), None, "at {second}");
    }
    assert_eq!(diluted.state(31.8), State::Closed, "5 of 32");

    let mut clocked = Clocked::new(Policy::default());
    for second in [28.0, 28.5, 29.0, 31.0] {
        assert_eq!(clocked.attempt(second, FAILED), None, "at {second}");
    }
    let change = clocked.attempt(31.5, FAILED).expect("5 of 5");
    assert_eq!(
        (change.reason, change.failures, change.samples),
        (Reason::ErrorRate, 5, 5)
    );
}

/// Field report B86: failures that come slower than the window forgets them.
#[test]
fn rare_failures_add_up_to_a_streak_but_never_to_a_rate() {
    let mut streak = Clocked::new(consecutive(3));
    assert_eq!(streak.attempt(0.0, FAILED), None);
    assert_eq!(streak.attempt(60.0, FAILED), None);
    let change = streak.attempt(120.0, FAILED).expect("three in a row");
    assert_eq!((change.reason, change.failures), (Reason::Consecutive, 3));

    let mut rate = Clocked::new(Policy::default());
    for minute in 0..100 {
        let now = f64::from(minute) * 60.0;
        assert_eq!(rate.attempt(now, FAILED), None, "minute {minute}");
        let view = rate.cell.view(rate.at(now));
        assert_eq!((view.state, view.window_failed), (State::Closed, 1));
        // Each one keeps callers away for a moment all the same.
        assert_eq!(view.selectable, Selectable::SoftParked);
        assert_eq!(view.parked_remaining, Duration::from_secs(5));
        assert_eq!(
            rate.cell.view(rate.at(now + 5.0)).selectable,
            Selectable::Yes
        );
    }
}

/// Field report B87: a lane that fails now and then has no streak, neither for tripping nor for
/// the length of a cooldown.
#[test]
fn success_between_failures_ends_the_streak() {
    let mut cell = Clocked::new(consecutive(3));
    for round in 0..50 {
        let now = f64::from(round);
        assert_eq!(cell.attempt(now, FAILED), None, "round {round}");
        assert_eq!(cell.cell.view(cell.at(now)).streak, 1);
        assert_eq!(cell.attempt(now + 0.5, Outcome::Success), None);
        assert_eq!(cell.cell.view(cell.at(now + 0.5)).streak, 0);
    }
    for failure in 0..3 {
        cell.attempt(60.0 + f64::from(failure), FAILED);
    }
    let left = cell.cell.view(cell.at(62.0)).cooldown_remaining;
    assert_eq!(left, Duration::from_secs(15), "the base cooldown");
}

/// Field report B75: any streak, any base, any maximum: between the floor and the cap, and never
/// shorter for one failure more.
#[test]
fn cooldown_of_any_outage_stays_between_its_floor_and_its_cap() {
    for base in [1, 2, 15, 3_600, u64::from(u32::MAX)] {
        for max in [base, base.saturating_mul(8), u64::MAX] {
            let policy = Policy {
                base_cooldown: Duration::from_secs(base),
                max_cooldown: Duration::from_secs(max),
                jitter_ratio: 0.0,
                jitter_floor: Duration::ZERO,
                ..consecutive(1)
            };
            let mut cell = Clocked::new(policy);
            let mut now = cell.start;
            let mut before = Duration::ZERO;
            for reopening in 0..=200 {
                let (Admission::Pass(ticket) | Admission::Probe(ticket, _)) =
                    cell.cell.admit(now, LEASE)
                else {
                    panic!("no probe after its cooldown");
                };
                let change = cell.cell.settle(ticket, FAILED, now, 0.5).expect("opens");
                let cooldown = change.cooldown.expect("an open cell has one");
                assert!(
                    cooldown >= Duration::from_secs(base) && cooldown <= Duration::from_secs(max),
                    "{base} {max} {reopening}: {cooldown:?}"
                );
                assert!(cooldown >= before, "{base} {max} {reopening}");
                before = cooldown;
                // Nobody waits for centuries; shorter cooldowns are served in full.
                let Some(later) = now.checked_add(cooldown) else {
                    break;
                };
                now = later;
                if cooldown > Duration::from_secs(100 * 365 * 86_400) {
                    break;
                }
            }
        }
    }
}
