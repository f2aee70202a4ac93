//! The fleet warns its members: two agents find a lane dead, and the third does not have to.

use lanekeeper_tests::{Fleet, LIVENESS, Options, Pace, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LANE: &str = "gpt-east";
/// The promise is a second from the report that makes the quorum; a report takes up to a second.
const ADVISED_BOUND: Duration = Duration::from_secs(3);
/// A server that has just started listens for half a minute before it speaks for the fleet.
const GATHERED_BOUND: Duration = Duration::from_secs(60);

fn document(fleet: &Fleet, mode: &str) -> Value {
    let breaker = json!({"base_cooldown_secs": 300, "max_cooldown_secs": 300, "park_secs": 0,
        "trip": {"mode": "consecutive", "consecutive_n": 1}});
    let mut document = fleet.document(&breaker);
    document["pools"]["chat"]["fleet"] = json!({"mode": mode, "min_agents": 2});
    document
}

async fn cell_at(fleet: &Fleet, number: usize) -> Result<Value, String> {
    let url = format!("{}/stats", fleet.agents[number].url("ops"));
    let answer = fleet.http.get(url).send().await;
    let stats: Value = answer.map_err(|e| e.to_string())?.json().await.unwrap();
    let lanes = stats["lanes"].as_array().ok_or("no lanes")?;
    let lane = lanes.iter().find(|entry| entry["lane"] == LANE);
    let cells = lane.ok_or("no such lane")?["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["pool"] == "chat");
    cell.cloned().ok_or_else(|| stats.to_string())
}

async fn is_advised(fleet: &Fleet, number: usize, wanted: bool) -> Result<(), String> {
    let cell = cell_at(fleet, number).await?;
    if cell["advisory"].is_null() != wanted {
        Ok(())
    } else {
        Err(cell.to_string())
    }
}

async fn opens(fleet: &Fleet, number: usize) {
    eventually("the lane opens", LIVENESS, || async {
        assert!(fleet.chat(number).await, "a call through {number} failed");
        let cell = cell_at(fleet, number).await?;
        match cell["state"] == "open" {
            true => Ok(()),
            false => Err(cell.to_string()),
        }
    })
    .await;
}

async fn advisory_shown(fleet: &Fleet, mode: &str, active: bool) -> Value {
    let (shown, _) = eventually("the view shows the advisory", GATHERED_BOUND, || async {
        let cell = fleet.cell("chat", LANE).await.map_err(|e| e.to_string())?;
        let cell = cell.ok_or("not listed")?;
        let advisory = &cell["advisory"];
        match advisory["mode"] == mode && advisory["active"] == active {
            true => Ok(advisory.clone()),
            false => Err(cell.to_string()),
        }
    })
    .await;
    shown
}

async fn reset(fleet: &Fleet) {
    let order = json!({"action": "reset", "pool": "chat", "lane": LANE, "reason": "again"});
    let path = "/admin/v1/gateways/edge/overrides";
    let answer = fleet.post(path, &order).await.unwrap();
    assert_eq!(answer.status(), 201);
    for number in [0, 1] {
        eventually("the cell is closed", LIVENESS, || async {
            let cell = cell_at(fleet, number).await?;
            match cell["state"] == "closed" {
                true => Ok(()),
                false => Err(cell.to_string()),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn the_third_agent_is_warned_of_what_two_found_out_and_only_where_the_pool_says_so() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let put = fleet.put_config(&document(&fleet, "observe"), 1).await;
    assert_eq!(put.unwrap().status(), 200);
    fleet.applied(2, 3, LIVENESS).await;
    let fault = json!({"model": LANE, "status": 503});
    fleet.set_fault(fault).await.unwrap();
    opens(&fleet, 0).await;
    opens(&fleet, 1).await;

    // Observed: everybody may see what would be advised, and nobody is.
    let shown = advisory_shown(&fleet, "observe", false).await;
    assert_eq!(shown["open_agents"], 2, "{shown}");
    assert_eq!(shown["agents"], 0, "{shown}");
    is_advised(&fleet, 2, false).await.unwrap();

    // The same under a document that acts.
    let put = fleet.put_config(&document(&fleet, "act"), 2).await;
    assert_eq!(put.unwrap().status(), 200);
    fleet.applied(3, 3, LIVENESS).await;
    eventually("advised at last", GATHERED_BOUND, || {
        is_advised(&fleet, 2, true)
    })
    .await;
    let before = fleet.arrivals(LANE, 0).await.unwrap();
    let last = before.last().map_or(0, |it| it["seq"].as_u64().unwrap());
    let began = Instant::now();
    for _ in 0..20 {
        assert!(
            fleet.chat(2).await,
            "a call through the advised agent failed"
        );
    }
    let after = fleet.arrivals(LANE, last).await.unwrap().len();
    // One canary in five seconds at most.
    let canaries = 1 + began.elapsed().as_secs() / 5;
    assert!(
        after as u64 <= canaries,
        "{after} attempts on the dead lane"
    );
    let shown = advisory_shown(&fleet, "act", true).await;
    assert!(shown["agents"].as_u64().unwrap() >= 1, "{shown}");
    eventually("what it spared is shown", LIVENESS, || async {
        let shown = advisory_shown(&fleet, "act", true).await;
        match shown["spared_attempts"].as_u64().unwrap() >= 5 {
            true => Ok(()),
            false => Err(shown.to_string()),
        }
    })
    .await;
    let metrics = fleet
        .http
        .get(format!("{}/metrics", fleet.agents[2].url("ops")));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    let series =
        format!("lanekeeper_advisory_active{{gateway=\"edge\",pool=\"chat\",lane=\"{LANE}\"}} 1");
    assert!(metrics.contains(&series), "{metrics}");
    let metrics = fleet
        .http
        .get(format!("{}/metrics", fleet.server.url("ops")));
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(
        metrics.contains("lanekeeper_advised_lanes{state=\"sent\"} 1"),
        "{metrics}"
    );

    // The quorum is gone, and so is the advisory; then again, with a stop-watch.
    reset(&fleet).await;
    eventually("no longer advised", LIVENESS, || {
        is_advised(&fleet, 2, false)
    })
    .await;
    opens(&fleet, 0).await;
    opens(&fleet, 1).await;
    let (began, pace) = (Instant::now(), Pace::watch());
    eventually("advised again", LIVENESS, || is_advised(&fleet, 2, true)).await;
    let took = began.elapsed();
    println!("from the second agent's opening to the third's advisory: {took:?}");
    assert!(took < pace.allowed(ADVISED_BOUND), "{took:?}");
}

#[tokio::test]
async fn without_a_control_plane_advice_ends_by_itself_and_the_lane_serves_again() {
    let mut fleet = Fleet::start(Options::default()).await.unwrap();
    let put = fleet.put_config(&document(&fleet, "act"), 1).await;
    assert_eq!(put.unwrap().status(), 200);
    fleet.applied(2, 3, LIVENESS).await;
    fleet
        .set_fault(json!({"model": LANE, "status": 503}))
        .await
        .unwrap();
    opens(&fleet, 0).await;
    opens(&fleet, 1).await;
    eventually("advised", GATHERED_BOUND, || is_advised(&fleet, 2, true)).await;
    fleet.server.kill().await;
    fleet.clear_faults().await.unwrap();
    let (_, took) = eventually("the advisory is over", GATHERED_BOUND, || {
        is_advised(&fleet, 2, false)
    })
    .await;
    println!("without a control plane the advisory ended after {took:?}");
    assert!(fleet.chat(2).await);
}
