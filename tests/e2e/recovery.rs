//! The end of a cooldown under a crowd.

use lanekeeper_tests::{Fleet, LIVENESS, Options, eventually};
use serde_json::{Value, json};

#[tokio::test]
async fn of_200_concurrent_requests_at_the_end_of_a_cooldown_one_reaches_the_lane() {
    let breaker = json!({"base_cooldown_secs": 2, "max_cooldown_secs": 2, "jitter_ratio": 0,
        "jitter_floor_secs": 0, "park_secs": 0,
        "trip": {"mode": "consecutive", "consecutive_n": 1}});
    let fleet = Fleet::start(Options {
        agents: 1,
        breaker,
        ..Options::default()
    })
    .await
    .unwrap();
    fleet
        .set_fault(json!({"model": "gpt-east", "status": 503}))
        .await
        .unwrap();
    eventually("the lane opens", LIVENESS, || async {
        assert!(fleet.chat(0).await);
        cell(&fleet, "gpt-east")
            .await
            .map(|cell| cell["state"] == "open")
            .and_then(|open| {
                if open {
                    Ok(())
                } else {
                    Err("still closed".to_owned())
                }
            })
    })
    .await;

    // The probe is slow, so all others arrive while it runs.
    fleet.clear_faults().await.unwrap();
    fleet
        .set_fault(json!({"model": "gpt-east", "delay_ms": 700}))
        .await
        .unwrap();
    eventually("the cooldown ends", LIVENESS, || async {
        let remaining = cell(&fleet, "gpt-east").await?["cooldown_remaining_s"].clone();
        if remaining.as_f64() == Some(0.0) {
            Ok(())
        } else {
            Err(remaining.to_string())
        }
    })
    .await;
    let before = fleet.arrivals("gpt-east", 0).await.unwrap().last().unwrap()["seq"].clone();
    let calls = (0..200).map(|_| fleet.chat(0));
    let answered = futures_util::future::join_all(calls).await;
    assert!(answered.iter().all(|good| *good), "a call failed");
    let reached = fleet
        .arrivals("gpt-east", before.as_u64().unwrap())
        .await
        .unwrap();
    assert_eq!(reached.len(), 1, "of 200 requests one is the probe");
}

/// A cell of pool `chat` in the agent's own /stats.
async fn cell(fleet: &Fleet, lane: &str) -> Result<Value, String> {
    let url = format!("{}/stats", fleet.agents[0].url("ops"));
    let stats: Value = fleet
        .http
        .get(url)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let lanes = stats["lanes"].as_array().unwrap();
    let lane = lanes
        .iter()
        .find(|entry| entry["lane"] == lane)
        .ok_or("no such lane")?;
    let cells = lane["cells"].as_array().unwrap();
    cells
        .iter()
        .find(|cell| cell["pool"] == "chat")
        .cloned()
        .ok_or_else(|| lane.to_string())
}
