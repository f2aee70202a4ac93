//! The end of a cooldown: one probe, whoever asks.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Step, Upstream, completion, json, stream};
use std::sync::Arc;
use tokio::sync::Semaphore;

const SHORT: &str = "{trip: {mode: consecutive, consecutive_n: 1}, base_cooldown_secs: 0.3, \
                     max_cooldown_secs: 0.3, jitter_ratio: 0, jitter_floor_secs: 0}";

/// An open cell whose cooldown has ended.
async fn due(a: &Upstream, breaker: &str) -> Agent {
    a.next(json(503, ""));
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 400")
        .breaker(breaker);
    let agent = Agent::start(&document.yaml()).await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 503);
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    eventually("the cooldown is over", || {
        agent.cell("chat", "a")["cooldown_remaining_s"] == 0.0
    })
    .await;
    assert_eq!(
        agent.cell("chat", "a")["state"],
        "open",
        "reading changes nothing"
    );
    agent
}

/// Field report B65.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_the_end_of_a_cooldown_send_one_probe() {
    let gate = Arc::new(Semaphore::new(0));
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(completion("hello"));
    let a = Upstream::start(script).await;
    let agent = due(&a, SHORT).await;
    let before = a.hits();
    let address = agent.address;
    let callers: Vec<_> = (0..200)
        .map(|_| tokio::spawn(async move { chat("chat", false).send(address).await }))
        .collect();
    eventually("199 are refused", || agent.plane.totals().exhausted == 200).await;
    assert_eq!(a.hits() - before, 1);
    assert_eq!(agent.cell("chat", "a")["state"], "half_open");
    gate.add_permits(1);
    let mut good = 0;
    for caller in callers {
        let got = caller.await.unwrap();
        if got.status == 200 {
            good += 1;
        } else {
            assert_eq!(got.status, 503);
            // A probe is one request: its result is soon known.
            assert_eq!(got.header("retry-after"), Some("2"));
        }
    }
    assert_eq!((good, a.hits() - before), (1, 1));
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

/// Field reports B73, B78.
#[tokio::test]
async fn probe_closes_at_first_content_and_reopens_on_failure() {
    let a = Upstream::start(stream(&["hello"])).await;
    let agent = due(&a, SHORT).await;
    a.next(json(500, ""));
    chat("chat", false).send(agent.address).await;
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["state"], &cell["trips"]),
        (&"open".into(), &1.into()),
        "{cell}"
    );
    eventually("the cooldown is over", || {
        agent.cell("chat", "a")["cooldown_remaining_s"] == 0.0
    })
    .await;
    assert!(chat("chat", true).send(agent.address).await.whole);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

/// Field reports B65, B66.
#[tokio::test]
async fn caller_that_leaves_gives_the_probe_back() {
    let a = Upstream::start(completion("hello")).await;
    let agent = due(&a, SHORT).await;
    a.next(vec![Step::Hang]);
    let before = a.hits();
    let address = agent.address;
    let caller = tokio::spawn(async move { chat("chat", false).send(address).await });
    eventually("the probe is out", || a.hits() == before + 1).await;
    assert_eq!(agent.cell("chat", "a")["state"], "half_open");
    caller.abort();
    agent.settles().await;
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}

#[tokio::test]
async fn transition_is_announced_and_counted() {
    let a = Upstream::start(completion("hello")).await;
    let agent = due(&a, SHORT).await;
    tokio::time::timeout(
        std::time::Duration::from_secs(1),
        agent.plane.changed().notified(),
    )
    .await
    .expect("a transition was announced");
    let metrics = agent.metrics();
    for line in [
        r#"lanekeeper_breaker_state{pool="chat",lane="a"} 1.0"#,
        r#"lanekeeper_breaker_trips_total{pool="chat",lane="a"} 1"#,
        r#"lanekeeper_breaker_transitions_total{pool="chat",lane="a",from="closed",to="open",reason="consecutive",cause="status",mode="enforce"} 1"#,
        r#"lanekeeper_requests_total{pool="chat",outcome="exhausted"} 1"#,
        r#"lanekeeper_attempts_total{pool="chat",lane="a",outcome="transient"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"));
}

/// Field report B66.
#[tokio::test]
async fn saturated_lane_does_not_eat_the_probe() {
    let gate = Arc::new(Semaphore::new(0));
    let a = Upstream::start(completion("hello")).await;
    a.next(json(503, ""));
    let document = Document::new()
        .lane_at("a", a.address, 1, "max_concurrent: 1")
        .breaker(SHORT);
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    // The lane's only permit is taken over its direct route, which has a cell of its own.
    let mut script = vec![Step::Gate(Arc::clone(&gate))];
    script.extend(completion("direct"));
    a.next(script);
    let address = agent.address;
    let direct = tokio::spawn(async move { chat("a", false).send(address).await });
    eventually("the permit is taken", || {
        agent.lane("a")["permits_available"] == 0
    })
    .await;
    eventually("the cooldown is over", || {
        agent.cell("chat", "a")["cooldown_remaining_s"] == 0.0
    })
    .await;
    let got = chat("chat", false).send(agent.address).await;
    assert_eq!(got.status, 503);
    assert_eq!(
        agent.cell("chat", "a")["state"],
        "open",
        "no probe was taken"
    );
    gate.add_permits(1);
    direct.await.unwrap();
    assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
}
