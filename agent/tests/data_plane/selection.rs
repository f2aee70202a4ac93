//! Who is chosen, and who is not: weights, drained members, hops, permits and sessions.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{
    DONE, FINISH, ROLE, Script, Step, Upstream, chunk, completion, delta, json, stream_end,
    stream_head,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;

const TRIP_AT_ONCE: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.3, \
                            max_cooldown_secs: 0.3, jitter_ratio: 0, jitter_floor_secs: 0}";

/// Field report B89: a member without weight stands by for nobody, whatever becomes of the others.
#[tokio::test]
async fn drained_member_gets_nothing_before_during_and_after_an_outage() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new()
        .lane_at("a", a.address, 10, "")
        .lane_at("b", b.address, 0, "")
        .breaker(TRIP_AT_ONCE);
    let agent = Agent::start(&document.yaml()).await;
    let serve = async |times: usize| {
        for _ in 0..times {
            assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
        }
    };
    serve(200).await;
    a.next(json(503, ""));
    for _ in 0..5 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    }
    agent.cooled("chat", "a").await;
    serve(200).await;
    assert_eq!((a.hits(), b.hits()), (401, 0));
    // It is listed all the same.
    assert_eq!(agent.cell("chat", "b")["state"], "closed");
}

/// Field report B89.
#[test]
fn pool_without_any_weight_is_refused() {
    let document = "gateway: edge\n\
        providers: {p: {protocol: openai, base_url: \"http://127.0.0.1:1\", api_key: null}}\n\
        models: {a: {provider: p}}\n\
        pools: {chat: {members: [{target: a, weight: 0}]}}\n";
    let problems = lanekeeper_model::document::check_yaml(document).unwrap_err();
    let told = format!("{problems:?}");
    assert!(told.contains("/pools/chat"), "{told}");
}

/// Field report B90: the order of the list decides nothing, and a weight left out is 1.
#[tokio::test]
async fn split_does_not_depend_on_the_order_of_the_members() {
    for reversed in [false, true] {
        let (a, b) = (
            Upstream::start(completion("a")).await,
            Upstream::start(completion("b")).await,
        );
        let document = if reversed {
            Document::new().lane_at("b", b.address, 3, "").lane("a", &a)
        } else {
            Document::new().lane("a", &a).lane_at("b", b.address, 3, "")
        };
        let yaml = document
            .yaml()
            .replace("{target: a, weight: 1}", "{target: a}");
        let agent = Agent::start(&yaml).await;
        for _ in 0..400 {
            chat("chat", false).send(agent.address).await;
        }
        assert_eq!((a.hits(), b.hits()), (100, 300), "reversed: {reversed}");
    }
}

/// Field report B98: members known to be down cost no hop, so what one request does not reach the
/// next one does.
#[tokio::test]
async fn benched_members_cost_no_hop() {
    let bad = Upstream::start(json(402, "")).await;
    let good = Upstream::start(completion("hello")).await;
    let mut document = Document::new();
    for name in ["a", "b", "c", "d", "e"] {
        document = document.lane_at(name, bad.address, 2, "");
    }
    let document = document.lane("f", &good);
    let agent = Agent::start(&document.yaml()).await;
    let first = chat("chat", false).send(agent.address).await;
    assert_eq!(
        first.header("x-lanekeeper-attempts"),
        Some("4"),
        "{first:?}"
    );
    assert_eq!(
        (first.status.as_u16(), first.header("retry-after")),
        (503, Some("1"))
    );
    let second = chat("chat", false).send(agent.address).await;
    assert_eq!(
        (second.status.as_u16(), second.header("x-lanekeeper-lane")),
        (200, Some("f"))
    );
    let third = chat("chat", false).send(agent.address).await;
    assert_eq!(
        third.header("x-lanekeeper-attempts"),
        Some("1"),
        "all others are benched"
    );
}

/// Field report B102: a permit is held to the end of the stream.
#[tokio::test]
async fn no_more_streams_are_open_than_the_lane_has_permits() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(vec![
        stream_head(),
        chunk(ROLE),
        chunk(&delta("early")),
        Step::Gate(Arc::clone(&gate)),
        chunk(FINISH),
        chunk(DONE),
        stream_end(),
    ])
    .await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 2")
        .pool("on_exhausted: {queue: {max_ms: 8000}}");
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    let callers: Vec<_> = (0..6)
        .map(|_| tokio::spawn(async move { chat("chat", true).send(address).await }))
        .collect();
    let queued = || {
        let stats = serde_json::to_value(agent.plane.stats()).unwrap();
        stats["pools"][0]["queued"].as_u64().unwrap()
    };
    for (opened, waiting) in [(2, 4), (3, 3), (4, 2), (5, 1), (6, 0)] {
        eventually("the streams run", || {
            a.hits() == opened && queued() == waiting
        })
        .await;
        eventually("their content has begun", || {
            agent.cell("chat", "a")["window"]["ok"] == opened
        })
        .await;
        assert_eq!(agent.lane("a")["inflight"], 2);
        gate.add_permits(1);
    }
    gate.add_permits(1);
    for caller in callers {
        assert!(caller.await.unwrap().whole);
    }
    agent.settles().await;
    assert_eq!(agent.lane("a")["permits_available"], 2);
}

const SESSIONS: &str = "affinity: {mode: session, header_name: x-session-id}";

/// Field report B104: a session leaves a member that fails, within the very request, and settles.
#[tokio::test]
async fn session_leaves_a_failing_member_without_an_error_and_comes_back_once() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .breaker(TRIP_AT_ONCE)
        .pool(SESSIONS);
    let agent = Agent::start(&document.yaml()).await;
    let ask = async || {
        let got = chat("chat", false)
            .with("x-session-id", "S")
            .send(agent.address)
            .await;
        assert_eq!(got.status, 200, "{got:?}");
        got.header("x-lanekeeper-lane").unwrap().to_owned()
    };
    let home = ask().await;
    let (pinned, other) = if home == "a" { (&a, "b") } else { (&b, "a") };
    pinned.next(json(503, ""));
    for _ in 0..5 {
        assert_eq!(ask().await, other, "during the outage");
    }
    agent.cooled("chat", &home).await;
    for _ in 0..5 {
        assert_eq!(ask().await, home, "afterwards it is home again, and stays");
    }
}

/// Field report B105: a session is hashed and never remembered.
#[tokio::test]
async fn any_number_of_sessions_of_any_length_is_served_and_spread() {
    let a = Upstream::start(completion("hello")).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "")
        .lane_at("b", a.address, 1, "")
        .pool(SESSIONS);
    let agent = Agent::start(&document.yaml()).await;
    let mut homes = BTreeMap::new();
    let ask = async |session: usize| {
        let id = format!("{session:08}").repeat(1024);
        let got = chat("chat", false)
            .with("x-session-id", &id)
            .send(agent.address)
            .await;
        assert_eq!(got.status, 200, "{got:?}");
        got.header("x-lanekeeper-lane").unwrap().to_owned()
    };
    for session in 0..100 {
        homes.insert(session, ask(session).await);
    }
    let on_a = homes.values().filter(|lane| *lane == "a").count();
    assert!((25..=75).contains(&on_a), "{on_a} of 100");
    for session in [0, 50, 99] {
        assert_eq!(
            ask(session).await,
            homes[&session],
            "an old one is where it was"
        );
    }
}

/// Sessions are kept only where the pool says so.
#[tokio::test]
async fn session_of_a_pool_without_affinity_means_nothing() {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let agent = Agent::start(&Document::new().lane("a", &a).lane("b", &b).yaml()).await;
    for _ in 0..10 {
        chat("chat", false)
            .with("x-session-id", "S")
            .send(agent.address)
            .await;
    }
    assert_eq!((a.hits(), b.hits()), (5, 5));
}

fn too_long() -> Script {
    json(
        400,
        r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
    )
}

/// A pool may know better how much a member takes than the lane says, and an unknown size is large
/// enough.
#[tokio::test]
async fn size_of_a_member_is_the_pools_word_before_the_lanes() {
    let small = Upstream::start(too_long()).await;
    let (b, c) = (
        Upstream::start(completion("b")).await,
        Upstream::start(completion("c")).await,
    );
    for (member_b, lane_c, expected) in [
        ("context_max: 4000", "", "c"),
        ("context_max: 9000", "context_max: 1000", "b"),
        ("context_max: 8000", "context_max: 1000", "none"),
    ] {
        let document = Document::new()
            .lane_at("a", small.address, 9, "context_max: 8000")
            .lane_at("b", b.address, 1, "context_max: 200000")
            .lane_at("c", c.address, 1, lane_c)
            .yaml()
            .replace(
                "{target: b, weight: 1}",
                &format!("{{target: b, weight: 1, {member_b}}}"),
            );
        let agent = Agent::start(&document).await;
        let got = chat("chat", false).send(agent.address).await;
        match expected {
            "none" => assert_eq!(
                (got.status.as_u16(), got.header("x-lanekeeper-lane")),
                (400, Some("a"))
            ),
            lane => assert_eq!(got.header("x-lanekeeper-lane"), Some(lane), "{got:?}"),
        }
        assert_eq!(
            agent.lane("a")["requests_spent"],
            0,
            "a refusal is not spent"
        );
    }
}

/// A pool's bounds on a member win over the lane's, for the first content as for the headers.
#[tokio::test]
async fn bound_on_first_content_of_a_member_wins_over_the_lanes() {
    let a = Upstream::start(vec![stream_head(), chunk(ROLE), Step::Hang]).await;
    let b = Upstream::start(crate::upstream::stream(&["hello"])).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "first_content_timeout_ms: 20000")
        .lane("b", &b)
        .yaml()
        .replace(
            "{target: a, weight: 1}",
            "{target: a, weight: 1, first_content_timeout_ms: 200}",
        );
    let agent = Agent::start(&document).await;
    let (got, took) = crate::gateway::timed(chat("chat", true).send(agent.address)).await;
    assert_eq!(got.header("x-lanekeeper-lane"), Some("b"), "{got:?}");
    assert!(took.as_millis() < 5_000, "{took:?}");
}
