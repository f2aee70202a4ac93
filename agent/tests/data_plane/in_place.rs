//! Further tries on the same lane, where a pool wants them.

use crate::caller::chat;
use crate::gateway::{Agent, Document};
use crate::upstream::{Script, Upstream, answer, completion, json};

/// What the first answers of the lane are, and how often it is asked before the sibling is.
#[tokio::test]
async fn lane_is_tried_again_only_after_failures_in_passing_that_ask_for_no_wait() {
    let default = "{}";
    let trips = "{trip: {mode: consecutive, consecutive_n: 2}, base_cooldown_secs: 30}";
    let rows: [(&str, Script, &str, usize, u64); 6] = [
        ("500", json(500, ""), default, 3, 3),
        ("429 without a wait", json(429, ""), default, 3, 3),
        (
            "503 with a wait",
            answer(503, &[("retry-after", "3")], ""),
            default,
            1,
            1,
        ),
        ("refused key", json(401, ""), default, 1, 1),
        ("empty purse", json(402, ""), default, 1, 1),
        ("500 that opens the cell", json(500, ""), trips, 2, 2),
    ];
    for (fault, script, breaker, tries, failed) in rows {
        let (a, b) = (
            Upstream::start(script).await,
            Upstream::start(completion("b")).await,
        );
        let document = Document::new()
            .lane_at("a", a.address, 1, "max_concurrent: 1, max_requests: 9")
            .lane("b", &b)
            .breaker(breaker)
            .pool("failover: {same_lane_retries: 2, retry_backoff_ms: 1}");
        let agent = Agent::start(&document.yaml()).await;
        let got = chat("chat", false).send(agent.address).await;
        assert_eq!(
            got.header("x-lanekeeper-lane"),
            Some("b"),
            "{fault}: {got:?}"
        );
        assert_eq!((a.hits(), b.hits()), (tries, 1), "{fault}");
        let attempts = (tries + 1).to_string();
        assert_eq!(
            got.header("x-lanekeeper-attempts"),
            Some(&*attempts),
            "{fault}"
        );
        // Each try is settled on its own, and the whole is one failover.
        let lane = agent.lane("a");
        assert_eq!(lane["failed"], failed, "{fault}: {lane}");
        assert_eq!(
            (&lane["permits_available"], &lane["requests_spent"]),
            (&1.into(), &0.into())
        );
        assert_eq!(agent.plane.totals().failovers, 1, "{fault}");
    }
}

#[tokio::test]
async fn tries_in_place_stay_within_the_budget_of_time() {
    let a = Upstream::start(json(500, "")).await;
    let document = Document::new()
        .lane("a", &a)
        .breaker("{mode: observe}")
        .pool("failover: {timeout_secs: 0.5, same_lane_retries: 10, retry_backoff_ms: 400}");
    let agent = Agent::start(&document.yaml()).await;
    let asked = crate::gateway::timed(chat("chat", false).send(agent.address));
    let (got, took) = asked.await;
    assert_eq!(got.status, 503, "{got:?}");
    assert!(took.as_millis() < 1_500, "{took:?}");
}
