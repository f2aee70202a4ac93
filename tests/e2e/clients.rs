//! The vendors' client packages see no failure while one provider fails in every way.

use lanekeeper_tests::{Fleet, Options, run_clients};
use serde_json::json;

const CALLS_PER_FAULT: u64 = 125;

#[tokio::test]
async fn real_clients_see_no_failure_of_500_calls_while_one_provider_fails() {
    // A short cooldown, so that each fault is met again and again and not only until the lane opens.
    let breaker = json!({"base_cooldown_secs": 1, "max_cooldown_secs": 2, "jitter_ratio": 0,
        "jitter_floor_secs": 0, "park_secs": 0.2});
    let fleet = Fleet::start(Options {
        breaker,
        ..Options::default()
    })
    .await
    .unwrap();
    let faults = [
        ("503", json!({"status": 503})),
        (
            "429 with Retry-After",
            json!({"status": 429, "headers": {"retry-after": "1"}}),
        ),
        ("hang before headers", json!({"hang": "before_headers"})),
        ("death before content", json!({"cut_after_frames": 0})),
    ];
    let mut calls = 0;
    for (name, fault) in faults {
        let mut hit = 0;
        for provider in ["/east", "/north"] {
            let mut fault = fault.clone();
            fault["path"] = json!(provider);
            fleet.set_fault(fault).await.unwrap();
        }
        let tally = run_clients(&fleet.agent_urls(), CALLS_PER_FAULT, 8)
            .await
            .unwrap();
        assert!(tally.failures.is_empty(), "{name}: {:?}", tally.failures);
        for model in ["gpt-east", "claude-north"] {
            let arrivals = fleet.arrivals(model, 0).await.unwrap();
            hit += arrivals
                .iter()
                .filter(|arrival| !arrival["fault"].is_null())
                .count();
        }
        assert!(hit > 0, "{name}: the fault met no request");
        calls += tally.calls;
        fleet.clear_faults().await.unwrap();
        let url = format!("{}/requests", fleet.provider.url("sim-provider"));
        fleet.http.delete(url).send().await.unwrap();
    }
    assert_eq!(calls, 500);
}

#[tokio::test]
async fn a_stream_that_dies_after_content_is_told_to_the_caller_and_not_repeated() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    fleet
        .set_fault(json!({"cut_after_frames": 3}))
        .await
        .unwrap();
    let tally = run_clients(&fleet.agent_urls(), 4, 1).await.unwrap();
    assert_eq!(
        tally.failures.len(),
        4,
        "a cut stream was taken for a whole one: {tally:?}"
    );
    let arrivals = fleet.arrivals("gpt-east", 0).await.unwrap().len()
        + fleet.arrivals("gpt-west", 0).await.unwrap().len();
    // The whole answer may be tried once more; a stream that has delivered content never is.
    let streams = |arrivals: Vec<serde_json::Value>| {
        arrivals
            .iter()
            .filter(|arrival| arrival["stream"] == true)
            .count()
    };
    let streamed = streams(fleet.arrivals("gpt-east", 0).await.unwrap())
        + streams(fleet.arrivals("gpt-west", 0).await.unwrap());
    assert_eq!(streamed, 1, "of {arrivals} arrivals");
}
