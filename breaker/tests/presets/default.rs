//! The preset `default`: the pages on the circuit breaker and on failover of a gateway with pools
//! and lanes.

use std::time::Duration;

use lanekeeper_breaker::{CauseKind, Policy, RefusalReason, State, Trip, TripMode, presets};

use crate::story::Pick;
use crate::story::Step::{
    Count, Degraded, DieLate, Fail, FailAsking, FailBare, HardDown, Neutral, Pick as Picked,
    Recover, Refused, See, Succeed, Through, Trips,
};
use crate::story::{after, failures, run};

/// Without jitter, so that rows can name seconds.
fn exact() -> Policy {
    Policy {
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        ..presets::default()
    }
}

#[test]
fn breaker_page_trips() {
    let policy = &exact();
    run(
        "trips when the share of failures in the sliding window reaches the threshold",
        policy,
        &[
            Succeed(0.0),
            Succeed(1.0),
            Succeed(2.0),
            Fail(3.0, 500),
            Fail(4.0, 500),
            See(4.0, State::Closed),
            Fail(5.0, 500),
            See(5.0, State::Open),
            Trips(5.0, 1),
        ],
    );
    run(
        "never trips on fewer outcomes than the minimum within the window",
        policy,
        &after(
            failures(4, 0.0, 503),
            &[
                See(0.0, State::Closed),
                Fail(31.0, 503),
                See(31.0, State::Closed),
            ],
        ),
    );
    run(
        "successes after failures can bring the rate down before the window ends",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[
                Succeed(1.0),
                Succeed(1.0),
                Succeed(1.0),
                Succeed(1.0),
                Succeed(1.0),
                Succeed(1.0),
                Fail(2.0, 500),
                See(2.0, State::Closed),
                Fail(2.0, 500),
                See(2.0, State::Open),
            ],
        ),
    );
    run(
        "server errors, rate limits, request timeouts, overload and silence are all failures",
        policy,
        &[
            Fail(0.0, 500),
            Fail(0.0, 429),
            Fail(0.0, 408),
            Fail(0.0, 529),
            See(0.0, State::Closed),
            FailBare(0.0, CauseKind::Timeout),
            See(0.0, State::Open),
        ],
    );
    run(
        "the caller's faults and requests that are too long record nothing",
        policy,
        &after(
            vec![Neutral(0.0); 50],
            &[
                See(0.0, State::Closed),
                Picked(0.0, Pick::Yes),
                Count(0.0, 0),
            ],
        ),
    );
    run(
        "consecutive mode trips on a streak whatever went well before it",
        &Policy {
            trip: Trip {
                mode: TripMode::Consecutive,
                ..Trip::default()
            },
            ..exact()
        },
        &after(
            vec![Succeed(0.0); 40],
            &[
                Fail(1.0, 500),
                Fail(1.0, 500),
                Succeed(1.0),
                Fail(1.0, 500),
                Fail(1.0, 500),
                See(1.0, State::Closed),
                Fail(1.0, 500),
                See(1.0, State::Open),
            ],
        ),
    );
}

#[test]
fn breaker_page_states() {
    let policy = &exact();
    run(
        "one failure below the trip rule makes the lane the last choice for a while, no more",
        policy,
        &[
            Fail(0.0, 503),
            See(0.0, State::Closed),
            Picked(4.9, Pick::Last),
            Through(4.9, 3, 3),
            Picked(5.0, Pick::Yes),
        ],
    );
    run(
        "an open lane is skipped until its cooldown ends",
        policy,
        &after(
            failures(5, 0.0, 500),
            &[
                Picked(0.0, Pick::No),
                Refused(1.0, RefusalReason::Open, Some(14)),
                Picked(14.9, Pick::No),
                Picked(15.0, Pick::Probe),
            ],
        ),
    );
    run(
        "after it exactly one request is the probe, and looking takes nothing from it",
        policy,
        &after(
            after(failures(5, 0.0, 529), &[Through(14.9, 9, 0)]),
            &after(
                vec![Picked(15.0, Pick::Probe); 1_000],
                &[See(15.0, State::Open), Through(15.0, 9, 1)],
            ),
        ),
    );
    run(
        "a good probe closes the cell and clears streak and window",
        policy,
        &after(
            failures(5, 0.0, 500),
            &[
                Succeed(15.0),
                See(15.0, State::Closed),
                Count(15.0, 0),
                Fail(16.0, 500),
                See(16.0, State::Closed),
            ],
        ),
    );
    run(
        "a failed probe opens it again for longer, up to the ceiling",
        policy,
        &after(
            failures(5, 0.0, 500),
            &[
                Fail(15.0, 500),
                Through(44.9, 9, 0),
                Fail(45.0, 500),
                Through(104.9, 9, 0),
                Fail(105.0, 500),
                Through(224.9, 9, 0),
                Fail(225.0, 500),
                Through(344.9, 9, 0),
                Through(345.0, 9, 1),
            ],
        ),
    );
    run(
        "a server that asks for more than the ceiling is obeyed",
        &Policy {
            max_cooldown: Duration::from_secs(60),
            ..exact()
        },
        &after(
            failures(4, 0.0, 429),
            &[
                FailAsking(0.0, 429, 90),
                Through(89.9, 9, 0),
                Through(90.0, 9, 1),
            ],
        ),
    );
    run(
        "but for a day at most",
        policy,
        &after(
            failures(4, 0.0, 429),
            &[
                FailAsking(0.0, 429, u64::MAX),
                Through(86_399.9, 9, 0),
                Through(86_400.0, 9, 1),
            ],
        ),
    );
}

#[test]
fn breaker_page_hard_down() {
    let policy = &exact();
    run(
        "a refused credential trips at once, for half an hour",
        policy,
        &after(
            vec![Succeed(0.0); 50],
            &[
                HardDown(1.0, 401),
                See(1.0, State::Open),
                Refused(1.0, RefusalReason::Open, Some(1800)),
                Through(1800.9, 9, 0),
                Through(1801.0, 9, 1),
            ],
        ),
    );
    run(
        "the probe after it brings the lane back",
        policy,
        &[
            HardDown(0.0, 402),
            Succeed(1800.0),
            See(1800.0, State::Closed),
        ],
    );
    run(
        "a good health probe brings any tripped lane back at once",
        policy,
        &[HardDown(0.0, 403), Recover(60.0), See(60.0, State::Closed)],
    );
    run(
        "a health probe that fails counts like any other failure",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[FailBare(1.0, CauseKind::Timeout), See(1.0, State::Open)],
        ),
    );
}

#[test]
fn failover_page() {
    let policy = &exact();
    run(
        "a stream that dies after its first bytes is a failure of the lane and may trip it",
        policy,
        &[
            DieLate(0.0),
            DieLate(0.0),
            DieLate(0.0),
            DieLate(0.0),
            See(0.0, State::Closed),
            DieLate(0.0),
            See(0.0, State::Open),
        ],
    );
    run(
        "no headers within the attempt's own time limit is a failure",
        policy,
        &after(
            vec![FailBare(0.0, CauseKind::Timeout); 5],
            &[See(0.0, State::Open)],
        ),
    );
    run(
        "a rejected request carries when the soonest cooldown ends",
        policy,
        &after(
            failures(5, 0.0, 500),
            &[Refused(5.0, RefusalReason::Open, Some(10))],
        ),
    );
    run(
        "the least bad member is used although its breaker is open",
        policy,
        &after(
            failures(5, 0.0, 500),
            &[Degraded(5.0, 3, 3), See(5.0, State::Open)],
        ),
    );
    run(
        "whoever waited for a permit asks the breaker again, which may have opened meanwhile",
        policy,
        &after(
            vec![Picked(0.0, Pick::Yes)],
            &after(failures(5, 1.0, 500), &[Through(2.0, 1, 0)]),
        ),
    );
}

#[test]
fn defaults_are_those_of_the_page() {
    let policy = presets::default();
    assert_eq!(policy, Policy::default(), "no block means all defaults");
    assert_eq!(policy.base_cooldown, Duration::from_secs(15));
    assert_eq!(policy.max_cooldown, Duration::from_secs(120));
    assert_eq!(policy.hard_down_cooldown, Duration::from_secs(1800));
    assert!((policy.jitter_ratio - 0.1).abs() < f64::EPSILON);
    assert_eq!(policy.jitter_floor, Duration::from_secs(1));
    assert_eq!(policy.trip.mode, TripMode::ErrorRate);
    assert_eq!(policy.trip.window, Duration::from_secs(30));
    assert!((policy.trip.threshold - 0.5).abs() < f64::EPSILON);
    assert_eq!(
        (policy.trip.min_requests, policy.trip.consecutive_n),
        (5, 3)
    );
}
