//! Strategies beside round robin.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Script, Step, Upstream, completion, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

fn slowed(by: Duration, text: &str) -> Script {
    let mut script = vec![Step::Pause(by)];
    script.extend(completion(text));
    script
}

#[tokio::test]
async fn fastest_measures_every_member_once_and_then_prefers_the_quickest() {
    let a = Upstream::start(slowed(Duration::from_millis(120), "a")).await;
    let b = Upstream::start(completion("b")).await;
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .pool("strategy: fastest");
    let agent = Agent::start(&document.yaml()).await;
    for _ in 0..12 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    }
    assert_eq!((a.hits(), b.hits()), (1, 11));
}

#[tokio::test]
async fn member_that_is_being_measured_gets_no_second_request_until_it_is_known() {
    let gate = Arc::new(Semaphore::new(0));
    let mut waiting = vec![Step::Gate(Arc::clone(&gate))];
    waiting.extend(completion("a"));
    let a = Upstream::start(waiting).await;
    let b = Upstream::start(completion("b")).await;
    let document = Document::new()
        .lane_at("a", a.address, 5, "")
        .lane_at("b", b.address, 1, "")
        .pool("strategy: fastest");
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    let first = tokio::spawn(async move { chat("chat", false).send(address).await });
    eventually("it is under way", || a.hits() == 1).await;
    for _ in 0..10 {
        assert_eq!(chat("chat", false).send(address).await.status, 200);
    }
    assert_eq!((a.hits(), b.hits()), (1, 10));
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
}

#[tokio::test]
async fn least_loaded_goes_where_the_fewest_run_for_their_weight() {
    let gate = Arc::new(Semaphore::new(0));
    let mut waiting = vec![Step::Gate(Arc::clone(&gate))];
    waiting.extend(completion("hello"));
    let (a, b) = (
        Upstream::start(waiting.clone()).await,
        Upstream::start(waiting).await,
    );
    let document = Document::new()
        .lane_at("a", a.address, 2, "")
        .lane_at("b", b.address, 1, "")
        .pool("strategy: least_loaded");
    let agent = Agent::start(&document.yaml()).await;
    let address = agent.address;
    let mut callers = Vec::new();
    for sent in 1..=9 {
        callers.push(tokio::spawn(async move {
            chat("chat", false).send(address).await
        }));
        eventually("it is under way", || a.hits() + b.hits() == sent).await;
    }
    assert_eq!((a.hits(), b.hits()), (6, 3));
    gate.add_permits(9);
    for caller in callers {
        assert_eq!(caller.await.unwrap().status, 200);
    }
}

/// A member that has just recovered gets its part step by step under every strategy.
#[tokio::test]
async fn recovered_member_gets_its_part_step_by_step_also_as_the_fastest() {
    for strategy in ["weighted", "least_loaded", "fastest"] {
        let a = Upstream::start(completion("a")).await;
        let b = Upstream::start(slowed(Duration::from_millis(20), "b")).await;
        let document = Document::new()
            .lane_at("a", a.address, 3, "")
            .lane("b", &b)
            .breaker(
                "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.1, \
                 max_cooldown_secs: 0.1, jitter_ratio: 0, jitter_floor_secs: 0, ramp_secs: 6}",
            )
            .pool(&format!("strategy: {strategy}"));
        let agent = Agent::start(&document.yaml()).await;
        let ask = async || {
            let got = chat("chat", false).send(agent.address).await;
            assert_eq!(got.status, 200, "{got:?}");
            got.header("x-lanekeeper-lane") == Some("a")
        };
        for _ in 0..4 {
            ask().await;
        }
        a.next(json(503, ""));
        while agent.cell("chat", "a")["state"] != "open" {
            ask().await;
        }
        agent.cooled("chat", "a").await;
        while agent.cell("chat", "a")["state"] != "closed" {
            ask().await;
        }
        let mut of_a = 0;
        for _ in 0..40 {
            of_a += u32::from(ask().await);
        }
        assert!(
            (1..=25).contains(&of_a),
            "{strategy}: {of_a} of 40 while it ramps"
        );
    }
}
