//! An agent that is killed is stale, and never counted as closed.

use lanekeeper_tests::{Fleet, LIVENESS, Options, eventually, holds_for};
use serde_json::Value;
use std::time::{Duration, Instant};

const STALE_BOUND: Duration = Duration::from_secs(35);

async fn agent_states(fleet: &Fleet) -> Vec<String> {
    let agents = fleet.get("/api/v1/agents").await.unwrap();
    let items = agents["agents"].as_array().unwrap().iter();
    items
        .map(|agent| agent["state"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_killed_agent_is_stale_within_35_s_and_never_counted_as_closed() {
    let mut fleet = Fleet::start(Options::default()).await.unwrap();
    let counts = |cell: &Value, name: &str| cell["agents"][name].as_u64().unwrap();
    eventually("closed on 3 of 3", LIVENESS, || async {
        let cell = fleet
            .cell("chat", "gpt-east")
            .await
            .unwrap()
            .ok_or("not listed")?;
        if counts(&cell, "closed") == 3 {
            Ok(())
        } else {
            Err(cell.to_string())
        }
    })
    .await;
    let killed = Instant::now();
    fleet.agents[0].kill().await;
    let (cell, _) = eventually("one agent stale", STALE_BOUND, || async {
        let cell = fleet
            .cell("chat", "gpt-east")
            .await
            .unwrap()
            .ok_or("not listed")?;
        if counts(&cell, "stale") == 1 {
            Ok(cell)
        } else {
            Err(cell.to_string())
        }
    })
    .await;
    println!("stale after {:?}", killed.elapsed());
    assert_eq!(
        (counts(&cell, "reporting"), counts(&cell, "closed")),
        (2, 2),
        "{cell}"
    );
    let mut states = agent_states(&fleet).await;
    states.sort();
    assert_eq!(states, ["live", "live", "stale"]);
    let view = fleet.get("/api/v1/breaker-state").await.unwrap();
    assert_eq!(view["agents"]["stale"], 1, "{view}");
    holds_for("two closed", Duration::from_secs(3), || async {
        let cell = fleet
            .cell("chat", "gpt-east")
            .await
            .unwrap()
            .ok_or("not listed")?;
        if counts(&cell, "closed") == 2 {
            Ok(())
        } else {
            Err(cell.to_string())
        }
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_is_asked_to_stop_drains_and_leaves_at_once() {
    let mut fleet = Fleet::start(Options {
        agents: 2,
        ..Options::default()
    })
    .await
    .unwrap();
    fleet.agents[0].signal("TERM").await;
    assert_eq!(fleet.agents[0].exit_code(LIVENESS).await, Some(0));
    eventually("one agent is gone", Duration::from_secs(2), || async {
        let mut states = agent_states(&fleet).await;
        states.sort();
        if states == ["gone", "live"] {
            Ok(())
        } else {
            Err(format!("{states:?}"))
        }
    })
    .await;
}
