use super::*;
use lanekeeper_breaker::{Trip, TripMode, presets};

fn line(at_ms: u64, outcome: Recorded) -> JournalLine {
    JournalLine {
        pool: "chat".into(),
        lane: "a".into(),
        endpoint: None,
        at_ms,
        outcome,
        cause: (outcome != Recorded::Success).then(|| "status".to_owned()),
        status: (outcome != Recorded::Success).then_some(503),
        retry_after_ms: None,
        took_ms: 100,
    }
}

/// A call a second: good for a minute, dead for a minute, good for two.
fn outage() -> Vec<JournalLine> {
    let outcome = |second: u64| match second {
        60..120 => Recorded::Transient,
        _ => Recorded::Success,
    };
    (0..240)
        .map(|second| line(1000 + second * 1000, outcome(second)))
        .collect()
}

fn consecutive(n: u32, cooldown_secs: u64) -> Arc<Policy> {
    Arc::new(Policy {
        base_cooldown: Duration::from_secs(cooldown_secs),
        max_cooldown: Duration::from_secs(cooldown_secs),
        jitter_ratio: 0.0,
        jitter_floor: Duration::ZERO,
        trip: Trip {
            mode: TripMode::Consecutive,
            consecutive_n: n,
            ..Trip::default()
        },
        ..Policy::default()
    })
}

#[expect(clippy::disallowed_methods)]
fn origin() -> Instant {
    Instant::now()
}

#[test]
fn an_outage_is_played_to_the_second() {
    let lines = outage();
    let lines: Vec<&JournalLine> = lines.iter().collect();
    let verdict = replay(&consecutive(3, 10), &lines, origin());
    // Three failures trip; probes at 10 s distance fail until the lane is back.
    assert_eq!(verdict.trips, 1);
    assert_eq!(verdict.failures_let_through, 3 + verdict.probes - 1);
    assert_eq!(verdict.failures_spared, 60 - verdict.failures_let_through);
    let states: Vec<&str> = verdict.steps.iter().map(|step| step.state).collect();
    assert_eq!(states.first(), Some(&"open"));
    assert_eq!(states.last(), Some(&"closed"));
    assert_eq!(verdict.steps[0].at_ms, 63_000);
    assert_eq!(verdict.steps[0].cooldown_secs, Some(10.0));
    assert!(
        verdict.open_secs > 50.0 && verdict.open_secs < 70.0,
        "{verdict:?}"
    );
    assert!(verdict.successes_refused < 10, "{verdict:?}");
    assert_eq!(
        replay(&consecutive(3, 10), &lines, origin()),
        verdict,
        "each time the same"
    );
}

#[test]
fn a_policy_that_never_trips_refuses_nothing() {
    let lines = outage();
    let lines: Vec<&JournalLine> = lines.iter().collect();
    let verdict = replay(&consecutive(1000, 10), &lines, origin());
    assert_eq!((verdict.trips, verdict.failures_let_through), (0, 60));
    assert_eq!((verdict.failures_spared, verdict.successes_refused), (0, 0));
    assert_eq!(verdict.parks, 60);
}

#[test]
fn what_happened_is_told_beside_it() {
    let mut lines = outage();
    lines.push(line(63_000, Recorded::Opened));
    lines.push(line(121_000, Recorded::Closed));
    lines.sort_by_key(|line| line.at_ms);
    let lines: Vec<&JournalLine> = lines.iter().collect();
    let truth = truth(&lines);
    assert_eq!((truth.successes, truth.failures, truth.trips), (180, 60, 1));
    assert_eq!((truth.open_secs, truth.span_secs), (58.0, 239.0));
    assert_eq!(by_cell(&outage()).len(), 1);
}

#[test]
fn suggestions_are_those_that_no_other_beats() {
    let lines = outage();
    let lines: Vec<&JournalLine> = lines.iter().collect();
    let found = suggest(&presets::rolter(), &lines, origin());
    assert_eq!(found.tried.len(), 4 * (4 * 4 * 3 + 5));
    assert!(!found.best.is_empty());
    for best in &found.best {
        let beats = |it: &&Candidate| {
            it.failures_let_through < best.failures_let_through
                && it.successes_refused <= best.successes_refused
        };
        assert!(found.tried.iter().find(beats).is_none(), "{best:?}");
    }
    let recommended = found.recommended().unwrap();
    let sum = recommended.failures_let_through + recommended.successes_refused;
    let today = replay(&Arc::new(presets::rolter()), &lines, origin());
    assert!(sum <= today.failures_let_through + today.successes_refused);
}

#[test]
fn attempts_without_a_length_and_broken_times_are_harmless() {
    let mut lines: Vec<JournalLine> = (0..10).map(|_| line(5, Recorded::Transient)).collect();
    lines.iter_mut().for_each(|line| line.took_ms = 0);
    lines[3].took_ms = u64::MAX;
    lines[4].at_ms = u64::MAX / 2;
    lines[4].retry_after_ms = Some(u64::MAX);
    lines.sort_by_key(|line| line.at_ms);
    let lines: Vec<&JournalLine> = lines.iter().collect();
    let verdict = replay(&consecutive(3, 10), &lines, origin());
    assert!(verdict.trips >= 1);
}
