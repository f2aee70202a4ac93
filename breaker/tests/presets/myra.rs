//! The preset `myra`: the page on the circuit breaker of a gateway with fallback chains.

use std::time::Duration;

use lanekeeper_breaker::{
    CauseKind, Policy, RefusalReason, State, Trip, TripMode, WindowKind, presets,
};

use crate::story::Pick;
use crate::story::Step::{
    Count, DieLate, Fail, FailBare, Neutral, Pick as Picked, Refused, See, Succeed, Through,
};
use crate::story::{after, failures, run};

#[test]
fn breaker_page_states() {
    let policy = &presets::myra();
    run(
        "closed routes normally and keeps nothing until the first failure",
        policy,
        &[
            Succeed(0.0),
            Fail(70.0, 500),
            Succeed(200.0),
            Count(200.0, 0),
            Picked(200.0, Pick::Yes),
        ],
    );
    run(
        "as many failures as the threshold within the window open it",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[
                See(0.0, State::Closed),
                Fail(59.0, 504),
                See(59.0, State::Open),
            ],
        ),
    );
    run(
        "open means skipped for the whole cooldown",
        policy,
        &after(
            failures(5, 0.0, 503),
            &[
                Refused(1.0, RefusalReason::Open, Some(29)),
                Through(29.9, 50, 0),
            ],
        ),
    );
    run(
        "half-open admits every request; the first delivered answer closes",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[
                Through(30.0, 50, 50),
                See(30.0, State::HalfOpen),
                Succeed(30.0),
                See(30.0, State::Closed),
            ],
        ),
    );
    run(
        "the first failure opens it again and the cooldown starts anew",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[
                Fail(31.0, 500),
                See(31.0, State::Open),
                Through(60.9, 5, 0),
                Fail(61.0, 500),
                Through(90.9, 5, 0),
                Through(91.0, 5, 5),
            ],
        ),
    );
    run(
        "an answer with nothing in it neither closes a breaker nor clears the count",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[Neutral(30.0), See(30.0, State::HalfOpen)],
        ),
    );
    run(
        "closing clears the count",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[
                Succeed(30.0),
                Count(30.0, 0),
                Fail(31.0, 500),
                Count(31.0, 1),
            ],
        ),
    );
}

#[test]
fn breaker_page_window() {
    run(
        "the counter lives two windows, is not extended, and resets in one step",
        &presets::myra(),
        &[
            Fail(0.0, 500),
            Fail(50.0, 500),
            Fail(100.0, 500),
            Fail(119.0, 500),
            Fail(120.0, 500),
            See(120.0, State::Closed),
            Fail(121.0, 500),
            Fail(122.0, 500),
            Fail(123.0, 500),
            See(123.0, State::Closed),
            Fail(124.0, 500),
            See(124.0, State::Open),
        ],
    );
    run(
        "so a breaker that has been open for long shows no failures",
        &Policy {
            base_cooldown: Duration::from_secs(600),
            max_cooldown: Duration::from_secs(600),
            ..presets::myra()
        },
        &after(
            failures(5, 0.0, 500),
            &[Count(119.0, 5), Count(120.0, 0), See(120.0, State::Open)],
        ),
    );
}

#[test]
fn breaker_page_failures() {
    let policy = &presets::myra();
    run(
        "only the listed statuses count, and other 5xx do not",
        policy,
        &after(
            after(failures(20, 0.0, 429), &failures(20, 0.0, 501)),
            &[
                Fail(0.0, 400),
                Fail(0.0, 401),
                Fail(0.0, 599),
                See(0.0, State::Closed),
                Count(0.0, 0),
            ],
        ),
    );
    run(
        "names that do not resolve, refused connections, TLS faults and timeouts always count",
        &Policy {
            failure_status_codes: Some(Vec::new()),
            ..presets::myra()
        },
        &[
            Fail(0.0, 500),
            Fail(0.0, 503),
            FailBare(0.0, CauseKind::Dns),
            FailBare(0.0, CauseKind::Connect),
            FailBare(0.0, CauseKind::Tls),
            FailBare(0.0, CauseKind::Timeout),
            See(0.0, State::Closed),
            Count(0.0, 4),
            FailBare(0.0, CauseKind::Reset),
            See(0.0, State::Open),
        ],
    );
    run(
        "a turn that is dead after its retry counts although its status was 200",
        policy,
        &after(
            vec![FailBare(0.0, CauseKind::EmptyAnswer); 5],
            &[See(0.0, State::Open)],
        ),
    );
    run(
        "the fleet's own breaker: three in half a minute, 429 among them, open for 15 s",
        &Policy {
            base_cooldown: Duration::from_secs(15),
            max_cooldown: Duration::from_secs(15),
            failure_status_codes: Some(vec![500, 502, 503, 504, 429]),
            trip: Trip {
                failure_count: 3,
                window: Duration::from_secs(30),
                ..presets::myra().trip
            },
            ..presets::myra()
        },
        &[
            Fail(0.0, 429),
            Fail(10.0, 500),
            See(10.0, State::Closed),
            Fail(20.0, 504),
            See(20.0, State::Open),
            Through(34.9, 5, 0),
            Through(35.0, 5, 5),
        ],
    );
}

#[test]
fn breaker_page_successes_and_neither() {
    let policy = &presets::myra();
    run(
        "a delivered answer clears the count",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[
                Succeed(1.0),
                Count(1.0, 0),
                Fail(2.0, 500),
                See(2.0, State::Closed),
            ],
        ),
    );
    run(
        "a discarded attempt, a cancelled turn and a turn without text trip nothing",
        policy,
        &after(
            failures(4, 0.0, 500),
            &after(
                vec![Neutral(1.0); 20],
                &[See(1.0, State::Closed), Count(1.0, 4)],
            ),
        ),
    );
    run(
        "and close nothing that failures opened",
        policy,
        &after(
            failures(5, 0.0, 500),
            &[
                Neutral(30.0),
                Neutral(31.0),
                See(31.0, State::HalfOpen),
                Fail(32.0, 500),
                See(32.0, State::Open),
            ],
        ),
    );
    run(
        "a stream that breaks midway neither counts nor clears",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[
                DieLate(1.0),
                DieLate(1.0),
                See(1.0, State::Closed),
                Count(1.0, 4),
                Fail(2.0, 500),
                See(2.0, State::Open),
            ],
        ),
    );
}

#[test]
fn breaker_page_configuration() {
    let policy = presets::myra();
    assert_eq!(policy.trip.mode, TripMode::Count);
    assert_eq!(policy.trip.window_kind, WindowKind::Counter);
    assert_eq!(policy.trip.failure_count, 5);
    assert_eq!(policy.trip.window, Duration::from_secs(60));
    assert_eq!(policy.base_cooldown, Duration::from_secs(30));
    assert_eq!(
        policy.failure_status_codes.as_deref(),
        Some(&[500, 502, 503, 504][..])
    );
    let with = |failures, window, cooldown| Policy {
        base_cooldown: Duration::from_secs(cooldown),
        max_cooldown: Duration::from_secs(cooldown),
        trip: Trip {
            failure_count: failures,
            window: Duration::from_secs(window),
            ..presets::myra().trip
        },
        ..presets::myra()
    };
    run(
        "the conservative example: ten in two minutes, a minute of cooldown",
        &with(10, 120, 60),
        &after(
            failures(9, 0.0, 500),
            &[
                See(0.0, State::Closed),
                Fail(119.0, 500),
                See(119.0, State::Open),
                Through(178.9, 5, 0),
                Through(179.0, 5, 5),
            ],
        ),
    );
    run(
        "the aggressive example: three in half a minute, ten seconds of cooldown",
        &with(3, 30, 10),
        &after(
            failures(3, 0.0, 500),
            &[
                See(0.0, State::Open),
                Through(9.9, 5, 0),
                Through(10.0, 5, 5),
            ],
        ),
    );
}
