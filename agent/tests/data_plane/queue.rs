//! The queue for permits: in the order of arrival, one waiter for each freed permit, and never
//! against the breaker.

use crate::caller::{Got, chat};
use crate::gateway::{Agent, Document, eventually, timed};
use crate::upstream::{Script, Step, Upstream, completion, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// `script`, once the test lets it go on.
fn gated(gate: &Arc<Semaphore>, script: Script) -> Script {
    let mut gated = vec![Step::Gate(Arc::clone(gate))];
    gated.extend(script);
    gated
}

fn queued(agent: &Agent, pool: &str) -> u64 {
    let stats = serde_json::to_value(agent.plane.stats()).unwrap();
    let pools = stats["pools"].as_array().unwrap();
    let found = pools.iter().find(|shown| shown["pool"] == *pool).unwrap();
    found["queued"].as_u64().unwrap()
}

fn send(agent: &Agent, model: &'static str, number: usize) -> JoinHandle<Got> {
    let address = agent.address;
    tokio::spawn(async move {
        chat(model, false)
            .with("x-client-request-id", &number.to_string())
            .send(address)
            .await
    })
}

/// Sends a request and waits until it stands in the queue.
async fn line_up(agent: &Agent, pool: &'static str, number: usize) -> JoinHandle<Got> {
    let before = queued(agent, pool);
    let waiter = send(agent, pool, number);
    eventually("it waits", || queued(agent, pool) == before + 1).await;
    waiter
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_in_the_order_of_their_arrival() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(gated(&gate, completion("a"))).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 1")
        .pool("on_exhausted: {queue: {max_ms: 9000}}");
    let agent = Agent::start(&document.yaml()).await;
    let mut callers = vec![send(&agent, "chat", 0)];
    eventually("the permit is taken", || a.hits() == 1).await;
    for number in 1..10 {
        callers.push(line_up(&agent, "chat", number).await);
    }
    gate.add_permits(10);
    for caller in callers {
        assert_eq!(caller.await.unwrap().status, 200);
    }
    let order: Vec<usize> = a
        .seen()
        .iter()
        .map(|seen| seen.header("x-client-request-id").unwrap().parse().unwrap())
        .collect();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
}

/// A waiter that was woken by one lane and takes another leaves the first one to the next in line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_that_a_woken_waiter_does_not_need_wakes_the_next_one() {
    let gate = Arc::new(Semaphore::new(0));
    let (x, y) = (
        Upstream::start(completion("x")).await,
        Upstream::start(completion("y")).await,
    );
    let yaml = Document::new()
        .lane_at("x", x.address, 1, "max_concurrent: 1")
        .lane_at("y", y.address, 1000, "max_concurrent: 1")
        .breaker(
            "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.8, \
             max_cooldown_secs: 0.8, jitter_ratio: 0, jitter_floor_secs: 0}",
        )
        .pool("on_exhausted: {queue: {max_ms: 9000}}")
        .rest("  only-x: {members: [{target: x}], on_exhausted: {queue: {max_ms: 9000}}}")
        .yaml();
    let agent = Agent::start(&yaml).await;
    y.next(json(503, ""));
    let first = chat("chat", false).send(agent.address).await;
    assert_eq!(first.header("x-lanekeeper-attempts"), Some("2"));
    x.next(gated(&gate, completion("x")));
    let running = send(&agent, "x", 0);
    eventually("the permit of x is taken", || x.hits() == 2).await;
    // y is benched, so that both wait for x alone.
    let either = line_up(&agent, "chat", 1).await;
    let only = line_up(&agent, "only-x", 2).await;
    agent.cooled("chat", "y").await;
    gate.add_permits(1);
    assert_eq!(running.await.unwrap().status, 200);
    let got = either.await.unwrap();
    assert_eq!(got.header("x-lanekeeper-lane"), Some("y"), "{got:?}");
    let (got, took) = timed(only).await;
    let got = got.unwrap();
    assert_eq!(got.header("x-lanekeeper-lane"), Some("x"), "{got:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// The lane that frees its permit by failing is no lane to wait for.
#[tokio::test]
async fn breaker_is_asked_again_when_a_waiter_wakes() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(gated(&gate, json(503, ""))).await;
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 1")
        .breaker("{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 30}")
        .pool("on_exhausted: {queue: {max_ms: 9000}}");
    let agent = Agent::start(&document.yaml()).await;
    let first = send(&agent, "chat", 0);
    eventually("the permit is taken", || a.hits() == 1).await;
    let mut waiters = Vec::new();
    for number in 1..4 {
        waiters.push(line_up(&agent, "chat", number).await);
    }
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 503);
    let ((), took) = timed(async {
        for waiter in waiters {
            let got = waiter.await.unwrap();
            assert_eq!(got.status, 503, "{got:?}");
            let wait: u64 = got.header("retry-after").unwrap().parse().unwrap();
            assert!((25..=34).contains(&wait), "{wait}");
        }
    })
    .await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(a.hits(), 1);
    agent.settles().await;
}

/// A new revision may have more permits than waiters were told of.
#[tokio::test]
async fn higher_limit_serves_all_who_wait_at_once() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(gated(&gate, completion("a"))).await;
    let document = |limit: u32| {
        Document::new()
            .lane_at("a", a.address, 1, &format!("max_concurrent: {limit}"))
            .pool("on_exhausted: {queue: {max_ms: 9000}}")
            .yaml()
    };
    let agent = Agent::start(&document(1)).await;
    let mut callers = vec![send(&agent, "chat", 0)];
    eventually("the permit is taken", || a.hits() == 1).await;
    for number in 1..5 {
        callers.push(line_up(&agent, "chat", number).await);
    }
    agent.apply(&document(4));
    eventually("three more run", || a.hits() == 4).await;
    assert_eq!(queued(&agent, "chat"), 1);
    gate.add_permits(5);
    for caller in callers {
        assert_eq!(caller.await.unwrap().status, 200);
    }
    agent.settles().await;
}
