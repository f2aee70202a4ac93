//! What the fleet sees of a failing lane, and how it recovers.

use lanekeeper_tests::{Fleet, LIVENESS, Options, eventually, holds_for};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LANE: &str = "gpt-east";
/// Twelve seconds: one report interval and its jitter.
const VISIBLE_BOUND: Duration = Duration::from_secs(12);

fn breaker() -> Value {
    json!({"base_cooldown_secs": 2, "max_cooldown_secs": 2, "jitter_ratio": 0,
        "jitter_floor_secs": 0, "park_secs": 0.1,
        "trip": {"mode": "consecutive", "consecutive_n": 3}})
}

/// Sends traffic through every agent until stopped, and counts failures.
async fn traffic(fleet: &Fleet) -> Result<(), String> {
    for number in 0..fleet.agents.len() {
        if !fleet.chat(number).await {
            return Err(format!("a call through agent {number} failed"));
        }
    }
    Ok(())
}

async fn cell_state(fleet: &Fleet) -> Result<Value, String> {
    match fleet.cell("chat", LANE).await {
        Ok(Some(cell)) => Ok(cell),
        Ok(None) => Err("the cell is not listed".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn an_open_lane_is_seen_on_3_of_3_is_probed_once_a_cooldown_and_closes() {
    let fleet = Fleet::start(Options {
        breaker: breaker(),
        ..Options::default()
    })
    .await
    .unwrap();
    fleet
        .set_fault(json!({"model": LANE, "status": 503}))
        .await
        .unwrap();

    let ((), took) = eventually("open on 3 of 3", VISIBLE_BOUND, || async {
        traffic(&fleet).await?;
        let cell = cell_state(&fleet).await?;
        if cell["agents"]["open"] == 3 {
            Ok(())
        } else {
            Err(cell.to_string())
        }
    })
    .await;
    println!("open on 3 of 3 agents after {took:?}");
    let cell = cell_state(&fleet).await.unwrap();
    assert_eq!(cell["state"], "open", "{cell}");
    assert_eq!(cell["scope"], "fleet", "{cell}");
    assert_eq!(cell["agents"]["reporting"], 3, "{cell}");
    assert_eq!(cell["cause"]["status"], 503, "{cell}");
    assert_eq!(cell["by_agent"].as_array().unwrap().len(), 3, "{cell}");

    // Traffic goes on over several cooldowns of two seconds: in each, one probe per agent arrives.
    let before = fleet.arrivals(LANE, 0).await.unwrap().last().unwrap()["seq"]
        .as_u64()
        .unwrap();
    let start = Instant::now();
    holds_for("traffic", Duration::from_secs(9), || traffic(&fleet)).await;
    let span = start.elapsed();
    let probes = fleet.arrivals(LANE, before).await.unwrap();
    assert_probes_are_a_cooldown_apart(&probes, span);

    fleet.clear_faults().await.unwrap();
    let before = probes.last().unwrap()["seq"].as_u64().unwrap();
    let lifted = Instant::now();
    eventually("closed on 3 of 3", LIVENESS, || async {
        traffic(&fleet).await?;
        let cell = cell_state(&fleet).await?;
        if cell["agents"]["closed"] == 3 {
            Ok(())
        } else {
            Err(cell.to_string())
        }
    })
    .await;
    println!("closed on 3 of 3 agents after {:?}", lifted.elapsed());
    let first_good = fleet.arrivals(LANE, before).await.unwrap();
    assert!(first_good.len() >= 3, "each agent's probe reached the lane");
}

/// Each agent's probes carry its address in no header, so they are distinguished by time: three
/// agents may send at most one probe each within one cooldown.
fn assert_probes_are_a_cooldown_apart(probes: &[Value], span: Duration) {
    const AGENTS: usize = 3;
    const COOLDOWN_MS: u64 = 2000;
    let times: Vec<u64> = probes
        .iter()
        .map(|probe| probe["at_ms"].as_u64().unwrap())
        .collect();
    let most = AGENTS * (usize::try_from(span.as_millis()).unwrap() / 2000 + 1);
    assert!(
        times.len() >= AGENTS * 3,
        "only {} probes in {span:?}",
        times.len()
    );
    assert!(
        times.len() <= most,
        "{} probes in {span:?}, at most {most}",
        times.len()
    );
    for window in times.windows(AGENTS + 1) {
        let apart = window[AGENTS] - window[0];
        assert!(
            apart >= COOLDOWN_MS - 50,
            "{} probes within {apart} ms",
            AGENTS + 1
        );
    }
}

/// Field report B115: what a revision no longer names vanishes from the agent and from the fleet's
/// view, and comes back without its past.
#[tokio::test]
async fn a_removed_lane_vanishes_everywhere_and_comes_back_closed() {
    let breaker = json!({"base_cooldown_secs": 600, "max_cooldown_secs": 600,
        "trip": {"mode": "consecutive", "consecutive_n": 1}});
    let fleet = Fleet::start(Options {
        agents: 1,
        breaker: breaker.clone(),
        ..Options::default()
    })
    .await
    .unwrap();
    let fault = json!({"model": LANE, "status": 503});
    fleet.set_fault(fault).await.unwrap();
    let state = async |wanted: Option<&str>| {
        let cell = fleet
            .cell("chat", LANE)
            .await
            .map_err(|it| it.to_string())?;
        let seen = cell.as_ref().and_then(|cell| cell["state"].as_str());
        if seen == wanted {
            Ok(())
        } else {
            Err(format!("{cell:?}"))
        }
    };
    let series = async || {
        let url = format!("{}/metrics", fleet.agents[0].url("ops"));
        let text = fleet.http.get(url).send().await.unwrap().text().await;
        let named = format!("lane=\"{LANE}\"");
        text.unwrap()
            .lines()
            .filter(|it| it.contains(&named))
            .count()
    };
    eventually("open", VISIBLE_BOUND, || async {
        traffic(&fleet).await?;
        state(Some("open")).await
    })
    .await;
    assert!(series().await > 0);

    let whole = fleet.document(&breaker);
    let mut without = whole.clone();
    without["models"].as_object_mut().unwrap().remove(LANE);
    let members = without["pools"]["chat"]["members"].as_array_mut();
    members.unwrap().retain(|member| member["target"] != LANE);
    let put = fleet.put_config(&without, 1).await.unwrap();
    assert!(put.status().is_success(), "{put:?}");
    fleet.applied(2, 1, VISIBLE_BOUND).await;
    assert_eq!(series().await, 0);
    eventually("gone", VISIBLE_BOUND, || state(None)).await;

    let put = fleet.put_config(&whole, 2).await.unwrap();
    assert!(put.status().is_success(), "{put:?}");
    fleet.applied(3, 1, VISIBLE_BOUND).await;
    eventually("closed", VISIBLE_BOUND, || state(Some("closed"))).await;
    assert!(series().await > 0);
}
