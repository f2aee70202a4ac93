//! What /stats says about cells and lanes in words, and how a change of state is counted.

use crate::caller::chat;
use crate::gateway::{Agent, Document, eventually};
use crate::upstream::{Upstream, answer, completion, json};

#[tokio::test]
async fn tripped_cell_says_how_many_answers_failed_and_how_the_last_one_did() {
    let a = Upstream::start(json(503, "")).await;
    let document = Document::new()
        .lane("a", &a)
        .breaker("{park_secs: 0, trip: {min_requests: 5, threshold: 0.6}}");
    let agent = Agent::start(&document.yaml()).await;
    assert!(agent.cell("chat", "a")["why"].is_null());
    for script in [
        completion("a"),
        json(503, ""),
        completion("a"),
        json(503, ""),
        json(503, ""),
    ] {
        a.next(script);
        chat("chat", false).send(agent.address).await;
    }
    let cell = agent.cell("chat", "a");
    assert_eq!(
        (&cell["state"], &cell["why"]),
        (
            &"open".into(),
            &"3 of 5 answers in 30 s failed, last: status 503".into()
        )
    );
    assert!(cell["cooldown_remaining_s"].as_f64().unwrap() > 10.0);
}

#[tokio::test]
async fn parked_lane_says_for_how_long_and_why() {
    let a = Upstream::start(answer(429, &[("retry-after", "40")], "{}")).await;
    let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
    chat("chat", false).send(agent.address).await;
    let cell = agent.cell("chat", "a");
    assert_eq!(cell["state"], "closed");
    assert!(
        cell["parked_remaining_s"].as_f64().unwrap() > 35.0,
        "{cell}"
    );
    assert_eq!(
        cell["why"],
        "1 of 1 answer in 30 s failed, last: too many requests (status 429)"
    );
}

#[tokio::test]
async fn lane_that_only_people_can_mend_says_what_is_wrong_without_being_dead() {
    for (status, words) in [(401, "auth rejected"), (402, "billing")] {
        let a = Upstream::start(json(status, "{}")).await;
        let agent = Agent::start(&Document::new().lane("a", &a).yaml()).await;
        chat("chat", false).send(agent.address).await;
        let lane = agent.lane("a");
        let reason = lane["dead_reason"].as_str().unwrap();
        assert!(
            reason.contains(words) && reason.contains(&status.to_string()),
            "{reason}"
        );
        assert_eq!(
            (&lane["dead"], &lane["usable"]),
            (&false.into(), &false.into())
        );
        let cell = agent.cell("chat", "a");
        assert!(cell["cooldown_remaining_s"].as_f64().unwrap() > 1_700.0);
        assert_eq!(cell["why"], reason);
    }
}

#[tokio::test]
async fn lane_without_its_key_or_budget_is_dead_and_says_so() {
    let a = Upstream::start(completion("a")).await;
    let document = Document::new().lane_at("a", a.address, 1, "max_requests: 1");
    let agent = Agent::start(&document.yaml()).await;
    chat("chat", false).send(agent.address).await;
    let lane = agent.lane("a");
    assert_eq!(lane["dead_reason"], "the lifetime budget is spent");
    agent.apply(&document.yaml().replace(
        "api_key: null",
        "api_key: {env: LANEKEEPER_TEST_NO_SUCH_KEY}",
    ));
    let lane = agent.lane("a");
    assert_eq!(lane["dead"], true);
    let reason = lane["dead_reason"].as_str().unwrap();
    assert!(reason.contains("LANEKEEPER_TEST_NO_SUCH_KEY"), "{reason}");
}

#[tokio::test]
async fn change_of_mode_is_counted_like_any_transition() {
    let a = Upstream::start(json(503, "")).await;
    let breaker = |mode: &str| {
        let breaker = format!(
            "{{mode: {mode}, trip: {{mode: consecutive, consecutive_n: 1}}, base_cooldown_secs: 60}}"
        );
        Document::new().lane("a", &a).breaker(&breaker).yaml()
    };
    let agent = Agent::start(&breaker("enforce")).await;
    chat("chat", false).send(agent.address).await;
    assert_eq!(agent.cell("chat", "a")["state"], "open");
    agent.apply(&breaker("off"));
    let line = r#"{pool="chat",lane="a",from="open",to="closed",reason="policy",cause="",mode="enforce"} 1"#;
    eventually("it is counted", || agent.metrics().contains(line)).await;
    assert_eq!(agent.cell("chat", "a")["state"], "closed");
}
