//! Callers that leave at any moment leave nothing behind.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually, timed};
use crate::upstream::{
    DONE, ROLE, Script, Step, Upstream, chunk, completion, delta, json, stream_end, stream_head,
};
use proptest::prelude::*;
use std::time::Duration;

/// Every case starts a runtime and servers of its own.
const CASES: u32 = 24;

fn script(kind: u8) -> Script {
    let pause = Step::Pause(Duration::from_millis(3));
    match kind % 5 {
        0 => completion("hello"),
        1 => json(503, ""),
        2 => vec![Step::Hang],
        3 => vec![
            stream_head(),
            pause.clone(),
            chunk(ROLE),
            pause.clone(),
            chunk(&delta("a")),
            pause.clone(),
            chunk(&delta("b")),
            chunk(DONE),
            stream_end(),
        ],
        _ => vec![
            stream_head(),
            chunk(ROLE),
            chunk(&delta("a")),
            pause,
            Step::Close,
        ],
    }
}

/// Field report B77: nobody is served on behalf of a caller that has left.
#[tokio::test]
async fn caller_that_leaves_ends_its_search_for_a_lane() {
    for streams in [false, true] {
        let a = Upstream::start(vec![Step::Hang]).await;
        let b = Upstream::start(completion("b")).await;
        let document = Document::new()
            .lane_at("a", a.address, 5, "")
            .lane("b", &b)
            .lane("c", &b);
        let agent = Agent::start(&document.yaml()).await;
        let address = agent.address;
        let caller = tokio::spawn(async move { chat("chat", streams).send(address).await });
        eventually("the lane was asked", || a.hits() == 1).await;
        caller.abort();
        let ((), took) = timed(eventually("its connection is closed", || a.gone() == 1)).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        agent.settles().await;
        assert_eq!((a.hits(), b.hits()), (1, 0), "nobody else is asked");
        let totals = agent.plane.totals();
        assert_eq!((totals.exhausted, totals.failovers), (0, 0));
        let cell = agent.cell("chat", "a");
        assert_eq!(
            (&cell["window"]["failed"], &cell["parked_remaining_s"]),
            (&0.into(), &0.0.into()),
            "the lane is not to blame: {cell}"
        );
    }
}

/// Wherever the lane is with its answer, the caller's leaving closes the connection to it at once.
#[tokio::test]
async fn caller_that_leaves_closes_the_lanes_connection_at_every_phase() {
    let content = delta("a");
    let then = |frames: &[&str]| {
        let mut script = vec![stream_head()];
        script.extend(frames.iter().map(|frame| chunk(frame)));
        script.push(Step::Hang);
        script
    };
    let document = |status: u16, sent: usize| {
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 999999\r\n\r\n{}",
            "x".repeat(sent)
        );
        vec![Step::Write(head.into_bytes()), Step::Hang]
    };
    // What the lane does, what the caller has seen of it, and what it counts for the budget.
    let rows = [
        ("before the headers", vec![Step::Hang], None, 0),
        ("after the headers", then(&[]), None, 0),
        ("after a ping", then(&[": ping\n\n"]), None, 0),
        ("after lifecycle", then(&[ROLE]), None, 0),
        ("after content", then(&[ROLE, &content]), Some(&*content), 1),
        (
            "in the next content",
            then(&[&content, &content, &content[..20]]),
            Some(&*content),
            1,
        ),
        ("in a document", document(200, 100), None, 0),
        (
            "in a long document",
            document(200, 400_000),
            Some("xxxx"),
            1,
        ),
        ("in the text of an error", document(503, 100), None, 0),
    ];
    for (phase, script, seen, spent) in rows {
        let a = Upstream::start(script).await;
        let b = Upstream::start(completion("b")).await;
        let document = Document::new()
            .lane_at("a", a.address, 5, "max_concurrent: 3, max_requests: 9")
            .lane("b", &b);
        let agent = Agent::start(&document.yaml()).await;
        let address = agent.address;
        let awaited = seen.map(str::to_owned);
        let streams = !phase.ends_with("document");
        let caller = tokio::spawn(async move {
            let mut answer = chat("chat", streams).begin(address).await;
            if let Some(text) = awaited {
                answer.until(&text).await;
            }
            answer.rest().await
        });
        eventually(phase, || a.hanging() == 1).await;
        if seen.is_some() {
            eventually(phase, || agent.cell("chat", "a")["window"]["ok"] == 1).await;
        }
        caller.abort();
        let ((), took) = timed(eventually(phase, || a.gone() == 1)).await;
        assert!(took < Duration::from_secs(1), "{phase}: {took:?}");
        agent.settles().await;
        assert_eq!(b.hits(), 0, "{phase}: nobody else is asked");
        let (lane, cell) = (agent.lane("a"), agent.cell("chat", "a"));
        assert_eq!(lane["permits_available"], 3, "{phase}: {lane}");
        assert_eq!(lane["requests_spent"], spent, "{phase}: {lane}");
        assert_eq!(
            (&lane["ok"], &lane["failed"]),
            (&0.into(), &0.into()),
            "{phase}"
        );
        assert_eq!(cell["window"]["failed"], 0, "{phase}: {cell}");
        assert_eq!(cell["parked_remaining_s"], 0.0, "{phase}: {cell}");
    }
}

/// Also a caller that reads nothing may leave, while the lane has more to give than fits.
#[tokio::test]
async fn caller_that_does_not_read_and_leaves_closes_the_lanes_connection() {
    let long = delta(&"x".repeat(1024 * 1024));
    let mut script = vec![stream_head()];
    script.extend(std::iter::repeat_n(chunk(&long), 64));
    let a = Upstream::start(script).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    let answer = chat("chat", true).begin(agent.address).await;
    eventually("the content has begun", || {
        agent.cell("chat", "a")["window"]["ok"] == 1
    })
    .await;
    drop(answer);
    let ((), took) = timed(eventually("the lane's connection is closed", || {
        a.gone() == 1
    }))
    .await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    agent.settles().await;
    assert_eq!(agent.lane("a")["failed"], 0);
}

async fn leave_at_random(requests: Vec<(u8, u8, u64)>, falls_back: bool) {
    let (a, b) = (
        Upstream::start(completion("a")).await,
        Upstream::start(completion("b")).await,
    );
    let document = Document::new()
        .lane_at(
            "a",
            a.address,
            1,
            "max_concurrent: 3, attempt_timeout_ms: 20",
        )
        .lane_at(
            "b",
            b.address,
            1,
            "max_concurrent: 2, max_requests: 1000000",
        )
        .breaker(
            "{trip: {mode: consecutive, consecutive_n: 2}, base_cooldown_secs: 0.02, \
             max_cooldown_secs: 0.05, jitter_floor_secs: 0}",
        )
        .pool(&format!(
            "on_exhausted: {}\nfailover: {{same_lane_retries: 1, retry_backoff_ms: 2}}",
            if falls_back {
                "{fallback_pool: spare}"
            } else {
                "{queue: {max_ms: 30}}"
            }
        ))
        .rest(
            "  spare: {members: [{target: b}, {target: a}], on_exhausted: {queue: {max_ms: 20}}}",
        );
    // Probes run all the while, and take some of the scripts.
    let probed = document.yaml().replace(
        "api_key: null",
        "api_key: null, health: {mode: active, interval_secs: 0.1, timeout_secs: 0.1}",
    );
    let agent = Agent::start(&probed).await;
    let address = agent.address;
    let mut callers = Vec::new();
    for (first, second, patience) in requests {
        a.next(script(first));
        b.next(script(second));
        callers.push(tokio::spawn(async move {
            let asked = chat("chat", first % 2 == 0).send(address);
            let _ = tokio::time::timeout(Duration::from_millis(patience), asked).await;
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    // No permit, place or queue entry is left.
    agent.settles().await;
    for lane in ["a", "b"] {
        assert_eq!(agent.lane(lane)["inflight"], 0);
    }
    assert_eq!(agent.lane("b")["permits_available"], 2);
    let stats = serde_json::to_value(agent.plane.stats()).unwrap();
    for pool in stats["pools"].as_array().unwrap() {
        assert_eq!(pool["queued"], 0, "{pool}");
    }
    let spent = agent.lane("b")["requests_spent"].as_u64().unwrap();
    assert!(spent <= b.hits() as u64, "{spent} of {}", b.hits());
    // No ticket is left: were a probe slot still held, the lanes would stay refused for 30 s.
    for upstream in [&a, &b] {
        upstream.clear();
    }
    let reached = tokio::time::timeout(Duration::from_secs(5), async {
        while chat("chat", false).send(address).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(reached.await.is_ok(), "a lane stayed refused: {stats:#}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_cancellations_leak_nothing(
        requests in prop::collection::vec((any::<u8>(), any::<u8>(), 0u64..40), 1..25),
        falls_back in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(leave_at_random(requests, falls_back));
        runtime.shutdown_background();
    }
}
