//! The preset `rolter`: the page on circuit breakers of a gateway with targets and routes.

use std::time::Duration;

use lanekeeper_breaker::{CauseKind, Mode, Policy, RefusalReason, State, Trip, presets};

use crate::story::Pick;
use crate::story::Step::{
    Degraded, Fail, FailAsking, FailBare, Hang, Neutral, Pick as Picked, Refused, See, Succeed,
    Through,
};
use crate::story::{after, failures, run};

#[test]
fn breaker_page_states() {
    let policy = &presets::rolter();
    run(
        "trips after so many failures in a row, not after one less and a success",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[
                Succeed(0.0),
                Fail(0.0, 500),
                Fail(0.0, 500),
                Fail(0.0, 500),
                Fail(0.0, 500),
                See(0.0, State::Closed),
                Fail(0.0, 500),
                See(0.0, State::Open),
            ],
        ),
    );
    run(
        "429, any 5xx and connection errors count",
        policy,
        &[
            Fail(0.0, 429),
            Fail(0.0, 500),
            Fail(0.0, 599),
            FailBare(0.0, CauseKind::Connect),
            See(0.0, State::Closed),
            FailBare(0.0, CauseKind::Reset),
            See(0.0, State::Open),
        ],
    );
    run(
        "what is not transient does not count",
        policy,
        &after(vec![Neutral(0.0); 20], &[See(0.0, State::Closed)]),
    );
    run(
        "while open no request reaches it; then the next request is the only probe",
        policy,
        &after(
            failures(5, 0.0, 429),
            &[
                See(0.0, State::Open),
                Picked(29.9, Pick::No),
                Through(29.9, 5, 0),
                Through(30.0, 5, 1),
            ],
        ),
    );
    run(
        "others skip it until the probe's result is there",
        policy,
        &after(
            failures(5, 0.0, 429),
            &[
                Hang(30.0),
                Refused(30.0, RefusalReason::ProbeBusy, None),
                Picked(31.0, Pick::No),
            ],
        ),
    );
    run(
        "another failure opens it again for the same time",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[
                Fail(30.0, 502),
                Through(59.9, 5, 0),
                Fail(60.0, 502),
                Through(89.9, 5, 0),
                Through(90.0, 5, 1),
            ],
        ),
    );
    run(
        "a successful answer closes it",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[Succeed(30.0), See(30.0, State::Closed), Through(30.0, 5, 5)],
        ),
    );
    run(
        "a probe that never answers gives its slot up after the longest of three times",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[Hang(30.0), Through(59.9, 5, 0), Through(60.0, 5, 1)],
        ),
    );
    run(
        "one of which is the time it stays open",
        &Policy {
            base_cooldown: Duration::from_secs(60),
            max_cooldown: Duration::from_secs(60),
            ..presets::rolter()
        },
        &after(
            failures(5, 0.0, 502),
            &[Hang(60.0), Through(119.9, 5, 0), Through(120.0, 5, 1)],
        ),
    );
    run(
        "a probe that never reached the target gives its slot up at once",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[Through(30.0, 5, 1), Through(30.0, 5, 1), Succeed(30.0)],
        ),
    );
}

#[test]
fn breaker_page_fail_open() {
    let policy = &presets::rolter();
    run(
        "with every target open requests are forwarded all the same",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[Degraded(1.0, 5, 5), See(1.0, State::Open)],
        ),
    );
    run(
        "so the rule of one probe protects only a target that has siblings",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[
                Hang(30.0),
                Degraded(30.0, 5, 5),
                Refused(30.0, RefusalReason::ProbeBusy, None),
            ],
        ),
    );
}

#[test]
fn breaker_page_cooldowns_beside_the_breaker() {
    let policy = &presets::rolter();
    run(
        "a single failure parks the target for a short fixed time, without a probe after it",
        policy,
        &[
            Fail(0.0, 429),
            Picked(4.9, Pick::Last),
            Picked(5.0, Pick::Yes),
            Through(5.0, 5, 5),
        ],
    );
    run(
        "the park lasts as long as the server asks",
        policy,
        &[
            FailAsking(0.0, 429, 8),
            Refused(1.0, RefusalReason::Parked, Some(7)),
            Through(7.9, 5, 0),
            Through(8.0, 5, 5),
        ],
    );
    run(
        "failures that go on across parks trip the breaker, which then takes over",
        policy,
        &[
            Fail(0.0, 503),
            Fail(6.0, 503),
            Fail(120.0, 503),
            Fail(600.0, 503),
            See(600.0, State::Closed),
            Fail(3600.0, 503),
            See(3600.0, State::Open),
            Through(3629.9, 5, 0),
        ],
    );
}

#[test]
fn breaker_page_configuration() {
    run(
        "threshold and open time can be set",
        &Policy {
            base_cooldown: Duration::from_secs(60),
            max_cooldown: Duration::from_secs(60),
            trip: Trip {
                consecutive_n: 3,
                ..presets::rolter().trip
            },
            ..presets::rolter()
        },
        &after(
            failures(3, 0.0, 500),
            &[
                See(0.0, State::Open),
                Through(59.9, 5, 0),
                Through(60.0, 5, 1),
            ],
        ),
    );
    run(
        "switched off it does nothing",
        &Policy {
            mode: Mode::Off,
            ..presets::rolter()
        },
        &after(
            failures(50, 0.0, 500),
            &[See(0.0, State::Closed), Picked(0.0, Pick::Yes)],
        ),
    );
}
