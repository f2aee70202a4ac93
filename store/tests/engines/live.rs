//! The live view.

use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::AgentRecord;
use lanekeeper_model::lease::{LeaseKey, Leased, ProbeVerdict, ProbedLane};
use lanekeeper_model::traffic::ReplicaTraffic;
use lanekeeper_store::testing::{RedisServer, eventually};
use lanekeeper_store::{
    Changes, Cursor, Hint, LiveView, Put, RECORD_TTL, RedisLive, RedisLiveOptions, SHARE_OVERDUE,
    Share,
};
use serde_json::json;

pub(crate) fn record(gateway: &str, instance: &str, session_epoch: u64, seq: u64) -> AgentRecord {
    let record = json!({
        "gateway": gateway,
        "instance": instance,
        "name": "node-7",
        "labels": { "zone": "b" },
        "version": "0.1.0",
        "session_epoch": session_epoch,
        "seq": seq,
        "report_received_ms": 2,
        "applied_revision": 3,
        "applied_hash": "h3",
        "clock_skew_ms": -4,
        "cells": [{
            "pool": "chat", "lane": "sonnet", "provider": "main",
            "state": "open", "state_age_ms": 5, "trips": 8,
        }],
    });
    serde_json::from_value(record).unwrap()
}

on_each_view! {
    what_was_put_is_read_elsewhere(RECORD_TTL),
    an_older_report_never_replaces_a_newer_one(RECORD_TTL),
    racing_replicas_end_with_the_newest(RECORD_TTL),
    an_acknowledgement_joins_the_latest_report(RECORD_TTL),
    a_silent_agent_disappears_after_the_time_to_live(Duration::from_millis(300)),
    a_forgotten_agent_is_gone_and_may_return(RECORD_TTL),
    hints_reach_every_replica(RECORD_TTL),
    large_fleets_are_read_whole(RECORD_TTL),
    news_are_what_changed_since(RECORD_TTL),
    a_forgotten_agent_is_news(RECORD_TTL),
    a_later_session_is_told_from_an_earlier_one(RECORD_TTL),
    traffic_of_each_replica_is_read_elsewhere(RECORD_TTL),
    one_replica_s_agent_probes_for_all(RECORD_TTL),
    a_lease_ends_by_itself_and_late_verdicts_are_not_passed_on(RECORD_TTL),
}

async fn what_was_put_is_read_elsewhere(one: Arc<dyn LiveView>, other: Arc<dyn LiveView>) {
    let stored = [
        record("core", "i-9", 1, 1),
        record("edge", "i-1", 1, 1),
        record("edge", "i-2", u64::MAX, u64::MAX),
    ];
    for record in stored.iter().rev() {
        assert_eq!(
            one.put(Arc::new(record.clone()), 1).await.unwrap(),
            Put::Stored
        );
    }
    assert_eq!(other.records(None).await.unwrap(), stored);
    assert_eq!(other.records(Some("edge")).await.unwrap(), stored[1..]);
    assert!(other.records(Some("none")).await.unwrap().is_empty());
    other.ping().await.unwrap();
}

async fn an_older_report_never_replaces_a_newer_one(
    one: Arc<dyn LiveView>,
    other: Arc<dyn LiveView>,
) {
    // Each step: what is put, and whether it becomes the record. 9 and 10 differ in digits, the
    // last two only in bits that a floating-point number does not have.
    let steps = [
        ((1, 9), Put::Stored),
        ((1, 10), Put::Stored),
        ((1, 9), Put::Older),
        ((2, 1), Put::Stored),
        ((1, 11), Put::Older),
        ((2, 1), Put::Stored),
        ((1 << 60, (1 << 60) + 1), Put::Stored),
        ((1 << 60, 1 << 60), Put::Older),
    ];
    let mut newest = (0, 0);
    for (number, (order, expected)) in steps.into_iter().enumerate() {
        let view = if number % 2 == 0 { &one } else { &other };
        assert_eq!(
            view.put(Arc::new(record("edge", "i-1", order.0, order.1)), 1)
                .await
                .unwrap(),
            expected,
            "step {number}"
        );
        newest = newest.max(order);
        let kept = one.records(Some("edge")).await.unwrap().remove(0);
        assert_eq!((kept.session_epoch, kept.seq), newest, "step {number}");
    }
}

async fn racing_replicas_end_with_the_newest(one: Arc<dyn LiveView>, other: Arc<dyn LiveView>) {
    let puts: Vec<_> = (0..100_u64)
        .map(|seq| {
            let view = if seq % 2 == 0 {
                one.clone()
            } else {
                other.clone()
            };
            // A fixed shuffle: 37 has no factor in common with 100.
            tokio::spawn(async move {
                view.put(Arc::new(record("edge", "i-1", 1, seq * 37 % 100)), 1)
                    .await
                    .unwrap()
            })
        })
        .collect();
    for put in puts {
        put.await.unwrap();
    }
    assert_eq!(
        one.records(None).await.unwrap(),
        [record("edge", "i-1", 1, 99)]
    );
}

async fn an_acknowledgement_joins_the_latest_report(
    one: Arc<dyn LiveView>,
    _other: Arc<dyn LiveView>,
) {
    let report = record("edge", "i-1", 1, 1);
    one.put(Arc::new(report.clone()), 1).await.unwrap();
    let acknowledged = AgentRecord {
        applied_revision: 4,
        ..report
    };
    assert_eq!(
        one.put(Arc::new(acknowledged.clone()), 2).await.unwrap(),
        Put::Stored
    );
    assert_eq!(one.records(None).await.unwrap(), [acknowledged]);
}

async fn a_silent_agent_disappears_after_the_time_to_live(
    one: Arc<dyn LiveView>,
    other: Arc<dyn LiveView>,
) {
    assert_eq!(
        one.put(Arc::new(record("core", "silent", 1, 1)), 0)
            .await
            .unwrap(),
        Put::Stored
    );
    assert_eq!(
        one.put(Arc::new(record("edge", "silent", 1, 1)), 0)
            .await
            .unwrap(),
        Put::Stored
    );
    let now_ms = std::sync::atomic::AtomicU64::new(0);
    eventually(
        "only the talking agent is left",
        Duration::from_secs(10),
        async || {
            let now_ms = now_ms.fetch_add(10, std::sync::atomic::Ordering::Relaxed);
            one.put(Arc::new(record("edge", "talking", 1, now_ms)), now_ms)
                .await
                .unwrap();
            let known = other.records(None).await.unwrap();
            known
                .iter()
                .map(|record| record.instance.as_str())
                .eq(["talking"])
        },
    )
    .await;
}

async fn a_forgotten_agent_is_gone_and_may_return(
    one: Arc<dyn LiveView>,
    other: Arc<dyn LiveView>,
) {
    one.put(Arc::new(record("edge", "i-1", 5, 5)), 1)
        .await
        .unwrap();
    one.put(Arc::new(record("edge", "i-2", 1, 1)), 1)
        .await
        .unwrap();
    other.forget("edge", "i-1").await.unwrap();
    other.forget("edge", "never seen").await.unwrap();
    assert_eq!(
        one.records(None).await.unwrap(),
        [record("edge", "i-2", 1, 1)]
    );
    assert_eq!(
        one.put(Arc::new(record("edge", "i-1", 1, 1)), 2)
            .await
            .unwrap(),
        Put::Stored
    );
}

async fn hints_reach_every_replica(one: Arc<dyn LiveView>, other: Arc<dyn LiveView>) {
    let mut here = one.subscribe();
    let mut there = other.subscribe();
    let hints = [
        Hint::Revision {
            gateway: "edge".into(),
        },
        Hint::Report {
            gateway: "edge".into(),
            instance: "i-1".to_owned(),
        },
        Hint::TokenRevoked,
    ];
    for hint in &hints {
        one.publish(hint.clone()).await.unwrap();
    }
    for hint in hints {
        for subscriber in [&mut here, &mut there] {
            let heard = tokio::time::timeout(Duration::from_secs(5), subscriber.recv()).await;
            assert_eq!(heard.expect("a hint in time").unwrap(), hint);
        }
    }
}

async fn large_fleets_are_read_whole(one: Arc<dyn LiveView>, other: Arc<dyn LiveView>) {
    for number in 0..1200 {
        one.put(Arc::new(record("edge", &format!("i-{number:04}"), 1, 1)), 1)
            .await
            .unwrap();
    }
    let known = other.records(Some("edge")).await.unwrap();
    assert_eq!(known.len(), 1200);
    assert!(known.is_sorted_by(|a, b| a.instance < b.instance));
}

fn instances(changes: &Changes) -> Vec<&str> {
    let mut instances: Vec<&str> = changes
        .records
        .iter()
        .map(|record| record.instance.as_str())
        .collect();
    instances.sort_unstable();
    instances
}

async fn news_are_what_changed_since(one: Arc<dyn LiveView>, other: Arc<dyn LiveView>) {
    for instance in ["i-1", "i-2", "i-3"] {
        one.put(Arc::new(record("edge", instance, 1, 1)), 1)
            .await
            .unwrap();
    }
    let first = other.changes(&Cursor::default()).await.unwrap();
    assert!(first.is_whole);
    assert_eq!(instances(&first), ["i-1", "i-2", "i-3"]);

    let none = other.changes(&first.next).await.unwrap();
    assert!(!none.is_whole && none.records.is_empty() && none.gone.is_empty());

    one.put(Arc::new(record("edge", "i-2", 1, 2)), 2)
        .await
        .unwrap();
    one.put(Arc::new(record("core", "i-9", 1, 1)), 2)
        .await
        .unwrap();
    one.put(Arc::new(record("edge", "i-2", 1, 3)), 2)
        .await
        .unwrap();
    let news = other.changes(&none.next).await.unwrap();
    assert!(!news.is_whole);
    assert_eq!(instances(&news), ["i-2", "i-9"]);
    assert!(news.records.iter().any(|record| record.seq == 3));
    assert!(other.changes(&news.next).await.unwrap().records.is_empty());

    // An older cursor still holds.
    let again = other.changes(&first.next).await.unwrap();
    assert_eq!(instances(&again), ["i-2", "i-9"]);
}

async fn a_forgotten_agent_is_news(one: Arc<dyn LiveView>, other: Arc<dyn LiveView>) {
    for instance in ["i-1", "i-2"] {
        one.put(Arc::new(record("edge", instance, 1, 1)), 1)
            .await
            .unwrap();
    }
    let first = other.changes(&Cursor::default()).await.unwrap();
    one.forget("edge", "i-1").await.unwrap();
    one.forget("edge", "i-2").await.unwrap();
    one.put(Arc::new(record("edge", "i-2", 2, 1)), 2)
        .await
        .unwrap();
    let news = other.changes(&first.next).await.unwrap();
    assert_eq!(instances(&news), ["i-2"]);
    assert_eq!(news.gone, [("edge".into(), "i-1".to_owned())]);
}

#[tokio::test]
async fn a_view_that_lost_its_memory_is_read_whole_again() {
    let mut redis = RedisServer::start().await;
    let view = RedisLive::connect(&redis.url()).await.unwrap();
    for instance in ["i-1", "i-2"] {
        view.put(Arc::new(record("edge", instance, 1, 1)), 1)
            .await
            .unwrap();
    }
    let share = Share {
        sessions: 2,
        ..Share::default()
    };
    assert!(!view.announce("one", share).await.unwrap());
    assert!(view.announce("one", share).await.unwrap());
    let first = view.changes(&Cursor::default()).await.unwrap();

    redis.stop();
    redis.start_again().await;
    eventually(
        "the view answers again",
        Duration::from_secs(10),
        async || view.ping().await.is_ok(),
    )
    .await;
    assert!(
        !view.announce("one", share).await.unwrap(),
        "the replica learns that the view has lost its memory"
    );
    for _ in 0..5 {
        view.put(Arc::new(record("edge", "i-1", 1, 2)), 2)
            .await
            .unwrap();
    }
    let second = view.changes(&first.next).await.unwrap();
    assert!(second.is_whole);
    assert_eq!(instances(&second), ["i-1"]);
}

#[tokio::test]
async fn replicas_are_seen_with_their_shares() {
    let redis = RedisServer::shared().await;
    let options = RedisLiveOptions {
        prefix: "shares".to_owned(),
        ..RedisLiveOptions::default()
    };
    let view = RedisLive::connect_with(&redis.url(), options)
        .await
        .unwrap();
    let share = Share {
        sessions: 7,
        rewriting: true,
        left: false,
    };
    view.announce("one", share).await.unwrap();
    view.announce("two", Share::default()).await.unwrap();
    let seen = view.shares().await.unwrap();
    let names: Vec<&str> = seen.iter().map(|seen| seen.replica.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(seen[0].share, share);
    assert!(seen[0].age < SHARE_OVERDUE, "{:?}", seen[0].age);
}

async fn traffic_of_each_replica_is_read_elsewhere(
    one: Arc<dyn LiveView>,
    other: Arc<dyn LiveView>,
) {
    let heard = |ok: u64| -> ReplicaTraffic {
        let minute = json!({"totals": {"requests": {"ok": ok}, "first_content": [0, ok]},
            "attempts": [["fast", {"success": ok}]]});
        let pools = json!({"edge": {"chat": {"minute": minute}}});
        serde_json::from_value(json!({"minute_ms": 55_000, "gateways": pools})).unwrap()
    };
    for (view, replica, ok) in [(&one, "r1", 1), (&other, "r2", 7), (&one, "r1", 3)] {
        view.announce(replica, Share::default()).await.unwrap();
        view.publish_traffic(replica, Arc::new(heard(ok)))
            .await
            .unwrap();
    }
    let mut read = other.traffic().await.unwrap();
    read.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("r1", 3), ("r2", 7)];
    let expected = expected.map(|(replica, ok)| (replica.to_owned(), Arc::new(heard(ok))));
    assert_eq!(read, expected, "each one's latest");
}

async fn a_later_session_is_told_from_an_earlier_one(
    one: Arc<dyn LiveView>,
    other: Arc<dyn LiveView>,
) {
    let later = async |than| other.later_session("edge", "i-1", than).await.unwrap();
    assert_eq!(later(0).await, None, "nobody came yet");
    let known = record("edge", "i-1", 7, 3);
    one.put(Arc::new(known.clone()), 1).await.unwrap();
    one.put(Arc::new(record("edge", "i-2", 99, 3)), 1)
        .await
        .unwrap();
    assert_eq!(later(6).await, Some(known));
    assert_eq!(later(7).await, None);
    one.forget("edge", "i-1").await.unwrap();
    assert_eq!(later(0).await, None);
}

fn leased_lane(endpoint: Option<&str>) -> LeaseKey {
    LeaseKey {
        gateway: "edge".into(),
        lane: ProbedLane {
            lane: "sonnet".into(),
            endpoint: endpoint.map(str::to_owned),
        },
    }
}

fn verdict(next_ms: u64) -> ProbeVerdict {
    let failure = json!({"kind": "status", "status": 503, "count": 1});
    ProbeVerdict {
        lane: leased_lane(None).lane,
        subject: u64::MAX,
        failure: (next_ms > 0).then(|| serde_json::from_value(failure).unwrap()),
        age_ms: 100,
        next_ms,
    }
}

async fn one_replica_s_agent_probes_for_all(one: Arc<dyn LiveView>, other: Arc<dyn LiveView>) {
    let (key, ttl) = (leased_lane(None), Duration::from_secs(20));
    assert_eq!(
        one.lease(&key, "a", ttl).await.unwrap(),
        Leased::Granted(ttl)
    );
    let Leased::Held(left) = other.lease(&key, "b", ttl).await.unwrap() else {
        panic!("it is held");
    };
    assert!(left <= ttl && left > ttl / 2, "{left:?}");
    let elsewhere = leased_lane(Some("embeddings"));
    assert_eq!(
        other.lease(&elsewhere, "b", ttl).await.unwrap(),
        Leased::Granted(ttl)
    );
    assert!(
        !other
            .settle_lease(&key, "b", Some(&verdict(0)))
            .await
            .unwrap()
    );
    assert_eq!(other.probe_verdict(&key).await.unwrap(), None);
    assert!(
        one.settle_lease(&key, "a", Some(&verdict(60_000)))
            .await
            .unwrap()
    );
    let Leased::Decided(decided) = other.lease(&key, "b", ttl).await.unwrap() else {
        panic!("it is decided");
    };
    assert!(
        decided.age_ms >= 100 && decided.next_ms > 30_000,
        "{decided:?}"
    );
    assert_eq!(decided.subject, u64::MAX);
    let read = other.probe_verdict(&key).await.unwrap().unwrap();
    assert_eq!(read.failure, verdict(60_000).failure);
}

async fn a_lease_ends_by_itself_and_late_verdicts_are_not_passed_on(
    one: Arc<dyn LiveView>,
    other: Arc<dyn LiveView>,
) {
    let (key, short) = (leased_lane(None), Duration::from_millis(150));
    one.lease(&key, "dead", short).await.unwrap();
    eventually("the lease is over", Duration::from_secs(10), async || {
        matches!(
            other.lease(&key, "b", 100 * short).await.unwrap(),
            Leased::Granted(_)
        )
    })
    .await;
    assert!(
        !one.settle_lease(&key, "dead", Some(&verdict(0)))
            .await
            .unwrap()
    );
    assert!(other.settle_lease(&key, "b", None).await.unwrap());
    assert_eq!(
        one.lease(&key, "a", short).await.unwrap(),
        Leased::Granted(short)
    );
}
