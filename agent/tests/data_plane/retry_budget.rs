//! A pool's retry budget: further attempts are a share of the first ones.

use crate::caller::chat;
use crate::gateway::{Agent, Document};
use crate::upstream::{Upstream, completion, json};

const NO_BREAKER: &str = "{mode: off}";

async fn attempts(agent: &Agent, calls: u32) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    for _ in 0..calls {
        let got = chat("chat", false).send(agent.address).await;
        let degraded = got.header("x-lanekeeper-degraded").unwrap_or_default();
        answers.push((got.status.as_u16(), degraded.to_owned()));
    }
    answers
}

#[tokio::test]
async fn calls_end_with_what_they_have_once_the_budget_is_spent_and_say_so() {
    let a = Upstream::start(json(503, "{}")).await;
    let b = Upstream::start(completion("b")).await;
    let document = Document::new()
        .lane("a", &a)
        .lane("b", &b)
        .pool("failover: {retry_budget: {ratio: 0.2, min_per_sec: 0}}\nlast_error: own");
    let document = document.breaker(NO_BREAKER);
    let agent = Agent::start(&document.yaml()).await;
    // Half of forty calls meet the dead lane first; a fifth of forty may go on.
    let answers = attempts(&agent, 40).await;
    let ended = answers.iter().filter(|(status, degraded)| {
        assert_eq!(*status != 200, degraded == "retry_budget", "{answers:?}");
        *status != 200
    });
    let ended = ended.count();
    assert_eq!(a.hits(), 20);
    assert!((12..=14).contains(&ended), "{ended}: {answers:?}");
    assert_eq!(b.hits(), 40 - ended);
    let metrics = agent.metrics();
    let series = format!("retry_budget_refusals_total{{pool=\"chat\"}} {ended}");
    assert!(metrics.contains(&series), "{metrics}");
}

#[tokio::test]
async fn tries_in_place_are_further_attempts_too_and_without_a_ratio_nothing_is_bounded() {
    for (budget, hits) in [("{ratio: 0.1, min_per_sec: 0}", 11), ("{ratio: null}", 20)] {
        let a = Upstream::start(json(503, "{}")).await;
        let document = Document::new().lane("a", &a).pool(&format!(
            "failover: {{same_lane_retries: 1, retry_backoff_ms: 1, retry_budget: {budget}}}"
        ));
        let agent = Agent::start(&document.breaker(NO_BREAKER).yaml()).await;
        attempts(&agent, 10).await;
        assert_eq!(a.hits(), hits, "{budget}");
    }
}
