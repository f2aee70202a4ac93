//! Each preset against the sentences of the gateway it reproduces.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is a failed test"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use lanekeeper_breaker::{
    Admission, Cause, CauseKind, Cell, Outcome, Policy, State, StreamDeath, Ticket, presets,
};

/// What a row does, in seconds since the row began.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// An attempt that fails with this status at that second.
    Fail(f64, u16),
    /// As `Fail`, with a Retry-After.
    FailAsking(f64, u16, u64),
    /// An attempt that succeeds.
    Succeed(f64),
    /// Streams its first content and then breaks.
    DieLate(f64),
    /// The state that must be seen.
    See(f64, State),
    /// How many of this many attempts at once are let through; they are abandoned.
    Through(f64, usize, usize),
    /// That many probes at once, all of which succeed.
    Probes(f64, usize),
}

use Step::{DieLate, Fail, FailAsking, Probes, See, Succeed, Through};

const LEASE: Duration = Duration::from_secs(10);

fn outcome(policy: &Policy, status: u16, retry_after: Option<u64>) -> Outcome {
    // The ruling of a status list is the policy's; without one, these rows use failures only.
    if policy.status_is_failure(Some(status)) == Some(false) {
        return Outcome::Neutral;
    }
    Outcome::Transient {
        cause: Cause::with_status(CauseKind::Status, status),
        retry_after: retry_after.map(Duration::from_secs),
    }
}

fn let_through(cell: &mut Cell, now: Instant) -> Option<Ticket> {
    match cell.admit(now, LEASE) {
        Admission::Pass(ticket) | Admission::Probe(ticket, _) => Some(ticket),
        Admission::Refuse(_) => None,
    }
}

fn run(sentence: &str, policy: &Policy, steps: &[Step]) {
    #[expect(clippy::disallowed_methods, reason = "any moment will do as the first")]
    let start = Instant::now();
    let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
    let mut cell = Cell::new(Arc::new(policy.clone()), start);
    for step in steps {
        let place = format!("{sentence}: {step:?}");
        let mut attempt = |seconds: f64, outcome: Outcome, commit: bool| {
            let now = at(seconds);
            let mut ticket = let_through(&mut cell, now).expect(&place);
            if commit {
                cell.commit(&mut ticket, now);
            }
            cell.settle(ticket, outcome, now, 0.5);
        };
        match *step {
            Fail(when, status) => attempt(when, outcome(policy, status, None), false),
            FailAsking(when, status, secs) => {
                attempt(when, outcome(policy, status, Some(secs)), false);
            }
            Succeed(when) => attempt(when, Outcome::Success, true),
            DieLate(when) => {
                let died = match policy.stream_death {
                    StreamDeath::Failure => outcome(policy, 500, None),
                    StreamDeath::Neutral => Outcome::Neutral,
                };
                attempt(when, died, true);
            }
            See(when, state) => assert_eq!(cell.view(at(when)).state, state, "{place}"),
            Through(when, asked, through) => {
                let tickets: Vec<_> = (0..asked)
                    .filter_map(|_| let_through(&mut cell, at(when)))
                    .collect();
                assert_eq!(tickets.len(), through, "{place}");
                for ticket in tickets {
                    cell.abandon(ticket, at(when));
                }
            }
            Probes(when, count) => {
                let tickets: Vec<_> = (0..count)
                    .filter_map(|_| let_through(&mut cell, at(when)))
                    .collect();
                assert_eq!(tickets.len(), count, "{place}");
                for ticket in tickets {
                    cell.settle(ticket, Outcome::Success, at(when), 0.5);
                }
            }
        }
    }
}

fn failures(count: usize, when: f64, status: u16) -> Vec<Step> {
    vec![Fail(when, status); count]
}

fn after(mut first: Vec<Step>, then: &[Step]) -> Vec<Step> {
    first.extend_from_slice(then);
    first
}

#[test]
fn every_preset_is_within_its_own_bounds_and_found_by_its_name() {
    for name in presets::NAMES {
        let policy = presets::by_name(name).expect(name);
        assert_eq!(policy.problems(), [], "{name}");
    }
    assert_eq!(presets::by_name("nonesuch"), None);
}

#[test]
fn default_preset_keeps_its_sentences() {
    let policy = &Policy {
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        ..presets::default()
    };
    run(
        "trips at a 50 % error rate in the sliding window",
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
        ],
    );
    run(
        "never trips on fewer than 5 outcomes in the window",
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
        "the first cooldown is 15 s, then exactly one request is the probe",
        policy,
        &after(
            failures(5, 0.0, 529),
            &[Through(14.9, 9, 0), Through(15.0, 9, 1)],
        ),
    );
    run(
        "a failed probe escalates the cooldown, a good one clears streak and window",
        policy,
        &after(
            failures(5, 0.0, 500),
            &[
                Fail(15.0, 500),
                Through(44.9, 9, 0),
                Succeed(45.0),
                See(45.0, State::Closed),
                Fail(46.0, 500),
                See(46.0, State::Closed),
            ],
        ),
    );
    run(
        "a server that says 90 s is obeyed beyond the maximum",
        &Policy {
            max_cooldown: Duration::from_secs(60),
            ..policy.clone()
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
        "a burst of successes after a burst of failures brings the rate down",
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
}

#[test]
fn rolter_preset_keeps_its_sentences() {
    let policy = &presets::rolter();
    run(
        "trips after five consecutive failures, not after four and a success",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[Succeed(0.0), See(0.0, State::Closed)],
        ),
    );
    run(
        "skipped entirely while open, then the next request is the only probe",
        policy,
        &after(
            failures(5, 0.0, 429),
            &[
                See(0.0, State::Open),
                Through(29.9, 5, 0),
                Through(30.0, 5, 1),
            ],
        ),
    );
    run(
        "another failure re-opens it for the same time again",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[
                Fail(30.0, 502),
                Through(59.9, 5, 0),
                Fail(60.0, 502),
                Through(90.0, 5, 1),
            ],
        ),
    );
    run(
        "a successful response closes the breaker",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[Succeed(30.0), See(30.0, State::Closed), Through(30.0, 5, 5)],
        ),
    );
    run(
        "each single failure parks the target",
        policy,
        &[
            FailAsking(0.0, 429, 8),
            Through(7.9, 5, 0),
            Through(8.0, 5, 5),
        ],
    );
    assert_eq!(policy.park, Duration::from_secs(5));
}

#[test]
fn myra_preset_keeps_its_sentences() {
    let policy = &presets::myra();
    run(
        "five failures within the window open it",
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
        "failures accumulate for up to twice the window and then reset in one step",
        policy,
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
        "only the listed statuses count",
        policy,
        &after(failures(20, 0.0, 429), &[See(0.0, State::Closed)]),
    );
    run(
        "a success clears the failure count",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[Succeed(1.0), Fail(2.0, 500), See(2.0, State::Closed)],
        ),
    );
    run(
        "a stream that broke mid-flight is neither a success nor a failure",
        policy,
        &after(
            failures(4, 0.0, 500),
            &[
                DieLate(1.0),
                DieLate(1.0),
                See(1.0, State::Closed),
                Fail(2.0, 500),
                See(2.0, State::Open),
            ],
        ),
    );
    run(
        "every request is admitted in half-open; the first delivered answer closes",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[
                Through(29.9, 50, 0),
                Through(30.0, 50, 50),
                Succeed(30.0),
                See(30.0, State::Closed),
            ],
        ),
    );
    run(
        "the first failure in half-open re-opens it and restarts the cooldown",
        policy,
        &after(
            failures(5, 0.0, 502),
            &[
                Fail(31.0, 500),
                See(31.0, State::Open),
                Through(60.9, 5, 0),
                Through(61.0, 5, 5),
            ],
        ),
    );
    assert_eq!(
        policy.status_is_failure(None),
        Some(true),
        "connection errors always count"
    );
    let transport_only = Policy {
        failure_status_codes: Some(Vec::new()),
        ..policy.clone()
    };
    assert_eq!(transport_only.status_is_failure(Some(500)), Some(false));
    assert_eq!(transport_only.status_is_failure(None), Some(true));
}

#[test]
fn aibridge_preset_keeps_its_sentences() {
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
        ],
    );
    run(
        "other statuses do not trip",
        policy,
        &after(failures(20, 0.0, 500), &[See(0.0, State::Closed)]),
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
        "three requests are allowed in half-open",
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
        "any failure in half-open opens it again",
        policy,
        &after(
            failures(5, 0.0, 503),
            &[
                Probes(30.0, 2),
                Fail(31.0, 503),
                See(31.0, State::Open),
                Through(60.9, 9, 0),
                Through(61.0, 9, 3),
            ],
        ),
    );
    assert!(policy.per_endpoint);
}
