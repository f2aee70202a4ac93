//! A provider's own breaker, the only one that refuses, from its first trip to an override of it.

use lanekeeper_tests::{Fleet, LIVENESS, Options, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// One report interval and its jitter; a transition's report is earlier.
const VISIBLE_BOUND: Duration = Duration::from_secs(12);
const OVERRIDES: &str = "/admin/v1/gateways/edge/overrides";
const OWN: &str = "/api/v1/breaker-state?provider=east&detail=agents";
const SMALL: &str = "/admin/v1/gateways/edge/circuit-breaker";

/// Three agents whose pool `chat` has lanes of provider `east` alone. Its pools' breakers refuse
/// nothing; the provider's own trips at once, for longer than the test.
async fn fleet_behind_east() -> Fleet {
    let observe = json!({"mode": "observe"});
    let fleet = Fleet::start(Options {
        breaker: observe.clone(),
        ..Options::default()
    })
    .await
    .unwrap();
    let mut document = fleet.document(&observe);
    document["providers"]["east"]["breaker"] = json!({"base_cooldown_secs": 600,
        "max_cooldown_secs": 600, "park_secs": 0,
        "trip": {"mode": "consecutive", "consecutive_n": 2}});
    document["pools"]["chat"]["members"] = json!([{"target": "gpt-east"}]);
    let answer = fleet.put_config(&document, 1).await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    fleet.applied(2, 3, LIVENESS).await;
    fleet
}

async fn get(fleet: &Fleet, path: &str) -> Result<Value, String> {
    fleet.get(path).await.map_err(|error| error.to_string())
}

/// The rows of provider `east`'s own cell; there is one at most.
async fn own_cell(fleet: &Fleet) -> Result<Option<Value>, String> {
    let view = get(fleet, OWN).await?;
    let cells = view["cells"].as_array().ok_or("no cells")?;
    let mut own = cells.iter().filter(|cell| cell["lane"].is_null());
    let first = own.next().cloned();
    assert!(own.next().is_none(), "{view}");
    Ok(first)
}

async fn open_on_all(fleet: &Fleet) -> Value {
    let (cell, took) = eventually("open on 3 of 3", VISIBLE_BOUND, || async {
        for number in 0..fleet.agents.len() {
            fleet.chat(number).await;
        }
        match own_cell(fleet).await? {
            Some(cell) if cell["agents"]["open"] == 3 => Ok(cell),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    println!("a provider's own cell: open on 3 of 3 after {took:?}");
    cell
}

/// Gives an override of `east` and waits until three agents have applied it.
async fn give(fleet: &Fleet, action: &str, ttl_secs: u64) -> String {
    let body = json!({"action": action, "provider": "east", "reason": "a story",
        "ttl_secs": ttl_secs, "allow_empty": true});
    let answer = fleet.post(OVERRIDES, &body).await.unwrap();
    let (status, given): (_, Value) = (answer.status(), answer.json().await.unwrap());
    assert_eq!(status, 201, "{given}");
    assert_eq!(given["provider"], "east", "{given}");
    let path = format!("{OVERRIDES}/{}", given["id"].as_str().unwrap());
    eventually(&format!("3 agents applied {action}"), LIVENESS, || async {
        let shown = get(fleet, &path).await?;
        match shown["agents_applied"] == 3 {
            true => Ok(()),
            false => Err(shown.to_string()),
        }
    })
    .await;
    path
}

/// Finding G1: callers got 503 from all agents while every list of the fleet was empty.
#[tokio::test]
async fn open_provider_is_seen_everywhere_and_an_override_of_it_is_carried_out() {
    let fleet = fleet_behind_east().await;
    let closed = get(&fleet, "/api/v1/summary").await.unwrap()["cells"]["closed"].clone();
    fleet
        .set_fault(json!({"model": "gpt-east", "status": 503}))
        .await
        .unwrap();
    let cell = open_on_all(&fleet).await;
    assert_eq!(
        [&cell["pool"], &cell["lane"], &cell["provider"]],
        [&Value::Null, &Value::Null, &json!("east")]
    );
    assert_eq!(cell["state"], "open", "{cell}");
    assert_eq!(cell["scope"], "fleet", "{cell}");
    assert_eq!(cell["cause"]["status"], 503, "{cell}");
    assert_eq!(cell["by_agent"].as_array().unwrap().len(), 3, "{cell}");
    let summary = get(&fleet, "/api/v1/summary").await.unwrap();
    assert!(summary["incidents"].as_u64() >= Some(1), "{summary}");
    assert!(
        summary["cells"]["closed"].as_u64() < closed.as_u64(),
        "{closed} were closed before: {summary}"
    );
    let small = get(&fleet, SMALL).await.unwrap();
    assert_eq!(small["east"]["state"], "open", "{small}");
    let url = format!("{}/metrics", fleet.agents[0].url("ops"));
    let metrics = fleet.http.get(url).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for series in ["state", "trips_total", "rejects_total"] {
        let series =
            format!("lanekeeper_provider_breaker_{series}{{gateway=\"edge\",provider=\"east\"}}");
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }

    fleet.clear_faults().await.unwrap();
    assert!(!fleet.chat(0).await, "open for ten minutes yet");
    give(&fleet, "reset", 60).await;
    for number in 0..3 {
        assert!(fleet.chat(number).await, "{number} after the reset");
    }

    let path = give(&fleet, "force_open", 300).await;
    for number in 0..3 {
        assert!(!fleet.chat(number).await, "{number} is forced open");
    }
    eventually("the view names the override", LIVENESS, || async {
        match own_cell(&fleet).await? {
            Some(cell)
                if cell["override"]["reason"] == "a story" && cell["override"]["agents"] == 3 =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let url = format!("{}{path}", fleet.server.url("http"));
    let released = fleet.http.delete(url).bearer_auth(&fleet.token).send();
    assert_eq!(released.await.unwrap().status(), 204);
    eventually("callers are served again", LIVENESS, || async {
        for number in 0..3 {
            if !fleet.chat(number).await {
                return Err(format!("agent {number} refuses"));
            }
        }
        Ok(())
    })
    .await;
}
