//! Behaviour of a cell, one rule of its contract a test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{
    Admission, Cause, CauseKind, Cell, Mode, Outcome, Override, OverrideAction, Policy, Reason,
    Recovery, RefusalReason, Selectable, State, Ticket, Transition, Trip, TripMode, View,
};

const LEASE: Duration = Duration::from_secs(10);

/// A cell with a clock that only the test moves.
struct Lane {
    cell: Cell,
    now: Instant,
}

impl Lane {
    fn new(policy: Policy) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
        let now = Instant::now();
        Self {
            cell: Cell::new(Arc::new(policy), now),
            now,
        }
    }

    fn wait(&mut self, seconds: f64) {
        self.now += Duration::from_secs_f64(seconds);
    }

    fn pass(&mut self) -> Ticket {
        match self.cell.admit(self.now, LEASE) {
            Admission::Pass(ticket) => ticket,
            other => panic!("expected to pass, got {other:?}"),
        }
    }

    fn probe(&mut self) -> Ticket {
        match self.cell.admit(self.now, LEASE) {
            Admission::Probe(ticket, _) => ticket,
            other => panic!("expected a probe, got {other:?}"),
        }
    }

    fn refused(&mut self) -> (RefusalReason, Option<Duration>) {
        match self.cell.admit(self.now, LEASE) {
            Admission::Refuse(refusal) => (refusal.reason, refusal.retry_in),
            other => panic!("expected to be refused, got {other:?}"),
        }
    }

    fn settle(&mut self, ticket: Ticket, outcome: Outcome) -> Option<Transition> {
        self.cell.settle(ticket, outcome, self.now, 0.5)
    }

    fn attempt(&mut self, outcome: Outcome) -> Option<Transition> {
        let ticket = self.pass();
        self.settle(ticket, outcome)
    }

    /// An attempt that streams and then ends with `outcome`.
    fn stream(&mut self, outcome: Outcome) -> Option<Transition> {
        let mut ticket = self.pass();
        assert_eq!(self.cell.commit(&mut ticket, self.now), None);
        self.settle(ticket, outcome)
    }

    fn view(&self) -> View {
        self.cell.view(self.now)
    }

    fn state(&self) -> State {
        self.view().state
    }

    /// Opens a consecutive-2 cell by two failures.
    fn trip(&mut self) -> Transition {
        assert_eq!(self.attempt(FAILED), None);
        self.attempt(FAILED).expect("the second failure trips")
    }
}

const UNAVAILABLE: Cause = Cause::with_status(CauseKind::Status, 503);

const FAILED: Outcome = Outcome::Transient {
    cause: UNAVAILABLE,
    retry_after: None,
};

const DENIED: Outcome = Outcome::HardDown {
    cause: Cause::with_status(CauseKind::Auth, 401),
};

fn asking(seconds: u64) -> Outcome {
    Outcome::Transient {
        cause: Cause::with_status(CauseKind::RateLimit, 429),
        retry_after: Some(Duration::from_secs(seconds)),
    }
}

/// Trips at the second failure in a row; 15 s to 120 s without jitter.
fn brittle() -> Policy {
    Policy {
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        trip: Trip {
            mode: TripMode::Consecutive,
            consecutive_n: 2,
            ..Trip::default()
        },
        ..Policy::default()
    }
}

fn open() -> Lane {
    let mut lane = Lane::new(brittle());
    lane.trip();
    lane
}

// Reading.

/// Field report B72.
#[test]
fn a_thousand_views_leave_the_next_attempt_the_probe() {
    let mut lane = open();
    lane.wait(15.0);
    let before = format!("{:?}", lane.cell);
    for _ in 0..1_000 {
        let view = lane.view();
        assert_eq!(view.state, State::Open);
        assert_eq!(view.cooldown_remaining, Duration::ZERO);
        assert_eq!(view.selectable, Selectable::Probe);
        assert_eq!(lane.cell.selectable(lane.now), Selectable::Probe);
    }
    assert_eq!(before, format!("{:?}", lane.cell));
    let probe = lane.probe();
    assert!(probe.is_probe());
}

#[test]
fn view_tells_why_and_how_often() {
    let mut lane = Lane::new(Policy::default());
    lane.attempt(asking(3));
    lane.wait(3.0);
    for _ in 0..3 {
        lane.attempt(FAILED);
    }
    let view = lane.view();
    assert_eq!((view.cause, view.cause_count), (Some(UNAVAILABLE), 3));
    assert_eq!((view.window_ok, view.window_failed, view.streak), (0, 4, 4));
    lane.wait(40.0);
    lane.attempt(Outcome::Success);
    let view = lane.view();
    assert_eq!(
        (view.cause, view.cause_count),
        (None, 0),
        "it does not matter any more"
    );
}

#[test]
fn open_age_goes_on_through_failed_probes_and_ends_with_a_good_one() {
    let mut lane = Lane::new(brittle());
    let age = |lane: &Lane| lane.view().open_age.as_secs_f64();
    lane.wait(5.0);
    assert_eq!(age(&lane), 0.0);
    lane.trip();
    lane.wait(15.0);
    let probe = lane.probe();
    assert_eq!((lane.state(), age(&lane)), (State::HalfOpen, 15.0));
    lane.settle(probe, FAILED);
    lane.wait(1.0);
    // The state is young, the incident is not.
    assert_eq!(lane.view().state_age.as_secs_f64(), 1.0);
    assert_eq!((lane.view().reopens, age(&lane)), (1, 16.0));
    lane.wait(60.0);
    let probe = lane.probe();
    lane.settle(probe, Outcome::Success);
    assert_eq!((lane.state(), age(&lane)), (State::Closed, 0.0));
    lane.wait(7.0);
    lane.trip();
    lane.wait(2.0);
    assert_eq!(age(&lane), 2.0);
}

#[test]
fn open_age_counts_from_the_last_closed_cell_that_callers_met() {
    let mut lane = open();
    let age = |lane: &Lane| lane.view().open_age.as_secs_f64();
    lane.wait(4.0);
    let override_ = |lane: &Lane, action, seconds| {
        Some(Override {
            action,
            until: lane.now + Duration::from_secs(seconds),
        })
    };
    // Refusing for another reason is the same incident.
    let hold = override_(&lane, OverrideAction::ForceOpen, 60);
    lane.cell.apply_override(hold, lane.now);
    lane.wait(1.0);
    assert_eq!(age(&lane), 5.0);
    let pass = override_(&lane, OverrideAction::ForceClose, 10);
    lane.cell.apply_override(pass, lane.now);
    assert_eq!(age(&lane), 0.0);
    lane.wait(20.0);
    assert_eq!(age(&lane), 0.0);
    lane.trip();
    lane.wait(3.0);
    assert_eq!(age(&lane), 3.0);
}

#[test]
fn state_age_starts_with_the_state_that_callers_meet() {
    let mut lane = Lane::new(brittle());
    let age = |lane: &Lane| lane.view().state_age.as_secs_f64();
    lane.wait(7.0);
    assert_eq!(age(&lane), 7.0);
    lane.trip();
    lane.wait(15.0);
    assert_eq!(age(&lane), 15.0, "open");
    let probe = lane.probe();
    lane.wait(2.0);
    assert_eq!(age(&lane), 2.0, "half-open");
    lane.settle(probe, Outcome::Success);
    lane.wait(3.0);
    assert_eq!(age(&lane), 3.0, "closed");

    let forced = override_(&lane, OverrideAction::ForceOpen, 10);
    lane.cell.apply_override(forced, lane.now);
    lane.wait(4.0);
    assert_eq!(age(&lane), 4.0, "forced open");
    lane.wait(8.0);
    assert_eq!(age(&lane), 2.0, "closed since the order ended");
    let _ticket = lane.pass();
    assert_eq!(age(&lane), 2.0, "whether anybody noticed or not");

    lane.trip();
    let observe = Policy {
        mode: Mode::Observe,
        ..brittle()
    };
    lane.cell.apply_policy(Arc::new(observe), lane.now);
    lane.wait(20.0);
    let probe = lane.probe();
    lane.settle(probe, FAILED);
    assert_eq!(age(&lane), 20.0, "nothing was refused since observing");
}

// Admission around the end of a cooldown.

#[test]
fn two_hundred_admits_at_cooldown_end_give_one_probe() {
    let mut lane = open();
    lane.wait(15.0);
    let mut probes = 0;
    for _ in 0..200 {
        match lane.cell.admit(lane.now, LEASE) {
            Admission::Probe(_, change) => {
                probes += 1;
                let change = change.expect("the first probe half-opens the cell");
                assert_eq!((change.from, change.to), (State::Open, State::HalfOpen));
                assert_eq!(change.reason, Reason::CooldownEnded);
            }
            Admission::Refuse(refusal) => assert_eq!(refusal.reason, RefusalReason::ProbeBusy),
            Admission::Pass(_) => panic!("a half-open cell passes probes only"),
        }
    }
    assert_eq!(probes, 1);
}

#[test]
fn open_cell_refuses_with_the_time_left() {
    let mut lane = open();
    lane.wait(10.5);
    assert_eq!(
        lane.refused(),
        (RefusalReason::Open, Some(Duration::from_millis(4_500)))
    );
    assert_eq!(lane.view().cooldown_remaining, Duration::from_millis(4_500));
}

/// Field report B65.
#[test]
fn lease_expiry_frees_the_slot_and_the_late_result_is_ignored() {
    let mut lane = open();
    lane.wait(15.0);
    let lost = lane.probe();
    lane.wait(29.9);
    assert_eq!(lane.refused().0, RefusalReason::ProbeBusy);
    lane.wait(0.2);
    assert_eq!(lane.view().selectable, Selectable::Probe);
    let probe = lane.probe();
    assert_eq!(lane.settle(lost, Outcome::Success), None);
    assert_eq!(
        lane.state(),
        State::HalfOpen,
        "the late success proves nothing"
    );
    let change = lane.settle(probe, Outcome::Success).expect("closes");
    assert_eq!(change.to, State::Closed);
}

#[test]
fn late_result_is_ignored_even_if_nobody_took_the_slot() {
    let mut lane = open();
    lane.wait(15.0);
    let mut lost = lane.probe();
    lane.wait(31.0);
    assert_eq!(lane.cell.commit(&mut lost, lane.now), None);
    assert_eq!(lane.settle(lost, FAILED), None);
    assert_eq!((lane.state(), lane.view().reopens), (State::HalfOpen, 0));
    let _probe = lane.probe();
}

#[test]
fn lease_lasts_as_long_as_the_attempt_timeout_or_the_cooldown_served() {
    let mut lane = open();
    lane.wait(15.0);
    let Admission::Probe(_lost, _) = lane.cell.admit(lane.now, Duration::from_secs(90)) else {
        panic!("expected a probe");
    };
    lane.wait(89.9);
    assert_eq!(lane.refused().0, RefusalReason::ProbeBusy);
    lane.wait(0.2);
    let denied = lane.probe();
    lane.settle(denied, DENIED);
    lane.wait(1_800.0);
    let _lost = lane.probe();
    lane.wait(1_799.9);
    assert_eq!(lane.refused().0, RefusalReason::ProbeBusy);
    lane.wait(0.2);
    let _probe = lane.probe();
}

/// Field reports B66, B68, B69.
#[test]
fn neutral_probe_gives_its_slot_back_at_once() {
    let mut lane = open();
    lane.wait(15.0);
    let probe = lane.probe();
    assert_eq!(lane.settle(probe, Outcome::Neutral), None);
    let probe = lane.probe();
    assert_eq!(lane.cell.abandon(probe, lane.now), None);
    let _probe = lane.probe();
    assert_eq!(lane.view().reopens, 0);
}

// Cooldowns.

/// Field report B74.
#[test]
fn cooldown_doubles_with_every_failed_probe_and_starts_over_after_a_recovery() {
    let mut lane = open();
    for cooldown in [15, 30, 60, 120, 120] {
        let cooldown = Duration::from_secs(cooldown);
        assert_eq!(lane.view().cooldown_remaining, cooldown);
        lane.now += cooldown;
        let probe = lane.probe();
        let change = lane.settle(probe, FAILED).expect("a failed probe re-opens");
        assert_eq!(
            (change.to, change.reason),
            (State::Open, Reason::ProbeFailed)
        );
    }
    assert_eq!((lane.view().reopens, lane.view().trips), (5, 1));
    lane.wait(120.0);
    let probe = lane.probe();
    lane.settle(probe, Outcome::Success);
    assert_eq!(lane.view().reopens, 0);
    let change = lane.trip();
    assert_eq!(change.cooldown, Some(Duration::from_secs(15)));
    assert_eq!(lane.view().trips, 2);
}

/// Field report B73.
#[test]
fn failed_probe_reopens_an_error_rate_cell_whatever_the_window_holds() {
    let mut lane = Lane::new(Policy {
        jitter_floor: Duration::ZERO,
        jitter_ratio: 0.0,
        ..Policy::default()
    });
    for _ in 0..5 {
        lane.attempt(FAILED);
    }
    lane.wait(60.0);
    assert_eq!(lane.view().window_failed, 0, "the window is empty again");
    let probe = lane.probe();
    let change = lane.settle(probe, FAILED).expect("re-opens");
    assert_eq!(change.cooldown, Some(Duration::from_secs(30)));
    lane.wait(30.0);
    let probe = lane.probe();
    let change = lane.settle(probe, Outcome::Success).expect("closes");
    assert_eq!(change.reason, Reason::ProbeSucceeded);
    let view = lane.view();
    assert_eq!((view.window_failed, view.window_ok, view.streak), (0, 1, 0));
}

#[test]
fn retry_after_longer_than_max_cooldown_wins() {
    let mut lane = Lane::new(Policy {
        max_cooldown: Duration::from_secs(60),
        ..brittle()
    });
    lane.attempt(FAILED);
    let change = lane.attempt(asking(90)).expect("trips");
    assert_eq!(change.cooldown, Some(Duration::from_secs(90)));
    lane.wait(89.0);
    assert_eq!(lane.refused().1, Some(Duration::from_secs(1)));
}

#[test]
fn retry_after_is_believed_for_a_day_at_most() {
    let mut lane = Lane::new(brittle());
    lane.attempt(FAILED);
    let change = lane.attempt(asking(u64::MAX)).expect("trips");
    assert_eq!(change.cooldown, Some(Duration::from_secs(86_400)));
}

#[test]
fn trip_never_shortens_what_a_park_was_asked_for() {
    let mut lane = Lane::new(brittle());
    let slow = lane.pass();
    lane.attempt(asking(60));
    lane.wait(1.0);
    let change = lane.settle(slow, FAILED).expect("the second failure trips");
    assert_eq!(change.cooldown, Some(Duration::from_secs(59)));
}

#[test]
fn jitter_moves_the_cooldown_by_a_second_at_least() {
    let mut lane = Lane::new(Policy {
        base_cooldown: Duration::from_secs(4),
        jitter_ratio: 0.1,
        jitter_floor: Duration::from_secs(1),
        ..brittle()
    });
    lane.attempt(FAILED);
    let ticket = lane.pass();
    let change = lane
        .cell
        .settle(ticket, FAILED, lane.now, 0.0)
        .expect("trips");
    assert_eq!(change.cooldown, Some(Duration::from_secs(3)));
}

// Late results.

#[test]
fn late_result_cannot_decide_the_probe() {
    let mut lane = Lane::new(brittle());
    let (good, bad) = (lane.pass(), lane.pass());
    lane.trip();
    lane.wait(15.0);
    let probe = lane.probe();
    assert_eq!(lane.settle(good, Outcome::Success), None);
    assert_eq!(lane.settle(bad, FAILED), None);
    assert_eq!((lane.state(), lane.view().reopens), (State::HalfOpen, 0));
    assert_eq!(
        lane.refused().0,
        RefusalReason::ProbeBusy,
        "the slot is still the probe's"
    );
    assert_eq!(
        lane.settle(probe, Outcome::Success).expect("closes").to,
        State::Closed
    );
}

#[test]
fn late_result_of_an_earlier_closed_time_is_not_counted_in_this_one() {
    let mut lane = Lane::new(brittle());
    let mut late = lane.pass();
    lane.trip();
    lane.wait(15.0);
    let probe = lane.probe();
    lane.settle(probe, Outcome::Success);
    assert_eq!(lane.cell.commit(&mut late, lane.now), None);
    lane.settle(late, FAILED);
    assert_eq!((lane.view().window_failed, lane.view().streak), (0, 0));
}

#[test]
fn late_retry_after_only_extends() {
    let mut lane = Lane::new(brittle());
    let (shorter, longer, without) = (lane.pass(), lane.pass(), lane.pass());
    lane.trip();
    lane.settle(shorter, asking(10));
    lane.settle(without, FAILED);
    assert_eq!(lane.view().cooldown_remaining, Duration::from_secs(15));
    assert_eq!(lane.settle(longer, asking(45)), None);
    assert_eq!(lane.view().cooldown_remaining, Duration::from_secs(45));
    assert_eq!(lane.state(), State::Open);
}

// Hard-down.

#[test]
fn hard_down_opens_at_once_and_sticks() {
    let mut lane = Lane::new(Policy::default());
    for _ in 0..100 {
        lane.attempt(Outcome::Success);
    }
    let change = lane.attempt(DENIED).expect("opens");
    assert_eq!(
        (change.reason, change.cooldown),
        (Reason::HardDown, Some(Duration::from_secs(1800)))
    );
    assert!(lane.view().hard_down);
    lane.wait(1_799.0);
    assert_eq!(lane.refused().0, RefusalReason::Open);
    lane.wait(1.0);
    let probe = lane.probe();
    assert_eq!(
        lane.settle(probe, Outcome::Success).expect("closes").to,
        State::Closed
    );
}

#[test]
fn new_credential_turns_a_hard_down_into_probe_now() {
    let mut lane = Lane::new(brittle());
    let old_key = lane.pass();
    lane.attempt(DENIED);
    lane.wait(5.0);
    let change = lane.cell.credential_changed(lane.now).expect("may probe");
    assert_eq!(
        (change.to, change.reason),
        (State::HalfOpen, Reason::CredentialChanged)
    );
    let probe = lane.probe();
    assert_eq!(lane.settle(old_key, DENIED), None);
    assert_eq!(
        lane.settle(probe, Outcome::Success).expect("closes").to,
        State::Closed
    );
}

#[test]
fn hard_down_of_the_old_credential_is_not_believed() {
    let mut lane = Lane::new(brittle());
    let old_key = lane.pass();
    lane.wait(1.0);
    assert_eq!(
        lane.cell.credential_changed(lane.now),
        None,
        "nothing to heal"
    );
    assert_eq!(lane.settle(old_key, DENIED), None);
    assert_eq!(
        (lane.state(), lane.view().window_failed),
        (State::Closed, 0)
    );
    assert_eq!(
        lane.attempt(DENIED).expect("the new one is bad too").to,
        State::Open
    );
}

#[test]
fn new_credential_does_not_shorten_a_transient_cooldown() {
    let mut lane = open();
    assert_eq!(lane.cell.credential_changed(lane.now), None);
    assert_eq!(lane.view().cooldown_remaining, Duration::from_secs(15));
}

// Parking.

#[test]
fn single_failure_parks_softly_and_a_success_ends_it() {
    let mut lane = Lane::new(brittle());
    let other = lane.pass();
    lane.attempt(FAILED);
    let view = lane.view();
    assert_eq!(
        (view.state, view.selectable),
        (State::Closed, Selectable::SoftParked)
    );
    assert_eq!(
        (view.parked_remaining, view.parked_hard),
        (Duration::from_secs(5), false)
    );
    lane.settle(other, Outcome::Success);
    assert_eq!(lane.view().selectable, Selectable::Yes);
}

#[test]
fn soft_parked_cell_still_passes_when_asked() {
    let mut lane = Lane::new(brittle());
    lane.attempt(FAILED);
    let _ticket = lane.pass();
}

#[test]
fn retry_after_parks_hard_and_a_success_does_not_end_it() {
    let mut lane = Lane::new(brittle());
    let other = lane.pass();
    lane.attempt(asking(20));
    lane.settle(other, Outcome::Success);
    assert_eq!(
        lane.refused(),
        (RefusalReason::Parked, Some(Duration::from_secs(20)))
    );
    lane.wait(20.0);
    let _no_probe_rule = lane.pass();
    assert_eq!(lane.view().selectable, Selectable::Yes);
}

#[test]
fn longer_park_is_not_shortened_by_the_next_failure() {
    let mut lane = Lane::new(Policy::default());
    let (first, second) = (lane.pass(), lane.pass());
    lane.settle(first, asking(60));
    lane.wait(1.0);
    lane.settle(second, asking(2));
    assert_eq!(lane.view().parked_remaining, Duration::from_secs(59));
}

#[test]
fn without_park_secs_only_the_server_parks() {
    let mut lane = Lane::new(Policy {
        park: Duration::ZERO,
        ..Policy::default()
    });
    lane.attempt(FAILED);
    assert_eq!(lane.view().selectable, Selectable::Yes);
    lane.attempt(asking(7));
    assert!(lane.view().parked_hard);
}

// Trip rules.

#[test]
fn error_rate_needs_its_requests_and_counts_the_threshold_itself() {
    let mut lane = Lane::new(Policy {
        trip: Trip {
            threshold: 0.7,
            min_requests: 10,
            ..Trip::default()
        },
        ..Policy::default()
    });
    for _ in 0..3 {
        lane.attempt(Outcome::Success);
    }
    for _ in 0..6 {
        assert_eq!(lane.attempt(FAILED), None);
    }
    let change = lane.attempt(FAILED).expect("7 of 10 is 0.7");
    assert_eq!(
        (change.reason, change.failures, change.samples),
        (Reason::ErrorRate, 7, 10)
    );
}

/// Field report B87.
#[test]
fn alternating_outcomes_are_never_consecutive() {
    let mut lane = Lane::new(brittle());
    for _ in 0..50 {
        assert_eq!(lane.attempt(FAILED), None);
        assert_eq!(lane.attempt(Outcome::Success), None);
    }
}

/// Field report B86.
#[test]
fn slow_outage_trips_consecutive_whatever_the_window() {
    let mut lane = Lane::new(brittle());
    lane.attempt(FAILED);
    lane.wait(3_600.0);
    let change = lane.attempt(FAILED).expect("two in a row");
    assert_eq!((change.reason, change.failures), (Reason::Consecutive, 2));
}

/// Field reports B48, B49.
#[test]
fn neutral_records_nothing() {
    let mut lane = Lane::new(brittle());
    for _ in 0..50 {
        lane.attempt(Outcome::Neutral);
        lane.stream(Outcome::Neutral);
    }
    let view = lane.view();
    assert_eq!((view.window_ok, view.window_failed, view.streak), (0, 0, 0));
}

#[test]
fn slow_answers_count_as_failures_in_the_window_only() {
    let mut lane = Lane::new(Policy {
        trip: Trip {
            slow_call: Some(Duration::from_secs(2)),
            ..Trip::default()
        },
        ..Policy::default()
    });
    for round in 1..=5 {
        let mut ticket = lane.pass();
        lane.wait(2.0);
        assert_eq!(lane.cell.commit(&mut ticket, lane.now), None);
        let change = lane.settle(ticket, Outcome::Success);
        assert_eq!(change.is_some(), round == 5, "round {round}");
    }
    let view = lane.view();
    assert_eq!((view.streak, view.window_failed), (0, 5));
    assert_eq!(view.cause.map(|cause| cause.kind), Some(CauseKind::Slow));
    lane.wait(20.0);
    let mut probe = lane.probe();
    lane.wait(2.0);
    lane.cell.commit(&mut probe, lane.now);
    let change = lane
        .settle(probe, Outcome::Success)
        .expect("a slow probe fails");
    assert_eq!(change.reason, Reason::ProbeFailed);
}

// Two-phase settling.

#[test]
fn stream_counts_as_good_from_its_first_content_and_turns_into_a_failure() {
    let mut lane = Lane::new(Policy::default());
    let mut ticket = lane.pass();
    lane.cell.commit(&mut ticket, lane.now);
    assert_eq!((lane.view().window_ok, lane.view().window_failed), (1, 0));
    lane.wait(10.0);
    lane.settle(ticket, FAILED);
    assert_eq!((lane.view().window_ok, lane.view().window_failed), (0, 1));
}

/// Field report B78.
#[test]
fn lane_that_always_answers_and_then_dies_trips_in_every_mode() {
    for mode in [TripMode::ErrorRate, TripMode::Consecutive, TripMode::Count] {
        let mut lane = Lane::new(Policy {
            trip: Trip {
                mode,
                ..Trip::default()
            },
            ..Policy::default()
        });
        let change = (0..5).find_map(|_| lane.stream(FAILED));
        assert_eq!(change.expect("trips").to, State::Open, "{mode:?}");
    }
}

#[test]
fn stream_that_dies_after_its_good_start_left_the_window_is_a_failure_now() {
    let mut lane = Lane::new(Policy::default());
    let mut ticket = lane.pass();
    lane.cell.commit(&mut ticket, lane.now);
    lane.wait(300.0);
    lane.settle(ticket, FAILED);
    assert_eq!((lane.view().window_ok, lane.view().window_failed), (0, 1));
}

/// Field report B78.
#[test]
fn good_stream_is_counted_once_and_only_its_end_clears_the_streak() {
    let mut lane = Lane::new(brittle());
    lane.attempt(FAILED);
    let mut ticket = lane.pass();
    lane.cell.commit(&mut ticket, lane.now);
    lane.cell.commit(&mut ticket, lane.now);
    assert_eq!((lane.view().window_ok, lane.view().streak), (1, 1));
    lane.settle(ticket, Outcome::Success);
    assert_eq!((lane.view().window_ok, lane.view().streak), (1, 0));
}

/// Field report B78.
#[test]
fn probe_closes_at_first_content_and_its_later_death_is_an_ordinary_failure() {
    let mut lane = open();
    lane.wait(15.0);
    let mut probe = lane.probe();
    let change = lane.cell.commit(&mut probe, lane.now).expect("closes");
    assert_eq!(
        (change.to, change.reason),
        (State::Closed, Reason::ProbeSucceeded)
    );
    lane.wait(60.0);
    assert_eq!(lane.settle(probe, FAILED), None, "one failure of two");
    let view = lane.view();
    assert_eq!(
        (view.state, view.streak, view.window_failed),
        (State::Closed, 1, 1)
    );
}

#[test]
fn several_successes_close_and_a_proven_stream_that_dies_reopens() {
    let policy = Policy {
        half_open: Recovery {
            max_probes: 3,
            successes_to_close: 3,
            ..Recovery::default()
        },
        ..brittle()
    };
    let mut lane = Lane::new(policy);
    lane.trip();
    lane.wait(15.0);
    let (mut first, second, third) = (lane.probe(), lane.probe(), lane.probe());
    assert_eq!(lane.refused().0, RefusalReason::ProbeBusy);
    assert_eq!(lane.cell.commit(&mut first, lane.now), None);
    let fourth = lane.probe();
    assert_eq!(lane.settle(second, Outcome::Success), None);
    assert_eq!(
        lane.settle(first, FAILED).expect("re-opens").reason,
        Reason::ProbeFailed
    );
    assert_eq!(lane.settle(third, Outcome::Success), None);
    assert_eq!(lane.settle(fourth, Outcome::Success), None);
    lane.wait(30.0);
    for left in [2, 1, 0] {
        let probe = lane.probe();
        assert_eq!(lane.settle(probe, Outcome::Success).is_some(), left == 0);
    }
    assert_eq!(lane.state(), State::Closed);
}

#[test]
fn unlimited_probes_admit_everything_and_the_first_result_decides() {
    let policy = Policy {
        half_open: Recovery {
            max_probes: 0,
            successes_to_close: 1,
            ..Recovery::default()
        },
        ..brittle()
    };
    let mut lane = Lane::new(policy);
    lane.trip();
    lane.wait(15.0);
    let mut probes: Vec<_> = (0..100).map(|_| lane.probe()).collect();
    let first = probes.pop().expect("a hundred");
    assert_eq!(
        lane.settle(first, FAILED).expect("re-opens").to,
        State::Open
    );
    for probe in probes {
        assert_eq!(lane.settle(probe, Outcome::Success), None);
    }
    assert_eq!(lane.state(), State::Open);
}

// Active probes.

/// Field report B81.
#[test]
fn active_probe_closes_the_cell_unless_a_hard_down_is_newer() {
    let mut lane = Lane::new(brittle());
    let begun = lane.now;
    lane.wait(1.0);
    lane.attempt(DENIED);
    lane.wait(1.0);
    assert_eq!(lane.cell.recover(begun, lane.now), None);
    assert_eq!(lane.state(), State::Open);
    let begun = lane.now;
    lane.wait(1.0);
    let change = lane.cell.recover(begun, lane.now).expect("closes");
    assert_eq!(
        (change.to, change.reason),
        (State::Closed, Reason::Recovered)
    );
}

#[test]
fn active_probe_does_not_end_a_hard_park() {
    let mut lane = Lane::new(brittle());
    lane.attempt(asking(20));
    assert_eq!(lane.cell.recover(lane.now, lane.now), None);
    assert!(lane.view().parked_hard);
    assert_eq!(lane.view().streak, 0);
}

#[test]
fn weight_grows_back_after_closing() {
    let mut lane = Lane::new(Policy {
        ramp: Duration::from_secs(10),
        ..brittle()
    });
    assert_eq!(
        lane.view().weight_factor,
        1.0,
        "a new cell has its full weight"
    );
    lane.trip();
    lane.wait(15.0);
    let probe = lane.probe();
    lane.settle(probe, Outcome::Success);
    let mut last = 0.0;
    for (seconds, expected) in [
        (0.0, 0.1),
        (5.0, 0.55),
        (4.0, 0.91),
        (1.0, 1.0),
        (100.0, 1.0),
    ] {
        lane.wait(seconds);
        let factor = lane.cell.weight_factor(lane.now);
        assert!(
            (factor - expected).abs() < 1e-9 && factor >= last,
            "{factor}"
        );
        last = factor;
    }

    lane.trip();
    lane.wait(15.0);
    let probe = lane.probe();
    lane.settle(probe, Outcome::Success);
    lane.attempt(FAILED);
    lane.attempt(FAILED);
    assert_eq!(lane.view().weight_factor, 1.0, "a trip ends the ramp");
}

// Overrides, advisories, modes.

fn override_(lane: &Lane, action: OverrideAction, seconds: u64) -> Option<Override> {
    Some(Override {
        action,
        until: lane.now + Duration::from_secs(seconds),
    })
}

#[test]
fn forced_open_cell_refuses_until_the_order_ends_by_itself() {
    for action in [OverrideAction::ForceOpen, OverrideAction::Drain] {
        let mut lane = Lane::new(brittle());
        let running = lane.pass();
        let forced = override_(&lane, action, 60);
        let change = lane
            .cell
            .apply_override(forced, lane.now)
            .expect("refuses now");
        assert_eq!((change.to, change.reason), (State::Open, Reason::Override));
        assert_eq!(
            lane.cell.apply_override(forced, lane.now),
            None,
            "the same again"
        );
        assert_eq!(
            lane.refused(),
            (RefusalReason::Override, Some(Duration::from_secs(60)))
        );
        assert!(matches!(
            lane.cell.admit_degraded(lane.now, LEASE),
            Admission::Refuse(_)
        ));
        lane.settle(running, Outcome::Success);
        assert_eq!(lane.view().window_ok, 1, "what runs is still judged");
        lane.wait(60.0);
        assert_eq!(lane.state(), State::Closed);
        assert_eq!(lane.view().override_, None);
        let _ticket = lane.pass();
    }
}

#[test]
fn released_override_is_told() {
    let mut lane = Lane::new(brittle());
    let forced = override_(&lane, OverrideAction::ForceOpen, 60);
    lane.cell.apply_override(forced, lane.now);
    let change = lane
        .cell
        .apply_override(None, lane.now)
        .expect("passes again");
    assert_eq!(
        (change.to, change.reason),
        (State::Closed, Reason::OverrideEnded)
    );
}

#[test]
fn forced_closed_cell_admits_and_records_without_tripping() {
    let mut lane = open();
    let forced = override_(&lane, OverrideAction::ForceClose, 60);
    assert_eq!(
        lane.cell
            .apply_override(forced, lane.now)
            .expect("passes now")
            .to,
        State::Closed
    );
    for outcome in [FAILED, DENIED, asking(30), FAILED] {
        assert_eq!(lane.attempt(outcome), None);
    }
    let view = lane.view();
    assert_eq!(
        (view.state, view.selectable),
        (State::Closed, Selectable::Yes)
    );
    assert_eq!((view.window_failed, view.streak), (4, 4));
    lane.wait(60.0);
    assert_eq!(
        lane.attempt(FAILED).expect("the order is over").to,
        State::Open
    );
}

#[test]
fn reset_closes_without_history() {
    let mut lane = open();
    let change = lane
        .cell
        .apply_override(override_(&lane, OverrideAction::Reset, 0), lane.now);
    assert_eq!(change.expect("closes").reason, Reason::Reset);
    let view = lane.view();
    assert_eq!((view.window_failed, view.streak, view.reopens), (0, 0, 0));
    assert_eq!((view.cause, view.override_), (None, None));
}

#[test]
fn advised_cell_is_chosen_last_but_passes() {
    let mut lane = Lane::new(brittle());
    let until = lane.now + Duration::from_secs(20);
    lane.cell.apply_advisory(Some(until));
    assert_eq!(lane.view().selectable, Selectable::Advised);
    assert_eq!(
        lane.view().advisory_remaining,
        Some(Duration::from_secs(20))
    );
    assert_eq!(lane.state(), State::Closed);
    let _ticket = lane.pass();
    lane.wait(20.0);
    assert_eq!(lane.view().selectable, Selectable::Yes);
    assert_eq!(lane.view().advisory_remaining, None);
}

#[test]
fn observing_cell_counts_would_be_trips_and_refuses_nothing() {
    let mut lane = Lane::new(Policy {
        mode: Mode::Observe,
        ..brittle()
    });
    for _ in 0..10 {
        let ticket = lane.pass();
        if let Some(change) = lane.settle(ticket, asking(600)) {
            assert!(change.observed);
        }
    }
    let view = lane.view();
    assert_eq!(
        (view.state, view.machine_state),
        (State::Closed, State::Open)
    );
    assert_eq!((view.trips, view.selectable), (1, Selectable::Yes));
    lane.wait(600.0);
    let probe = lane.probe();
    let _also_passes = lane.pass();
    assert!(
        lane.settle(probe, Outcome::Success)
            .expect("would close")
            .observed
    );
}

#[test]
fn switched_off_cell_records_nothing() {
    let mut lane = Lane::new(Policy {
        mode: Mode::Off,
        ..brittle()
    });
    for _ in 0..10 {
        assert_eq!(lane.stream(DENIED), None);
    }
    let view = lane.view();
    assert_eq!(
        (view.state, view.window_failed, view.cause),
        (State::Closed, 0, None)
    );
}

#[test]
fn degraded_attempt_passes_an_open_cell_and_does_not_move_it() {
    let mut lane = open();
    for outcome in [Outcome::Success, FAILED, DENIED] {
        let Admission::Pass(ticket) = lane.cell.admit_degraded(lane.now, LEASE) else {
            panic!("expected to pass");
        };
        assert_eq!(lane.settle(ticket, outcome), None);
    }
    assert_eq!(lane.view().cooldown_remaining, Duration::from_secs(15));
    lane.wait(15.0);
    assert!(matches!(
        lane.cell.admit_degraded(lane.now, LEASE),
        Admission::Probe(..)
    ));
}

// Policy changes.

#[test]
fn new_policy_keeps_state_cooldown_and_running_probe() {
    let mut lane = open();
    lane.wait(5.0);
    let patient = Policy {
        base_cooldown: Duration::from_secs(60),
        ..brittle()
    };
    assert_eq!(
        lane.cell.apply_policy(Arc::new(patient.clone()), lane.now),
        None
    );
    assert_eq!(lane.view().cooldown_remaining, Duration::from_secs(10));
    lane.wait(10.0);
    let probe = lane.probe();
    assert_eq!(lane.cell.apply_policy(Arc::new(brittle()), lane.now), None);
    assert_eq!(lane.refused().0, RefusalReason::ProbeBusy);
    lane.cell.apply_policy(Arc::new(patient), lane.now);
    let change = lane.settle(probe, FAILED).expect("re-opens");
    assert_eq!(change.cooldown, Some(Duration::from_secs(120)));
}

#[test]
fn policy_that_stops_enforcing_opens_the_way_and_back() {
    let mut lane = open();
    let observe = Policy {
        mode: Mode::Observe,
        ..brittle()
    };
    let change = lane
        .cell
        .apply_policy(Arc::new(observe), lane.now)
        .expect("passes now");
    assert_eq!((change.to, change.reason), (State::Closed, Reason::Policy));
    let change = lane
        .cell
        .apply_policy(Arc::new(brittle()), lane.now)
        .expect("refuses again");
    assert_eq!(change.to, State::Open);
    let off = Policy {
        mode: Mode::Off,
        ..brittle()
    };
    lane.cell.apply_policy(Arc::new(off), lane.now);
    lane.cell.apply_policy(Arc::new(brittle()), lane.now);
    assert_eq!(lane.state(), State::Closed, "off forgot everything");
}

// Time.

/// Field report B88.
#[test]
fn clock_that_runs_backwards_is_harmless() {
    let mut lane = open();
    let later = lane.now;
    lane.now -= Duration::from_secs(3_600);
    assert_eq!(lane.refused().0, RefusalReason::Open);
    lane.now = later;
    lane.wait(15.0);
    let _probe = lane.probe();
}

/// Field report B75.
#[test]
fn extreme_durations_do_not_overflow() {
    let policy = Policy {
        base_cooldown: Duration::MAX,
        max_cooldown: Duration::MAX,
        jitter_floor: Duration::MAX,
        hard_down_cooldown: Duration::MAX,
        park: Duration::MAX,
        ramp: Duration::MAX,
        trip: Trip {
            mode: TripMode::Consecutive,
            window: Duration::MAX,
            consecutive_n: 2,
            slow_call: Some(Duration::MAX),
            ..Trip::default()
        },
        ..Policy::default()
    };
    let mut lane = Lane::new(policy);
    let outcome = Outcome::Transient {
        cause: UNAVAILABLE,
        retry_after: Some(Duration::MAX),
    };
    let late = lane.pass();
    let other = lane.pass();
    lane.settle(other, outcome);
    lane.now += Duration::from_secs(600 * 365 * 86_400);
    let ticket = lane.pass();
    lane.settle(ticket, outcome);
    lane.settle(late, outcome);
    lane.cell
        .apply_advisory(Some(lane.now + Duration::from_secs(1)));
    assert_eq!(lane.state(), State::Open);
    let _ = (
        lane.view(),
        lane.cell.admit_degraded(lane.now, Duration::MAX),
    );
}

#[test]
fn cell_fits_into_512_bytes() {
    assert!(size_of::<Cell>() <= 512, "{}", size_of::<Cell>());
}

#[test]
fn cell_names_the_policy_it_obeys() {
    let policy = Arc::new(brittle());
    let mut lane = Lane::new(Policy::default());
    lane.cell.apply_policy(Arc::clone(&policy), lane.now);
    assert!(Arc::ptr_eq(lane.cell.policy(), &policy));
}

#[test]
fn only_a_proven_recovery_starts_a_ramp() {
    let ramp = Policy {
        ramp: Duration::from_secs(60),
        ..brittle()
    };
    let mut lane = Lane::new(ramp);
    lane.trip();
    let reset = override_(&lane, OverrideAction::Reset, 0);
    lane.cell.apply_override(reset, lane.now);
    assert_eq!(lane.cell.weight_factor(lane.now), 1.0);
    lane.trip();
    lane.cell.recover(lane.now, lane.now);
    assert_eq!(lane.cell.weight_factor(lane.now), 0.1);
}

#[test]
fn without_parking_and_ramp_a_closed_cell_needs_no_clock() {
    let mut lane = Lane::new(Policy {
        park: Duration::ZERO,
        ..brittle()
    });
    lane.wait(1.0);
    lane.attempt(asking(0));
    assert_eq!(lane.cell.holds, super::deadline::Holds::default());
    lane.cell.recover(lane.now, lane.now);
    lane.trip();
    lane.cell.recover(lane.now, lane.now);
    assert_eq!(lane.cell.ramp_from, None);
}

#[test]
fn change_to_closed_has_no_cooldown_though_the_machine_stays_open() {
    let mut lane = open();
    let observe = Policy {
        mode: Mode::Observe,
        ..brittle()
    };
    let change = lane
        .cell
        .apply_policy(Arc::new(observe), lane.now)
        .expect("callers pass from now on");
    assert_eq!((change.from, change.to), (State::Open, State::Closed));
    assert_eq!(change.cooldown, None);
    assert_eq!(lane.view().machine_state, State::Open);
}

#[test]
fn answer_within_the_slow_call_time_is_good() {
    let mut lane = Lane::new(Policy {
        trip: Trip {
            slow_call: Some(Duration::from_secs(2)),
            ..Trip::default()
        },
        ..Policy::default()
    });
    for wait in [0.0, 1.9] {
        let ticket = lane.pass();
        lane.wait(wait);
        lane.settle(ticket, Outcome::Success);
    }
    let view = lane.view();
    assert_eq!((view.window_ok, view.window_failed), (2, 0));
    let ticket = lane.pass();
    lane.wait(2.0);
    lane.settle(ticket, Outcome::Success);
    assert_eq!(lane.view().window_failed, 1);
}

#[test]
fn slow_stream_is_weighed_at_its_end_though_the_policy_no_longer_minds() {
    let slow = |slow_call| Policy {
        trip: Trip {
            min_requests: 1,
            slow_call,
            ..Trip::default()
        },
        ..Policy::default()
    };
    let mut lane = Lane::new(slow(Some(Duration::from_secs(2))));
    let mut ticket = lane.pass();
    lane.wait(3.0);
    assert_eq!(lane.cell.commit(&mut ticket, lane.now), None);
    lane.cell.apply_policy(Arc::new(slow(None)), lane.now);
    let change = lane.settle(ticket, Outcome::Success);
    assert_eq!(change.map(|change| change.reason), Some(Reason::ErrorRate));
}

#[test]
fn override_tells_the_time_left_of_itself() {
    let mut lane = Lane::new(brittle());
    lane.wait(7.0);
    let forced = override_(&lane, OverrideAction::ForceOpen, 60);
    lane.cell.apply_override(forced, lane.now);
    lane.wait(20.0);
    let (reason, left) = lane.refused();
    assert_eq!(reason, RefusalReason::Override);
    assert_eq!(left, Some(Duration::from_secs(40)));
}

#[test]
fn probe_slot_is_free_at_the_very_end_of_its_lease() {
    let mut lane = open();
    lane.wait(15.0);
    drop(lane.probe());
    lane.wait(30.0);
    drop(lane.probe());
}

#[test]
fn result_at_the_very_end_of_the_lease_comes_too_late() {
    let mut lane = open();
    lane.wait(15.0);
    let probe = lane.probe();
    lane.wait(30.0);
    assert_eq!(lane.settle(probe, Outcome::Success), None);
    assert_eq!(lane.state(), State::HalfOpen);
}

#[test]
fn success_empties_the_window_only_where_the_policy_says_so() {
    let counting = |success_clears_count| {
        Lane::new(Policy {
            success_clears_count,
            trip: Trip {
                mode: TripMode::Count,
                failure_count: 100,
                ..Trip::default()
            },
            ..brittle()
        })
    };
    let mut keeping = counting(false);
    keeping.attempt(FAILED);
    keeping.attempt(Outcome::Success);
    assert_eq!(
        (keeping.view().window_ok, keeping.view().window_failed),
        (1, 1)
    );
    let mut clearing = counting(true);
    for _ in 0..3 {
        clearing.attempt(Outcome::Success);
    }
    assert_eq!(
        clearing.view().window_ok,
        3,
        "there was no failure to clear"
    );
    clearing.attempt(FAILED);
    clearing.attempt(Outcome::Success);
    assert_eq!(
        (clearing.view().window_ok, clearing.view().window_failed),
        (1, 0)
    );
}

#[test]
fn quick_look_and_whole_view_agree_on_what_selection_may_do() {
    let agree = |lane: &Lane, expected: &dyn Fn(Selectable) -> bool| {
        let quick = lane.cell.selectable(lane.now);
        assert_eq!(quick, lane.view().selectable);
        assert!(expected(quick), "{quick:?}");
    };
    let mut soft = Lane::new(brittle());
    agree(&soft, &|quick| quick == Selectable::Yes);
    soft.attempt(FAILED);
    agree(&soft, &|quick| quick == Selectable::SoftParked);

    let mut hard = Lane::new(Policy {
        park: Duration::ZERO,
        ..brittle()
    });
    hard.attempt(asking(20));
    agree(&hard, &|quick| {
        matches!(
            quick,
            Selectable::No {
                reason: RefusalReason::Parked,
                ..
            }
        )
    });

    let mut forced = Lane::new(brittle());
    let override_ = override_(&forced, OverrideAction::ForceOpen, 60);
    forced.cell.apply_override(override_, forced.now);
    agree(&forced, &|quick| {
        matches!(
            quick,
            Selectable::No {
                reason: RefusalReason::Override,
                ..
            }
        )
    });

    let mut advised = Lane::new(brittle());
    let until = Some(advised.now + Duration::from_secs(5));
    advised.cell.apply_advisory(until);
    agree(&advised, &|quick| quick == Selectable::Advised);
    advised.wait(5.0);
    agree(&advised, &|quick| quick == Selectable::Yes);

    let mut probing = open();
    agree(&probing, &|quick| {
        matches!(
            quick,
            Selectable::No {
                reason: RefusalReason::Open,
                ..
            }
        )
    });
    probing.wait(15.0);
    agree(&probing, &|quick| quick == Selectable::Probe);
    drop(probing.probe());
    agree(&probing, &|quick| {
        matches!(
            quick,
            Selectable::No {
                reason: RefusalReason::ProbeBusy,
                ..
            }
        )
    });
    probing.wait(30.0);
    agree(&probing, &|quick| quick == Selectable::Probe);
}

#[test]
fn cause_is_shown_while_anything_of_it_matters() {
    let slow = Policy {
        base_cooldown: Duration::from_secs(100),
        park: Duration::ZERO,
        trip: Trip {
            mode: TripMode::Count,
            failure_count: 1,
            window: Duration::from_secs(10),
            slow_call: Some(Duration::from_secs(1)),
            ..Trip::default()
        },
        ..brittle()
    };
    let mut lane = Lane::new(slow);
    let ticket = lane.pass();
    lane.wait(2.0);
    lane.settle(ticket, Outcome::Success)
        .expect("one slow answer trips");
    lane.wait(50.0);
    let view = lane.view();
    assert_eq!((view.streak, view.window_failed), (0, 0));
    assert!(view.cause.is_some(), "open for nothing else than this");

    let patient = |park| Policy {
        park,
        trip: Trip {
            mode: TripMode::Consecutive,
            consecutive_n: 5,
            window: Duration::from_secs(10),
            ..Trip::default()
        },
        ..brittle()
    };
    let mut lane = Lane::new(patient(Duration::ZERO));
    lane.attempt(FAILED);
    lane.wait(60.0);
    assert_eq!(lane.view().window_failed, 0);
    assert_eq!(lane.view().cause, Some(UNAVAILABLE), "the streak goes on");

    let mut lane = Lane::new(patient(Duration::ZERO));
    lane.attempt(FAILED);
    lane.attempt(Outcome::Success);
    assert_eq!(lane.view().streak, 0);
    assert_eq!(lane.view().cause, Some(UNAVAILABLE), "the window has it");
    lane.wait(60.0);
    assert_eq!((lane.view().cause, lane.view().cause_count), (None, 0));

    let mut lane = Lane::new(patient(Duration::ZERO));
    let running = lane.pass();
    lane.attempt(asking(100));
    lane.settle(running, Outcome::Success);
    lane.wait(60.0);
    let view = lane.view();
    assert_eq!((view.streak, view.window_failed), (0, 0));
    assert!(view.cause.is_some(), "it is parked for this");
}

#[test]
fn order_that_has_ended_is_a_release() {
    for late in [0, 1] {
        let mut lane = open();
        lane.wait(2.0);
        let ended = |action| {
            Some(Override {
                action,
                until: lane.now - Duration::from_secs(late),
            })
        };
        let close = ended(OverrideAction::ForceClose);
        let open_it = ended(OverrideAction::ForceOpen);
        assert_eq!(lane.cell.apply_override(close, lane.now), None);
        assert_eq!(lane.view().machine_state, State::Open, "nothing was forced");

        let mut lane = Lane {
            cell: Cell::new(Arc::new(brittle()), lane.now),
            now: lane.now,
        };
        let held = override_(&lane, OverrideAction::ForceOpen, 60);
        lane.cell.apply_override(held, lane.now);
        let change = lane
            .cell
            .apply_override(open_it, lane.now)
            .expect("passes again");
        assert_eq!(
            (change.to, change.reason),
            (State::Closed, Reason::OverrideEnded)
        );
    }
}

#[test]
fn advice_that_has_ended_is_none() {
    let mut lane = Lane::new(brittle());
    lane.wait(5.0);
    for late in [0, 1] {
        let until = Some(lane.now - Duration::from_secs(late));
        lane.cell.apply_advisory(until);
        assert_eq!(lane.view().advisory_remaining, None);
        assert_eq!(lane.cell.selectable(lane.now), Selectable::Yes);
    }
}

#[test]
fn forced_opening_tells_its_length_and_begins_an_incident() {
    let mut lane = Lane::new(brittle());
    lane.wait(7.0);
    let forced = override_(&lane, OverrideAction::ForceOpen, 60);
    let change = lane.cell.apply_override(forced, lane.now).expect("refuses");
    assert_eq!(change.cooldown, Some(Duration::from_secs(60)));
    lane.wait(4.0);
    assert_eq!(lane.view().open_age, Duration::from_secs(4));
    let released = lane.cell.apply_override(None, lane.now).expect("passes");
    assert_eq!(released.cooldown, None);
    assert_eq!(lane.view().open_age, Duration::ZERO);

    let mut probing = open();
    probing.wait(15.0);
    drop(probing.probe());
    let forced = override_(&probing, OverrideAction::ForceOpen, 60);
    probing.cell.apply_override(forced, probing.now);
    probing.wait(1.0);
    probing.cell.apply_override(None, probing.now);
    assert_eq!(
        probing.view().open_age,
        Duration::from_secs(16),
        "the incident goes on through the override"
    );
}

#[test]
fn ticket_says_what_it_is() {
    let mut lane = Lane::new(brittle());
    let mut ordinary = lane.pass();
    assert!(!ordinary.is_probe() && !ordinary.is_committed());
    let generation = ordinary.generation();
    lane.cell.commit(&mut ordinary, lane.now);
    assert!(ordinary.is_committed());
    lane.settle(ordinary, Outcome::Success);
    lane.trip();
    lane.wait(15.0);
    let mut probe = lane.probe();
    assert!(probe.is_probe() && !probe.is_committed());
    assert!(probe.generation() > generation);
    lane.cell.commit(&mut probe, lane.now);
    assert!(probe.is_committed(), "a proven probe");
}
