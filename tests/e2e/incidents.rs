//! An outage as people see it: from the first agent that meets it to its end.

use lanekeeper_tests::{Fleet, LIVENESS, Options, command, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const LANE: &str = "gpt-east";

async fn traffic(fleet: &Fleet) {
    for number in 0..fleet.agents.len() {
        assert!(fleet.chat(number).await, "a call through agent {number}");
    }
}

/// What a command prints as JSON.
async fn printed(fleet: &Fleet, arguments: &[&str]) -> Value {
    let url = fleet.server.url("http");
    let environment = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", &fleet.token),
    ];
    let output = command(arguments, &environment).await;
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// How many changes of state of the lane each agent counts, by instance's name.
async fn counted(fleet: &Fleet) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for (number, agent) in fleet.agents.iter().enumerate() {
        let url = format!("{}/metrics", agent.url("ops"));
        let text = fleet
            .http
            .get(url)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        let series = text
            .lines()
            .filter(|line| line.starts_with("lanekeeper_breaker_transitions_total{"))
            .filter(|line| line.contains(&format!("lane=\"{LANE}\"")));
        let values = series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        counted.insert(format!("node-{number}"), values.sum::<f64>() as u64);
    }
    counted
}

#[tokio::test]
async fn an_outage_is_one_incident_with_every_change_of_state_and_an_end() {
    let breaker = json!({"base_cooldown_secs": 1, "max_cooldown_secs": 1, "jitter_ratio": 0,
        "jitter_floor_secs": 0, "park_secs": 0.1,
        "trip": {"mode": "consecutive", "consecutive_n": 3}});
    let fleet = Fleet::start(Options {
        breaker,
        ..Options::default()
    })
    .await
    .unwrap();
    let none = fleet.get("/api/v1/incidents").await.unwrap();
    assert_eq!(none["incidents"], json!([]));
    fleet
        .set_fault(json!({"model": LANE, "status": 503}))
        .await
        .unwrap();
    let (incident, _) = eventually("an incident on every agent", LIVENESS, || async {
        traffic(&fleet).await;
        let page = fleet.get("/api/v1/incidents?state=open").await;
        let page = page.map_err(|error| error.to_string())?;
        let incident = page["incidents"][0].clone();
        match incident["agents_total"] == 3 {
            true => Ok(incident),
            false => Err(page.to_string()),
        }
    })
    .await;
    assert_eq!(incident["subject"], json!({"kind": "lane", "name": LANE}));
    assert_eq!(incident["widest_scope"], "fleet");
    assert_eq!(
        (&incident["provider"], &incident["pools"]),
        (&json!("east"), &json!(["chat"]))
    );
    assert_eq!(incident["causes"][0]["status"], 503, "{incident}");
    // The gateway was made moments before.
    assert_eq!(incident["suspects"][0]["kind"], "revision", "{incident}");
    let id = incident["id"].as_str().unwrap().to_owned();

    fleet.clear_faults().await.unwrap();
    let (closed, _) = eventually("it is over", LIVENESS, || async {
        traffic(&fleet).await;
        let shown = fleet.get(&format!("/api/v1/incidents/{id}")).await;
        let shown = shown.map_err(|error| error.to_string())?;
        match shown["incident"]["state"] == "closed" {
            true => Ok(shown),
            false => Err(shown["incident"].to_string()),
        }
    })
    .await;
    assert_eq!(closed["incident"]["ending"], "recovered");
    assert_eq!(closed["agents"].as_array().unwrap().len(), 3);
    assert_eq!(closed["strip"].as_array().unwrap().len(), 3);
    for agent in closed["strip"].as_array().unwrap() {
        let spans = agent["spans"].as_array().unwrap();
        assert_eq!(spans.first().unwrap()["state"], "open", "{agent}");
        assert_eq!(spans.last().unwrap()["state"], "closed", "{agent}");
    }

    // Every change that the agents counted is in the timeline, each once.
    let (timeline, _) = eventually("the timeline has all", LIVENESS, || async {
        let arguments = [
            "timeline",
            "edge",
            "--lane",
            LANE,
            "--limit=5000",
            "-o=json",
        ];
        let timeline = printed(&fleet, &arguments).await;
        let mut listed = BTreeMap::<String, u64>::new();
        for entry in timeline["entries"].as_array().unwrap() {
            *listed
                .entry(entry["agent"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
        let counted = counted(&fleet).await;
        match listed == counted {
            true => Ok(timeline),
            false => Err(format!("{listed:?} of {counted:?}")),
        }
    })
    .await;
    let entries = timeline["entries"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["cause"]["status"] == 503));
    assert!(entries.iter().all(|entry| entry["missing"] == 0));

    let all = printed(&fleet, &["incidents", "-o", "json"]).await;
    assert_eq!(
        all["incidents"].as_array().unwrap().len(),
        1,
        "one, through all its flaps"
    );
    let one = printed(&fleet, &["incidents", &id, "-o", "json"]).await;
    assert_eq!(one["incident"]["id"], id.as_str());
}
