//! One probe for the fleet: of three agents that hold a lane open one probes, and its verdict is
//! everybody's; without a control plane each probes for itself.

use lanekeeper_tests::{Fleet, LIVENESS, Options, eventually, holds_for};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LANE: &str = "gpt-east";
const COOLDOWN: Duration = Duration::from_secs(2);

async fn start(probe: &str) -> Fleet {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let secs = COOLDOWN.as_secs();
    let breaker = json!({"base_cooldown_secs": secs, "max_cooldown_secs": secs, "jitter_ratio": 0,
        "jitter_floor_secs": 0, "park_secs": 0.1,
        "trip": {"mode": "consecutive", "consecutive_n": 2}});
    let mut document = fleet.document(&breaker);
    document["pools"]["chat"]["fleet"] = json!({"probe": probe, "mode": "off"});
    assert_eq!(fleet.put_config(&document, 1).await.unwrap().status(), 200);
    fleet.applied(2, 3, LIVENESS).await;
    fleet
}

async fn traffic(fleet: &Fleet) -> Result<(), String> {
    for number in 0..fleet.agents.len() {
        if !fleet.chat(number).await {
            return Err(format!("a call through agent {number} failed"));
        }
    }
    Ok(())
}

async fn states(fleet: &Fleet) -> Result<Vec<Value>, String> {
    let mut states = Vec::new();
    for agent in &fleet.agents {
        let url = format!("{}/stats", agent.url("ops"));
        let answer = fleet
            .http
            .get(url)
            .send()
            .await
            .map_err(|e| e.to_string())?;
        let stats: Value = answer.json().await.unwrap();
        let lanes = stats["lanes"].as_array().ok_or("no lanes")?;
        let lane = lanes.iter().find(|entry| entry["lane"] == LANE);
        let cells = lane.ok_or("no such lane")?["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["pool"] == "chat").unwrap();
        states.push(cell["state"].clone());
    }
    Ok(states)
}

async fn all_are(fleet: &Fleet, wanted: &[&str]) -> Duration {
    let what = format!("every cell is {wanted:?}");
    let ((), took) = eventually(&what, LIVENESS, || async {
        traffic(fleet).await?;
        let states = states(fleet).await?;
        match states
            .iter()
            .all(|state| wanted.iter().any(|it| state == it))
        {
            true => Ok(()),
            false => Err(format!("{states:?}")),
        }
    })
    .await;
    took
}

/// How many attempts reach the dead lane while traffic goes on over some cooldowns, and how long
/// that was.
async fn probes(fleet: &Fleet) -> (usize, Duration) {
    let before = fleet.arrivals(LANE, 0).await.unwrap();
    let last = before.last().unwrap()["seq"].as_u64().unwrap();
    let began = Instant::now();
    holds_for("traffic", Duration::from_secs(9), || traffic(fleet)).await;
    let arrived = fleet.arrivals(LANE, last).await.unwrap().len();
    (arrived, began.elapsed())
}

#[tokio::test]
async fn one_agent_probes_for_three_and_closes_for_all() {
    let mut fleet = start("coordinated").await;
    fleet
        .set_fault(json!({"model": LANE, "status": 503}))
        .await
        .unwrap();
    all_are(&fleet, &["open", "half_open"]).await;
    let (arrived, span) = probes(&fleet).await;
    println!("{arrived} probes by three agents in {span:?}");
    // Cooldowns last 2 s. One more for the first, which agents may have begun at different times.
    let cooldowns = span.as_secs_f64() / COOLDOWN.as_secs_f64();
    assert!(arrived >= 2, "somebody probes");
    assert!(
        (arrived as f64) <= cooldowns + 2.0,
        "{arrived} probes in {span:?}"
    );
    let metrics = fleet
        .http
        .get(format!("{}/metrics", fleet.server.url("ops")));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(
        metrics.contains("lanekeeper_probe_leases_total{answer=\"granted\"}"),
        "{metrics}"
    );
    assert!(
        metrics.contains("lanekeeper_probe_verdicts_total{result=\"failed\"}"),
        "{metrics}"
    );

    let before = fleet.arrivals(LANE, 0).await.unwrap();
    let last = before.last().unwrap()["seq"].as_u64().unwrap();
    fleet.clear_faults().await.unwrap();
    let took = all_are(&fleet, &["closed"]).await;
    println!("closed on three agents after {took:?}");
    let logs: String = (0..3)
        .map(|number| fleet.log(&format!("agent-{number}.log")))
        .collect();
    assert!(
        logs.contains("fleet_probe_succeeded"),
        "closed by another's verdict: {logs}"
    );
    assert!(!fleet.arrivals(LANE, last).await.unwrap().is_empty());

    // Without a control plane each probes for itself, and nobody waits.
    fleet
        .set_fault(json!({"model": LANE, "status": 503}))
        .await
        .unwrap();
    all_are(&fleet, &["open", "half_open"]).await;
    fleet.server.kill().await;
    let (arrived, span) = probes(&fleet).await;
    println!("{arrived} probes by three agents in {span:?} without a control plane");
    fleet.clear_faults().await.unwrap();
    all_are(&fleet, &["closed"]).await;
}
