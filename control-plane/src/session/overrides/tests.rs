//! What is sent when, and what an answer means.

use lanekeeper_model::{ActiveOverride, OverrideAction};
use lanekeeper_proto::message::RefusedOverride;

use super::*;

struct Bench {
    start: Instant,
    overrides: SessionOverrides,
    held: HeldOverrides,
}

#[expect(clippy::disallowed_methods, reason = "an origin to count from")]
fn bench(active: Option<ActiveOverrides>) -> Bench {
    Bench {
        start: Instant::now(),
        overrides: SessionOverrides::new(active.map(Arc::new)),
        held: HeldOverrides::default(),
    }
}

impl Bench {
    fn next(&mut self, secs: u64) -> Option<(u64, Vec<String>)> {
        let labels = BTreeMap::from([("zone".to_owned(), "b".to_owned())]);
        let now = self.start + Duration::from_secs(secs);
        let overrides = self.overrides.next(&labels, now, secs * 1000)?;
        let ids = overrides.entries.into_iter().map(|order| order.id);
        Some((overrides.generation, ids.collect()))
    }

    fn set(&mut self, active: ActiveOverrides) {
        self.overrides.replace(Some(Arc::new(active)));
    }

    fn answer(&mut self, generation: u64, applied: &[&str], secs: u64) -> Option<Obeyed> {
        let result = OverridesResult {
            generation,
            applied: applied.iter().map(|id| (*id).to_owned()).collect(),
            refused: Vec::new(),
        };
        let now = self.start + Duration::from_secs(secs);
        self.overrides
            .answered(result, &mut self.held, now, secs * 1000)
    }
}

fn order(id: &str, zone: Option<&str>, expires_ms: u64) -> ActiveOverride {
    ActiveOverride {
        id: id.to_owned(),
        number: 1,
        action: OverrideAction::ForceOpen,
        pool: None,
        lane: "fast".into(),
        provider: None,
        agents: zone
            .map(|zone| ("zone".to_owned(), zone.to_owned()))
            .into_iter()
            .collect(),
        expires_ms,
    }
}

fn active(generation: u64, overrides: &[ActiveOverride]) -> ActiveOverrides {
    ActiveOverrides {
        generation,
        overrides: overrides.to_vec(),
    }
}

fn told(generation: u64, ids: &[&str]) -> Option<(u64, Vec<String>)> {
    Some((generation, ids.iter().map(|id| (*id).to_owned()).collect()))
}

#[test]
fn nothing_is_sent_before_the_orders_were_read() {
    let mut bench = bench(None);
    assert_eq!(bench.next(0), None);
    bench.set(active(0, &[]));
    assert_eq!(bench.next(0), told(0, &[]), "an empty set ends older ones");
    assert_eq!(bench.next(1), None);
}

#[test]
fn set_is_what_stands_for_the_agents_labels() {
    let overrides = [
        order("all", None, 90_000),
        order("here", Some("b"), 90_000),
        order("elsewhere", Some("a"), 90_000),
        order("over", None, 1_000),
    ];
    let mut bench = bench(Some(active(4, &overrides)));
    assert_eq!(bench.next(1), told(4, &["all", "here"]));
}

#[test]
fn one_set_is_unanswered_at_a_time_and_the_newest_waits() {
    let a = order("a", None, 90_000);
    let mut bench = bench(Some(active(1, std::slice::from_ref(&a))));
    assert_eq!(bench.next(0), told(1, &["a"]));
    for generation in 2..9 {
        bench.set(active(generation, &[]));
        assert_eq!(bench.next(1), None);
    }
    assert_eq!(
        bench.answer(7, &[], 2),
        None,
        "no answer to what was not sent"
    );
    let obeyed = bench.answer(1, &["a"], 2).unwrap();
    assert_eq!(obeyed.took, Some(Duration::from_secs(2)));
    assert_eq!(bench.next(2), told(8, &[]));
}

#[test]
fn unanswered_set_does_not_hold_up_the_next_for_ever() {
    let mut bench = bench(Some(active(1, &[])));
    assert_eq!(bench.next(0), told(1, &[]));
    bench.set(active(2, &[order("a", None, 90_000)]));
    assert_eq!(bench.next(9), None);
    assert_eq!(bench.next(10), told(2, &["a"]));
}

#[test]
fn change_that_does_not_concern_the_agent_is_not_told() {
    let a = order("a", None, 90_000);
    let mut bench = bench(Some(active(1, std::slice::from_ref(&a))));
    assert_eq!(bench.next(0), told(1, &["a"]));
    bench.answer(1, &["a"], 0);
    bench.set(active(2, &[a, order("elsewhere", Some("a"), 90_000)]));
    assert_eq!(bench.next(1), None);
    bench.set(active(3, &[]));
    assert_eq!(bench.next(1), told(3, &[]));
}

#[test]
fn order_keeps_the_time_of_its_first_acknowledgement() {
    let a = order("a", None, 90_000);
    let mut bench = bench(Some(active(1, std::slice::from_ref(&a))));
    bench.next(0);
    assert!(bench.answer(1, &["a"], 1).unwrap().changed);
    bench.set(active(2, &[a, order("b", None, 90_000)]));
    bench.next(5);
    assert!(bench.answer(2, &["a", "b"], 6).unwrap().changed);
    assert_eq!(
        bench.held.applied,
        BTreeMap::from([("a".to_owned(), 1_000), ("b".to_owned(), 6_000)])
    );
    assert_eq!(bench.held.generation, 2);
    let again = bench.answer(2, &["a", "b"], 7).unwrap();
    assert_eq!((again.took, again.changed), (None, false));
}

#[test]
fn agent_speaks_only_of_orders_it_was_given() {
    let mut bench = bench(Some(active(1, &[order("a", None, 90_000)])));
    bench.next(0);
    let refused = |id: &str| RefusedOverride {
        id: id.to_owned(),
        reason: "no such cell".to_owned(),
    };
    let result = OverridesResult {
        generation: 1,
        applied: vec!["made-up".to_owned()],
        refused: vec![refused("a"), refused("made-up-too")],
    };
    let now = bench.start;
    bench.overrides.answered(result, &mut bench.held, now, 0);
    assert!(bench.held.applied.is_empty());
    assert_eq!(bench.held.refused.keys().collect::<Vec<_>>(), ["a"]);
}
