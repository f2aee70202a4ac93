//! The preset `aibridge`: the change request that gave a bridge between coding agents and vendors
//! its overload protection.

use std::time::Duration;

use lanekeeper_breaker::{CauseKind, Mode, Policy, RefusalReason, State, WindowKind, presets};

use crate::story::Pick;
use crate::story::Step::{
    Fail, FailAsking, FailBare, Pick as Picked, Probes, Refused, See, Succeed, Through, Trips,
};
use crate::story::{after, failures, run};

#[test]
fn change_request_trips() {
    let policy = &presets::aibridge();
    run(
        "five overload answers within ten seconds trip the circuit",
        policy,
        &[
            Fail(0.0, 429),
            Fail(1.0, 503),
            Fail(2.0, 529),
            Fail(3.0, 429),
            See(3.0, State::Closed),
            Fail(4.0, 429),
            See(4.0, State::Open),
            Trips(4.0, 1),
        ],
    );
    run(
        "other error statuses do not",
        policy,
        &after(
            after(failures(20, 0.0, 500), &failures(20, 0.0, 502)),
            &[
                Fail(0.0, 400),
                Fail(0.0, 401),
                Fail(0.0, 504),
                See(0.0, State::Closed),
            ],
        ),
    );
    run(
        "failures are counted whatever goes well between them",
        policy,
        &[
            Fail(0.0, 503),
            Succeed(0.0),
            Fail(1.0, 503),
            Succeed(1.0),
            Fail(2.0, 503),
            Succeed(2.0),
            Fail(3.0, 503),
            Succeed(3.0),
            Fail(4.0, 503),
            See(4.0, State::Open),
        ],
    );
    run(
        "the count starts over when the window ends",
        policy,
        &after(
            failures(4, 0.0, 503),
            &[Fail(10.0, 503), See(10.0, State::Closed)],
        ),
    );
    run(
        "a single overload answer does not keep requests away",
        policy,
        &[Fail(0.0, 503), Picked(0.0, Pick::Yes)],
    );
    run(
        "which statuses are failures can be chosen",
        &Policy {
            failure_status_codes: Some(vec![500]),
            ..presets::aibridge()
        },
        &after(
            failures(20, 0.0, 503),
            &after(failures(5, 1.0, 500), &[See(1.0, State::Open)]),
        ),
    );
    run(
        "here, as everywhere, a lane that gives no answer at all fails too",
        policy,
        &after(
            vec![FailBare(0.0, CauseKind::Connect); 5],
            &[See(0.0, State::Open)],
        ),
    );
}

#[test]
fn change_request_open_and_half_open() {
    let policy = &presets::aibridge();
    run(
        "open rejects every request and returns the time left",
        policy,
        &after(
            failures(5, 0.0, 503),
            &[
                Through(0.0, 20, 0),
                Refused(10.0, RefusalReason::Open, Some(20)),
            ],
        ),
    );
    run(
        "a longer wait that the vendor asks for is kept",
        policy,
        &after(
            failures(4, 0.0, 429),
            &[
                FailAsking(0.0, 429, 60),
                Through(59.9, 5, 0),
                Through(60.0, 5, 3),
            ],
        ),
    );
    run(
        "three requests at once are allowed when the cooldown has ended",
        policy,
        &after(
            failures(5, 0.0, 503),
            &[Through(29.9, 9, 0), Through(30.0, 9, 3)],
        ),
    );
    run(
        "three successes close it, two do not",
        policy,
        &after(
            failures(5, 0.0, 503),
            &[
                Probes(30.0, 2),
                See(30.0, State::HalfOpen),
                Probes(31.0, 1),
                See(31.0, State::Closed),
            ],
        ),
    );
    run(
        "any failure in half-open opens it again, whatever succeeded before",
        policy,
        &after(
            failures(5, 0.0, 503),
            &[
                Probes(30.0, 2),
                Fail(31.0, 503),
                See(31.0, State::Open),
                Through(60.9, 9, 0),
                Through(61.0, 9, 3),
                Probes(61.0, 2),
                See(61.0, State::HalfOpen),
                Probes(61.0, 1),
                See(61.0, State::Closed),
            ],
        ),
    );
}

#[test]
fn change_request_configuration() {
    let policy = presets::aibridge();
    assert!(policy.per_endpoint, "endpoints fail on their own");
    assert_eq!(policy.trip.failure_count, 5);
    assert_eq!(policy.trip.window, Duration::from_secs(10));
    assert_eq!(policy.trip.window_kind, WindowKind::Tumbling);
    assert_eq!(policy.base_cooldown, Duration::from_secs(30));
    assert_eq!(policy.half_open.max_probes, 3);
    run(
        "a provider without a configuration has no breaker",
        &Policy {
            mode: Mode::Off,
            ..presets::aibridge()
        },
        &after(
            failures(50, 0.0, 503),
            &[See(0.0, State::Closed), Through(0.0, 9, 9)],
        ),
    );
}
