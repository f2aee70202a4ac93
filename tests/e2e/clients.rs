//! The vendors' client packages see no failure while one provider fails in every way.

use lanekeeper_tests::{Fleet, LIVENESS, Options, run_clients};
use serde_json::{Value, json};

const CALLS_PER_FAULT: u64 = 125;
/// The two lanes of each pool.
const LANES: [[&str; 2]; 5] = [
    ["gpt-east", "gpt-west"],
    ["claude-north", "claude-south"],
    ["responses-1", "responses-2"],
    ["gemini-1", "gemini-2"],
    ["cohere-1", "cohere-2"],
];
/// The first lane of each pool, and its provider.
const FAILING_LANES: [&str; 5] = [
    "gpt-east",
    "claude-north",
    "responses-1",
    "gemini-1",
    "cohere-1",
];
const FAILING: [&str; 5] = ["east", "north", "p-responses-1", "p-gemini-1", "p-cohere-1"];

/// A fleet whose gateway also has the pools `responses`, `gemini` and `cohere`, of two lanes each.
async fn of_all_protocols(agents: usize, breaker: &Value) -> Fleet {
    let options = Options {
        agents,
        breaker: breaker.clone(),
        ..Options::default()
    };
    let fleet = Fleet::start(options).await.unwrap();
    let mut document = fleet.document(breaker);
    let base = fleet.provider.url("sim-provider");
    for protocol in ["responses", "gemini", "cohere"] {
        let mut members = Vec::new();
        for number in 1..=2 {
            let lane = format!("{protocol}-{number}");
            let provider = format!("p-{lane}");
            document["providers"][&provider] = json!({
                "protocol": protocol, "base_url": format!("{base}/{provider}"), "api_key": null,
            });
            document["models"][&lane] = json!({
                "provider": provider, "attempt_timeout_ms": 1000, "first_content_timeout_ms": 1500,
            });
            members.push(json!({"target": lane}));
        }
        document["pools"][protocol] = json!({"members": members, "breaker": breaker});
    }
    let put = fleet.put_config(&document, 1).await.unwrap();
    assert!(put.status().is_success(), "{put:?}");
    fleet.applied(2, agents, LIVENESS).await;
    fleet
}

#[tokio::test]
async fn real_clients_see_no_failure_of_500_calls_while_one_provider_fails() {
    // A short cooldown, so that each fault is met again and not only until the lane opens.
    let breaker = json!({"base_cooldown_secs": 1, "max_cooldown_secs": 2, "jitter_ratio": 0,
        "jitter_floor_secs": 0, "park_secs": 0.2});
    let fleet = of_all_protocols(3, &breaker).await;
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
        for provider in FAILING {
            let mut fault = fault.clone();
            fault["path"] = json!(format!("/{provider}/"));
            fleet.set_fault(fault).await.unwrap();
        }
        let tally = run_clients(&fleet.agent_urls(), CALLS_PER_FAULT, 8)
            .await
            .unwrap();
        assert!(tally.failures.is_empty(), "{name}: {:?}", tally.failures);
        for lane in FAILING_LANES {
            let arrivals = fleet.arrivals(lane, 0).await.unwrap();
            let hit = arrivals.iter().any(|arrival| !arrival["fault"].is_null());
            assert!(hit, "{name}: the fault of {lane} met no request");
        }
        calls += tally.calls;
        fleet.clear_faults().await.unwrap();
        let url = format!("{}/requests", fleet.provider.url("sim-provider"));
        fleet.http.delete(url).send().await.unwrap();
    }
    assert_eq!(calls, 500);
}

#[tokio::test]
async fn a_stream_that_dies_after_content_is_reported_to_the_caller_and_not_repeated() {
    let fleet = of_all_protocols(1, &json!({})).await;
    fleet
        .set_fault(json!({"cut_after_frames": 3}))
        .await
        .unwrap();
    let calls = 2 * LANES.len() as u64;
    let tally = run_clients(&fleet.agent_urls(), calls, 1).await.unwrap();
    assert_eq!(
        tally.failures.len() as u64,
        calls,
        "a cut stream was taken for a whole one: {tally:?}"
    );
    // The whole answer may be tried once more; a stream that has delivered content never is.
    for lanes in LANES {
        let mut streamed = 0;
        for lane in lanes {
            let arrivals = fleet.arrivals(lane, 0).await.unwrap();
            streamed += arrivals.iter().filter(|arrival| is_stream(arrival)).count();
        }
        assert_eq!(streamed, 1, "{lanes:?}");
    }
}

fn is_stream(arrival: &Value) -> bool {
    arrival["stream"] == true
}
