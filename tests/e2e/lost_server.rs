//! The server is killed: traffic does not notice, agents come back, a restarted agent serves.

use lanekeeper_tests::{Fleet, LIVENESS, Options, eventually, holds_for};
use serde_json::Value;
use std::time::Duration;

const OUTAGE: Duration = Duration::from_secs(60);
/// Reconnects are spread over at most 30 s.
const RETURN_BOUND: Duration = Duration::from_secs(45);

#[tokio::test]
async fn sixty_seconds_without_the_server_cost_no_request_and_a_restarted_agent_serves_its_file() {
    let mut fleet = Fleet::start(Options::default()).await.unwrap();
    fleet.server.kill().await;

    fleet.agents[2].kill().await;
    let restarted = fleet.start_agent(2).await.unwrap();
    fleet.agents[2] = restarted;
    eventually("the restarted agent serves", LIVENESS, || async {
        if fleet.chat(2).await {
            Ok(())
        } else {
            Err("no good answer".to_owned())
        }
    })
    .await;
    let url = format!("{}/stats", fleet.agents[2].url("ops"));
    let stats: Value = fleet
        .http
        .get(url)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(stats["agent"]["config_source"], "disk", "{stats}");
    assert_eq!(stats["agent"]["connected"], false, "{stats}");
    assert_eq!(stats["agent"]["revision"], 1, "{stats}");
    let url = format!("{}/readyz", fleet.agents[2].url("ops"));
    assert_eq!(fleet.http.get(url).send().await.unwrap().status(), 200);

    holds_for("traffic", OUTAGE, || async {
        for number in 0..3 {
            if !fleet.chat(number).await {
                return Err(format!("a call through agent {number} failed"));
            }
        }
        Ok(())
    })
    .await;

    fleet.restart_server().await.unwrap();
    let took = fleet.applied(1, 3, RETURN_BOUND).await;
    println!("3 of 3 agents back after {took:?}");
}
