//! What reports say of pools.

use super::*;
use lanekeeper_model::{AttemptCounts, LaneUsability, PoolReport, UnusableReason};
use serde_json::json;

/// A pool that lacks the key of one lane, and answered so many requests well.
fn pool(name: &str, lane: &str, ok: u64) -> PoolReport {
    let mut pool = PoolReport::default();
    pool.usability.pool = name.into();
    (pool.usability.members, pool.usability.usable) = (2, 1);
    pool.usability.unusable = vec![LaneUsability {
        lane: lane.into(),
        reasons: [UnusableReason::MissingKey].into_iter().collect(),
    }];
    pool.traffic.totals.requests.ok = ok;
    let attempts = AttemptCounts {
        success: ok,
        ..AttemptCounts::default()
    };
    if ok > 0 {
        pool.traffic.attempts = vec![("opus".into(), attempts)];
    }
    pool
}

fn with_pools(seq: u64, pools: Vec<PoolReport>) -> Report {
    Report {
        pools,
        pools_over_ms: 9_500,
        ..report(seq, Vec::new())
    }
}

/// A revision whose document names the pool `chat` and two lanes.
fn named_target(revision: u64) -> Option<Arc<Target>> {
    let document = json!({"pools": {"chat": {}}, "models": {"sonnet": {}, "opus": {}}});
    let target = target(revision)?;
    Some(Arc::new(Target {
        revision,
        hash: target.hash.clone(),
        document: target.document.clone(),
        names: crate::session::pools::DocumentNames::of(&document),
    }))
}

fn is_notable(effects: &[Effect]) -> bool {
    effects.contains(&Effect::Record { notable: true })
}

/// The pools whose traffic was taken.
fn traffic(effects: &[Effect]) -> Vec<(&str, u64)> {
    let taken = effects.iter().find_map(|effect| match effect {
        Effect::Traffic { pools, over } => {
            assert_eq!(*over, Duration::from_millis(9_500));
            Some(pools)
        }
        _ => None,
    });
    let pools = taken.into_iter().flatten();
    pools
        .map(|(pool, traffic)| (pool.as_str(), traffic.totals.requests.ok))
        .collect()
}

#[test]
fn usability_is_kept_until_the_next_report_and_traffic_is_taken_once() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(applied(3, Some(EPOCH))), named_target(3));
    let first = with_pools(1, vec![pool("chat", "sonnet", 40)]);
    let effects = bench.report(&mut session, first.clone());
    assert_eq!(traffic(&effects), [("chat", 40)]);
    assert_eq!(
        session.record().pools,
        [pool("chat", "sonnet", 0).usability]
    );

    let effects = bench.report(&mut session, first);
    assert_eq!(traffic(&effects), [], "the same report once more");

    let effects = bench.report(&mut session, with_pools(2, vec![pool("chat", "sonnet", 0)]));
    assert!(!is_notable(&effects), "nothing new to a person");
    assert_eq!(traffic(&effects), []);
    let effects = bench.report(&mut session, with_pools(3, Vec::new()));
    assert!(is_notable(&effects), "the key has come");
    assert_eq!(session.record().pools, []);
}

#[test]
fn answer_to_a_push_says_what_the_new_revision_lacks_before_any_report() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(applied(3, Some(EPOCH))), named_target(3));
    bench.report(&mut session, with_pools(1, vec![pool("chat", "sonnet", 0)]));
    session.set_target(named_target(4), bench.at(2));
    let lacks = |lane: &str| pool("chat", lane, 0).usability;
    let result = ConfigResult {
        pools: vec![lacks("opus"), pool("made-up", "opus", 0).usability],
        ..ack(1, 4)
    };
    let message = Ok(FromAgent::ConfigResult(result));
    session.receive(message, bench.at(3), 1_003_000).unwrap();
    assert_eq!(session.record().applied_revision, 4);
    assert_eq!(session.record().pools, [lacks("opus")]);
}

#[test]
fn report_is_held_to_the_document_that_the_agent_serves() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(applied(3, Some(EPOCH))), named_target(3));
    let lying = vec![
        pool("chat", "sonnet", 1),
        pool("made-up", "sonnet", 1_000),
        pool("chat", "made-up", 2),
    ];
    let effects = bench.report(&mut session, with_pools(1, lying));
    assert_eq!(traffic(&effects), [("chat", 1), ("chat", 2)]);
    let record = session.record();
    assert!(record.pools.iter().all(|pool| pool.pool == *"chat"));
    assert_eq!(record.problems.len(), 1, "{:?}", record.problems);
    assert!(record.problems[0].contains("revision does not have"));
}

#[test]
fn names_of_a_revision_that_is_not_known_here_are_taken_as_they_are() {
    let bench = bench();
    let (mut session, _) = bench.open(hello(applied(2, Some(EPOCH))), named_target(3));
    let effects = bench.report(&mut session, with_pools(1, vec![pool("old", "gone", 4)]));
    assert_eq!(traffic(&effects), [("old", 4)]);
    assert_eq!(session.record().problems, [""; 0]);
}
