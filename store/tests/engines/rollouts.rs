//! Rollouts: written with their revision, stepped by one of many, superseded and taken back.

use lanekeeper_model::rollout::{RolloutOrder, RolloutPlan, RolloutState, Transition};
use lanekeeper_model::{AgentRecord, FreshWindows};
use lanekeeper_store::{ConfigStore, Error, RolloutStart};
use serde_json::{Value, json};

use crate::stores::{TestStore, change};

on_each_engine! {
    writes_follow_the_plan_of_their_gateway,
    a_newer_write_supersedes_and_keeps_what_was_proven,
    of_drivers_that_saw_the_same_version_one_wins,
    many_drivers_roll_back_once,
    an_operators_order_beats_a_step_in_flight,
    a_newer_write_beats_a_roll_back_in_flight,
    of_contrary_orders_at_one_moment_each_is_taken_once_or_refused,
    rollouts_that_are_over_are_forgotten_by_age_and_by_number,
    a_deleted_gateway_leaves_no_rollout_and_no_plan,
    a_start_that_saw_an_older_revision_writes_nothing,
}

fn staged() -> RolloutPlan {
    let plan = json!({"strategy": "staged", "hold_secs": 0, "auto_rollback": true});
    RolloutPlan::check(&plan).unwrap()
}

fn document(number: u64) -> (Value, String) {
    (json!({ "number": number }), format!("hash-{number}"))
}

/// A gateway with one revision, whose writes are rolled out in stages.
async fn prepare(store: &ConfigStore) {
    let (document, hash) = document(1);
    store
        .create_gateway("edge", &document, &hash, &change("ann", 1))
        .await
        .unwrap();
    store
        .put_rollout_plan("edge", &staged(), &change("ann", 1))
        .await
        .unwrap();
}

async fn write(store: &ConfigStore, number: u64) {
    let (document, hash) = document(number);
    let written = store
        .write_revision("edge", None, &document, &hash, &change("ann", 2))
        .await
        .unwrap();
    assert_eq!(written.number, number);
}

fn agent() -> AgentRecord {
    serde_json::from_value(json!({
        "gateway": "edge", "instance": "one", "name": "node", "connected_ms": 1,
        "last_error": {"revision": 2, "errors": []},
    }))
    .unwrap()
}

async fn writes_follow_the_plan_of_their_gateway(test: TestStore) {
    let store = &test.store;
    assert_eq!(store.rollout_plan("edge").await.unwrap(), None);
    prepare(store).await;
    assert_eq!(store.rollout_plan("edge").await.unwrap(), Some(staged()));
    let course = store.courses().await.unwrap().remove("edge").unwrap();
    assert_eq!((course.revision, course.rollout), (1, None));

    write(store, 2).await;
    let course = store.courses().await.unwrap().remove("edge").unwrap();
    let rollout = course.rollout.unwrap();
    assert_eq!((course.revision, rollout.revision, rollout.base), (2, 2, 1));
    assert_eq!(rollout.base_hash, "hash-1");
    assert_eq!(rollout.plan, staged());
    assert_eq!(store.running_rollouts().await.unwrap()[0].rollout, rollout);

    let at_once = RolloutPlan::AllAtOnce;
    store
        .put_rollout_plan("edge", &at_once, &change("ann", 3))
        .await
        .unwrap();
    write(store, 3).await;
    let course = store.courses().await.unwrap().remove("edge").unwrap();
    assert_eq!((course.revision, course.rollout), (3, None));
    let verdict = store.verify_audit().await.unwrap();
    assert_eq!((verdict.entries, verdict.fault), (5, None), "one per write");
}

async fn a_newer_write_supersedes_and_keeps_what_was_proven(test: TestStore) {
    let store = &test.store;
    prepare(store).await;
    write(store, 2).await;
    write(store, 3).await;
    let superseded = store.rollout("edge", 2).await.unwrap().rollout;
    assert_eq!(superseded.state, RolloutState::Superseded);
    let current = store.rollout("edge", 3).await.unwrap().rollout;
    assert_eq!((current.base, current.state), (1, RolloutState::Running));
    let listed = store.rollouts("edge", None, 10).await.unwrap();
    let numbers: Vec<u64> = listed.iter().map(|it| it.rollout.revision).collect();
    assert_eq!(numbers, [3, 2]);
    let older = store.rollouts("edge", Some(3), 10).await.unwrap();
    assert_eq!(older.len(), 1);
}

async fn of_drivers_that_saw_the_same_version_one_wins(test: TestStore) {
    prepare(&test.store).await;
    write(&test.store, 2).await;
    let seen = test.store.rollout("edge", 2).await.unwrap();
    let mut drivers = Vec::new();
    for number in 0..8 {
        let store = if number % 2 == 0 {
            test.store.clone()
        } else {
            test.another().await
        };
        let stored = seen.clone();
        drivers.push(tokio::spawn(async move {
            let mut rollout = stored.rollout;
            let mut agent = agent();
            agent.last_error = None;
            let transition = rollout.step(&[agent], FreshWindows::default(), 2);
            assert_eq!(transition, Some(Transition::Began { stage: 0 }));
            store
                .advance_rollout(
                    &rollout,
                    stored.version,
                    Some("rollout.advance"),
                    &change("rollout", 2),
                )
                .await
                .unwrap()
        }));
    }
    let mut won = 0;
    for driver in drivers {
        won += u32::from(driver.await.unwrap());
    }
    assert_eq!(won, 1);
    let stored = test.store.rollout("edge", 2).await.unwrap();
    assert_eq!((stored.version, stored.rollout.stages_begun()), (2, 1));
}

async fn many_drivers_roll_back_once(test: TestStore) {
    prepare(&test.store).await;
    write(&test.store, 2).await;
    let stored = test.store.rollout("edge", 2).await.unwrap();
    let mut rollout = stored.rollout;
    rollout.step(&[agent()], FreshWindows::default(), 2);
    let transition = rollout.step(&[agent()], FreshWindows::default(), 3);
    assert_eq!(transition, Some(Transition::Stopped { roll_back: true }));
    let drivers: Vec<_> = (0..8)
        .map(|_| {
            let (store, rollout) = (test.store.clone(), rollout.clone());
            tokio::spawn(async move {
                store
                    .revert_rollout(&rollout, 1, &change("rollout", 3))
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut won = 0;
    for driver in drivers {
        won += u32::from(driver.await.unwrap());
    }
    assert_eq!(won, 1);
    let current = test.store.current("edge").await.unwrap().unwrap();
    assert_eq!((current.number, current.hash.as_str()), (3, "hash-1"));
    assert_eq!(current.document, document(1).0);
    assert_eq!(current.author, "rollout");
    let rollout = test.store.rollout("edge", 2).await.unwrap().rollout;
    assert_eq!(rollout.state, RolloutState::RolledBack);
    assert_eq!(rollout.rollback_revision, Some(3));
    let course = test.store.courses().await.unwrap().remove("edge").unwrap();
    assert_eq!(course.rollout, None, "the old content goes to everyone");
}

async fn an_operators_order_beats_a_step_in_flight(test: TestStore) {
    let store = &test.store;
    prepare(store).await;
    write(store, 2).await;
    let seen = store.rollout("edge", 2).await.unwrap();
    let paused = store
        .order_rollout("edge", 2, RolloutOrder::Pause, &change("ann", 3))
        .await
        .unwrap();
    assert_eq!(paused.rollout.state, RolloutState::Paused);
    let written = store
        .advance_rollout(&seen.rollout, seen.version, None, &change("rollout", 3))
        .await
        .unwrap();
    assert!(!written);
    let again = store
        .order_rollout("edge", 2, RolloutOrder::Pause, &change("ann", 3))
        .await
        .unwrap_err();
    assert!(
        matches!(again, Error::RolloutState { state: "paused" }),
        "{again:?}"
    );
    let aborted = store
        .abort_rollout("edge", 2, &change("ann", 4))
        .await
        .unwrap();
    assert_eq!(aborted.rollout.rollback_revision, Some(3));
    assert_eq!(aborted.version, 3);
    let again = store
        .abort_rollout("edge", 2, &change("ann", 4))
        .await
        .unwrap_err();
    assert!(matches!(again, Error::RolloutState { .. }), "{again:?}");
    let missing = store.rollout("edge", 9).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing:?}");
}

async fn a_newer_write_beats_a_roll_back_in_flight(test: TestStore) {
    let store = &test.store;
    prepare(store).await;
    write(store, 2).await;
    let seen = store.rollout("edge", 2).await.unwrap();
    let mut rollout = seen.rollout;
    rollout.step(&[agent()], FreshWindows::default(), 2);
    let transition = rollout.step(&[agent()], FreshWindows::default(), 3);
    assert_eq!(transition, Some(Transition::Stopped { roll_back: true }));
    write(store, 3).await;
    let reverted = store
        .revert_rollout(&rollout, seen.version, &change("rollout", 4))
        .await
        .unwrap();
    assert!(
        !reverted,
        "the old content must not replace what came after"
    );
    let current = store.current("edge").await.unwrap().unwrap();
    assert_eq!((current.number, current.hash.as_str()), (3, "hash-3"));
    let older = store.rollout("edge", 2).await.unwrap().rollout;
    assert_eq!(older.state, RolloutState::Superseded);
    let newer = store.rollout("edge", 3).await.unwrap().rollout;
    assert_eq!((newer.state, newer.base), (RolloutState::Running, 1));
}

async fn of_contrary_orders_at_one_moment_each_is_taken_once_or_refused(test: TestStore) {
    prepare(&test.store).await;
    write(&test.store, 2).await;
    let mut orders = Vec::new();
    for number in 0..12 {
        let store = if number % 2 == 0 {
            test.store.clone()
        } else {
            test.another().await
        };
        orders.push(tokio::spawn(async move {
            let by = change("ann", 3);
            let given = match number % 4 {
                0 => {
                    store
                        .order_rollout("edge", 2, RolloutOrder::Pause, &by)
                        .await
                }
                1 => {
                    store
                        .order_rollout("edge", 2, RolloutOrder::Resume, &by)
                        .await
                }
                2 => {
                    store
                        .order_rollout("edge", 2, RolloutOrder::Stop, &by)
                        .await
                }
                _ => store.abort_rollout("edge", 2, &by).await,
            };
            match given {
                Ok(stored) => Some(stored.version),
                Err(Error::RolloutState { .. }) => None,
                Err(other) => panic!("{other:?}"),
            }
        }));
    }
    let mut versions = Vec::new();
    for order in orders {
        versions.extend(order.await.unwrap());
    }
    versions.sort_unstable();
    let taken: Vec<u64> = (2..).take(versions.len()).collect();
    assert_eq!(
        versions, taken,
        "each order was given on top of the one before"
    );
    let rollout = test.store.rollout("edge", 2).await.unwrap().rollout;
    assert_eq!(rollout.state, RolloutState::RolledBack);
    let current = test.store.current("edge").await.unwrap().unwrap();
    assert_eq!((current.number, current.hash.as_str()), (3, "hash-1"));
    let verdict = test.store.verify_audit().await.unwrap();
    let rows = 3 + versions.len() as u64;
    assert_eq!((verdict.entries, verdict.fault), (rows, None));
}

async fn rollouts_that_are_over_are_forgotten_by_age_and_by_number(test: TestStore) {
    let store = &test.store;
    prepare(store).await;
    for number in 2..=7 {
        write(store, number).await;
    }
    let numbers = async || -> Vec<u64> {
        let listed = store.rollouts("edge", None, 10).await.unwrap();
        listed.iter().map(|it| it.rollout.revision).collect()
    };
    assert_eq!(store.prune_rollouts(0, 5).await.unwrap(), 0);
    assert_eq!(numbers().await, [7, 6, 5, 4, 3, 2]);
    assert_eq!(store.prune_rollouts(0, 3).await.unwrap(), 2);
    assert_eq!(numbers().await, [7, 6, 5, 4]);
    assert_eq!(store.prune_rollouts(3, 3).await.unwrap(), 3);
    assert_eq!(
        numbers().await,
        [7],
        "one that goes on is kept, however old"
    );
    let current = store.rollout("edge", 7).await.unwrap().rollout;
    assert_eq!((current.state, current.base), (RolloutState::Running, 1));
}

async fn a_deleted_gateway_leaves_no_rollout_and_no_plan(test: TestStore) {
    let store = &test.store;
    prepare(store).await;
    write(store, 2).await;
    store
        .delete_gateway("edge", None, &change("ann", 3))
        .await
        .unwrap();
    assert!(store.running_rollouts().await.unwrap().is_empty());
    let gone = store.rollout("edge", 2).await.unwrap_err();
    assert!(matches!(gone, Error::NotFound { .. }), "{gone:?}");
    let (document, hash) = document(3);
    let created = store
        .create_gateway("edge", &document, &hash, &change("ann", 4))
        .await
        .unwrap();
    assert_eq!(created.number, 3);
    let plan = store.rollout_plan("edge").await.unwrap();
    assert_eq!(plan, Some(RolloutPlan::AllAtOnce));
    let inherited = store.rollouts("edge", None, 10).await.unwrap();
    assert!(inherited.is_empty(), "{inherited:?}");
    let course = store.courses().await.unwrap().remove("edge").unwrap();
    assert_eq!(course.rollout, None);
}

async fn a_start_that_saw_an_older_revision_writes_nothing(test: TestStore) {
    let store = &test.store;
    prepare(store).await;
    let (document, hash) = document(2);
    let start = |plan| RolloutStart {
        document: &document,
        hash: &hash,
        plan,
    };
    let at_once = RolloutPlan::AllAtOnce;
    let stale = store
        .start_rollout("edge", Some(7), start(Some(&at_once)), &change("ann", 2))
        .await
        .unwrap_err();
    assert!(matches!(stale, Error::Conflict { current: 1 }), "{stale:?}");
    let missing = store
        .start_rollout("none", None, start(None), &change("ann", 2))
        .await
        .unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing:?}");
    assert!(store.running_rollouts().await.unwrap().is_empty());

    let started = store
        .start_rollout("edge", Some(1), start(Some(&at_once)), &change("ann", 2))
        .await
        .unwrap();
    assert_eq!(
        started.rollout.plan, at_once,
        "its own plan, not the gateway's"
    );
    assert_eq!(store.rollout_plan("edge").await.unwrap(), Some(staged()));
    let entry = &store.audit_latest(None, 1).await.unwrap()[0];
    assert_eq!(entry.action, "rollout.start");
}
