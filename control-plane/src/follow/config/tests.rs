//! What is read, and what sessions are told of it.

use lanekeeper_model::FreshWindows;
use lanekeeper_model::rollout::{Rollout, RolloutPlan};

use super::*;

fn head(gateway: &str, revision: u64) -> (String, Course) {
    let course = Course {
        revision,
        hash: format!("hash-{revision}"),
        rollout: None,
    };
    (gateway.to_owned(), course)
}

fn revision(gateway: &str, number: u64) -> Revision {
    Revision {
        gateway: gateway.to_owned(),
        number,
        document: serde_json::json!({ "number": number }),
        hash: format!("hash-{number}"),
        author: String::new(),
        message: String::new(),
        created_ms: 0,
        parent: None,
    }
}

fn take(known: &mut Known, courses: &[(String, Course)], restored: bool) {
    known.take_courses(courses.iter().cloned().collect(), restored);
}

fn follow(known: &mut Known, gateway: &str) -> watch::Receiver<Option<Arc<Targets>>> {
    let entry = known.gateways.entry(gateway.to_owned()).or_default();
    entry.targets.subscribe()
}

/// What an agent without labels is to serve.
fn served_by(targets: &watch::Receiver<Option<Arc<Targets>>>, name: &str) -> Option<u64> {
    let targets = targets.borrow();
    let target = targets.as_ref()?.of(name, &BTreeMap::new());
    Some(target.revision)
}

fn served(targets: &watch::Receiver<Option<Arc<Targets>>>) -> Option<u64> {
    served_by(targets, "node")
}

#[test]
fn documents_are_read_only_for_gateways_that_agents_follow() {
    let mut known = Known::default();
    let _target = follow(&mut known, "edge");
    take(&mut known, &[head("edge", 1), head("lab", 1)], false);
    assert_eq!(known.lacking(), [("edge".to_owned(), 1)]);
    known.take_document("edge", revision("edge", 1));
    assert!(known.lacking().is_empty());
}

#[test]
fn followed_gateway_that_comes_later_reaches_its_followers() {
    let mut known = Known::default();
    let target = follow(&mut known, "edge");
    take(&mut known, &[], false);
    assert_eq!(served(&target), None);
    take(&mut known, &[head("edge", 1)], false);
    known.take_document("edge", revision("edge", 1));
    assert_eq!(served(&target), Some(1));
}

#[test]
fn lower_head_within_one_epoch_is_a_lagging_copy() {
    let mut known = Known::default();
    let target = follow(&mut known, "edge");
    take(&mut known, &[head("edge", 5)], false);
    known.take_document("edge", revision("edge", 5));
    take(&mut known, &[head("edge", 3)], false);
    assert!(known.lacking().is_empty());
    known.take_document("edge", revision("edge", 3));
    assert_eq!(served(&target), Some(5));
}

#[test]
fn restored_database_goes_back() {
    let mut known = Known::default();
    let target = follow(&mut known, "edge");
    take(&mut known, &[head("edge", 5)], false);
    known.take_document("edge", revision("edge", 5));
    take(&mut known, &[head("edge", 3)], true);
    assert_eq!(known.lacking(), [("edge".to_owned(), 3)]);
    known.take_document("edge", revision("edge", 3));
    assert_eq!(served(&target), Some(3));
}

#[test]
fn names_nobody_follows_and_nobody_made_are_forgotten() {
    let mut known = Known::default();
    drop(follow(&mut known, "typo"));
    take(&mut known, &[head("edge", 1)], false);
    assert_eq!(known.gateways.keys().collect::<Vec<_>>(), ["edge"]);
}

#[test]
fn document_too_large_to_push_is_read_once() {
    let mut known = Known::default();
    let target = follow(&mut known, "edge");
    take(&mut known, &[head("edge", 1)], false);
    let mut huge = revision("edge", 1);
    huge.document = serde_json::json!("x".repeat(limits::DOCUMENT_BYTES_MAX));
    known.take_document("edge", huge);
    assert!(known.lacking().is_empty());
    assert_eq!(served(&target), None);
}

/// Revision 2 on top of 1, which `everyone` or nobody is to have.
fn rolled_out(everyone: bool) -> (String, Course) {
    let (gateway, mut course) = head("edge", 2);
    let new = lanekeeper_model::rollout::NewRollout {
        gateway: "edge".into(),
        revision: (2, course.hash.clone()),
        base: (1, "hash-1".to_owned()),
        author: String::new(),
        message: String::new(),
        cells_per_agent: 1,
    };
    let mut rollout = Rollout::new(new, RolloutPlan::AllAtOnce, 0);
    if everyone {
        rollout
            .step(&[agent()], FreshWindows::default(), 1)
            .unwrap();
    }
    course.rollout = Some(rollout);
    (gateway, course)
}

fn agent() -> lanekeeper_model::AgentRecord {
    serde_json::from_value(serde_json::json!({
        "gateway": "edge", "instance": "one", "name": "node", "connected_ms": 1,
    }))
    .unwrap()
}

#[test]
fn both_revisions_of_a_rollout_are_read_and_each_agent_is_told_its_own() {
    let mut known = Known::default();
    let targets = follow(&mut known, "edge");
    take(&mut known, &[rolled_out(false)], false);
    assert_eq!(
        known.lacking(),
        [("edge".to_owned(), 2), ("edge".to_owned(), 1)]
    );
    known.take_document("edge", revision("edge", 2));
    assert_eq!(served(&targets), None, "one document is not enough to tell");
    known.take_document("edge", revision("edge", 1));
    assert_eq!(served(&targets), Some(1));
    take(&mut known, &[rolled_out(true)], false);
    assert_eq!(served(&targets), Some(2));
    assert!(known.lacking().is_empty());
}

#[test]
fn sessions_are_not_woken_by_a_step_that_reaches_nobody_new() {
    let mut known = Known::default();
    let mut targets = follow(&mut known, "edge");
    take(&mut known, &[rolled_out(true)], false);
    known.take_document("edge", revision("edge", 2));
    known.take_document("edge", revision("edge", 1));
    targets.mark_unchanged();
    let (gateway, mut course) = rolled_out(true);
    let rollout = course.rollout.as_mut().unwrap();
    rollout
        .step(&[agent()], FreshWindows::default(), 6_000)
        .unwrap();
    take(&mut known, &[(gateway, course)], false);
    assert!(!targets.has_changed().unwrap());
    assert_eq!(served(&targets), Some(2));
}
