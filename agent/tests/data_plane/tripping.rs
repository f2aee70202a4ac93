//! What benches a lane, for whom, and what that spares the callers.

use crate::caller::chat;
use crate::dialects::{OPENAI, cut};
use crate::gateway::{Agent, Document};
use crate::upstream::{Step, Upstream, completion, json, stream};
use std::time::Duration;

/// Field report B78: that a stream opened is no success.
#[tokio::test]
async fn streams_alone_trip_a_lane() {
    let died = cut(&[OPENAI.lifecycle, OPENAI.content]);
    for script in [died, json(503, "")] {
        let a = Upstream::start(script).await;
        let document = Document::new()
            .lane("a", &a)
            .breaker("{trip: {mode: consecutive, consecutive_n: 3}, park_secs: 0}");
        let agent = Agent::start(&document.yaml()).await;
        for failures in 1..=3 {
            assert_eq!(agent.cell("chat", "a")["state"], "closed");
            chat("chat", true).send(agent.address).await;
            agent.settles().await;
            assert_eq!(agent.cell("chat", "a")["streak"], failures);
        }
        assert_eq!(agent.cell("chat", "a")["state"], "open");
        assert_eq!(chat("chat", true).send(agent.address).await.status, 503);
        assert_eq!(a.hits(), 3);
        let lane = agent.lane("a");
        assert_eq!((&lane["ok"], &lane["failed"]), (&0.into(), &3.into()));
    }
}

/// Field report B79: once a lane is out, nobody pays for it any more.
#[tokio::test]
async fn benched_lane_is_not_asked_and_costs_no_time() {
    for (park, expected) in [(0, 3), (5, 1)] {
        let mut slow = json(503, "");
        slow.insert(0, Step::Pause(Duration::from_millis(20)));
        let (a, b) = (
            Upstream::start(slow).await,
            Upstream::start(completion("b")).await,
        );
        let document = Document::new()
            .lane_at("a", a.address, 10, "")
            .lane_at("b", b.address, 1, "")
            .breaker(&format!(
                "{{trip: {{mode: consecutive, consecutive_n: 3}}, park_secs: {park}}}"
            ));
        let agent = Agent::start(&document.yaml()).await;
        for _ in 0..20 {
            let before = a.hits();
            let got = chat("chat", false).send(agent.address).await;
            assert_eq!(got.status, 200);
            let attempts = if a.hits() > before { "2" } else { "1" };
            assert_eq!(got.header("x-lanekeeper-attempts"), Some(attempts));
        }
        assert_eq!((a.hits(), b.hits()), (expected, 20), "parked for {park} s");
    }
}

/// Field report B84: a cell belongs to one pool and one lane; limits belong to the lane.
#[tokio::test]
async fn lane_benched_in_one_pool_serves_the_others() {
    let (x, y) = (
        Upstream::start(stream(&["x"])).await,
        Upstream::start(completion("y")).await,
    );
    let document = Document::new()
        .lane_at("x", x.address, 1, "max_concurrent: 7, max_requests: 50")
        .lane("y", &y)
        .rest("  other:\n    members: [{target: x}]\n    breaker: {}");
    let agent = Agent::start(&document.yaml()).await;
    x.always(json(503, ""));
    while agent.cell("other", "x")["state"] == "closed" {
        chat("other", false).send(agent.address).await;
    }
    assert_eq!(x.hits(), 5);
    for pool in ["chat", ""] {
        let cell = agent.cell(pool, "x");
        assert_eq!(
            (
                &cell["state"],
                &cell["window"]["failed"],
                &cell["parked_remaining_s"]
            ),
            (&"closed".into(), &0.into(), &0.0.into()),
            "{pool}: {cell}"
        );
    }
    x.always(completion("x"));
    for _ in 0..4 {
        assert_eq!(chat("chat", false).send(agent.address).await.status, 200);
    }
    assert_eq!((x.hits() - 5, y.hits()), (2, 2), "its turns are unchanged");
    assert_eq!(chat("x", false).send(agent.address).await.status, 200);
    assert_eq!(chat("other", false).send(agent.address).await.status, 503);
    let lane = agent.lane("x");
    assert_eq!(
        (
            &lane["requests_spent"],
            &lane["permits_available"],
            &lane["ok"]
        ),
        (&3.into(), &7.into(), &3.into()),
        "one account for all: {lane}"
    );
}
