//! Incidents and the timeline while the replicas that keep them die.

use lanekeeper_tests::{Cluster, LIVENESS, eventually};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// How many changes of state each agent counts, by its name.
async fn counted(cluster: &Cluster) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for (number, agent) in cluster.agents.iter().enumerate() {
        let url = format!("{}/metrics", agent.url("ops"));
        let text = cluster
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
            .filter(|line| line.starts_with("lanekeeper_breaker_transitions_total{"));
        let values = series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        let name = format!("node-{number}");
        let count = values.sum::<f64>() as u64;
        if count > 0 {
            counted.insert(name, count);
        }
    }
    counted
}

/// How many changes of state the timeline has of each agent; each number is there once.
async fn listed(cluster: &Cluster) -> BTreeMap<String, u64> {
    let mut listed = BTreeMap::<String, u64>::new();
    let mut seen = BTreeSet::new();
    let mut path = "/api/v1/timeline?limit=250".to_owned();
    loop {
        let page = cluster.get(0, &path).await.unwrap();
        for entry in page["entries"].as_array().unwrap() {
            assert_eq!(entry["missing"], 0, "nothing was shed: {entry}");
            let number = (entry["instance"].to_string(), entry["sequence"].as_u64());
            assert!(seen.insert(number), "twice: {entry}");
            *listed
                .entry(entry["agent"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/v1/timeline?limit=250&cursor={cursor}"),
            None => return listed,
        }
    }
}

async fn calls(cluster: &Cluster) {
    for agent in &cluster.agents {
        let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
        let url = format!("{}/v1/chat/completions", agent.url("proxy"));
        let answered = cluster.http.post(url).json(&body).send().await;
        assert_eq!(answered.unwrap().status(), 200);
    }
}

async fn incidents(cluster: &Cluster) -> Vec<Value> {
    let page = cluster.get(0, "/api/v1/incidents").await.unwrap();
    page["incidents"].as_array().unwrap().clone()
}

/// Which control plane decides about incidents.
async fn decider(cluster: &Cluster) -> Option<usize> {
    for (number, replica) in cluster.control_planes.iter().enumerate() {
        let open = cluster.metric(replica, "lanekeeper_incidents_open").await;
        if open.is_ok_and(|open| open > 0.0) {
            return Some(number);
        }
    }
    None
}

#[tokio::test]
async fn an_incident_opens_and_closes_once_though_the_replica_that_opened_it_is_killed() {
    let mut cluster = Cluster::start(2, 4).await.unwrap();
    let faults = format!("{}/faults", cluster.provider.url("sim-provider"));
    let fault = json!({"model": "gpt-east", "status": 503});
    let set = cluster
        .http
        .post(&faults)
        .json(&fault)
        .send()
        .await
        .unwrap();
    assert!(set.status().is_success());
    let (first, _) = eventually("an incident of the lane", LIVENESS, || async {
        calls(&cluster).await;
        match (
            incidents(&cluster).await.as_slice(),
            decider(&cluster).await,
        ) {
            ([only], Some(decider)) if only["agents_total"] == 4 => Ok((only.clone(), decider)),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let (incident, decider) = first;
    cluster.control_planes[decider].kill().await;

    // What changes while it is away is kept by its agents and by nobody else.
    for _ in 0..10 {
        calls(&cluster).await;
    }
    let cleared = cluster.http.delete(&faults).send().await.unwrap();
    assert!(cleared.status().is_success());
    cluster.restart_control_plane(decider).await.unwrap();
    eventually("it is over", LIVENESS, || async {
        calls(&cluster).await;
        match incidents(&cluster).await.as_slice() {
            [only] if only["state"] == "closed" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let over = incidents(&cluster).await;
    assert_eq!(
        over[0]["id"], incident["id"],
        "one incident from its beginning to its end"
    );
    assert_eq!(over[0]["ending"], "recovered");
    assert_eq!(over[0]["opened_at"], incident["opened_at"]);

    eventually("the timeline has every change once", LIVENESS, || async {
        let (listed, counted) = (listed(&cluster).await, counted(&cluster).await);
        match listed == counted {
            true => Ok(()),
            false => Err(format!("{listed:?} of {counted:?}")),
        }
    })
    .await;
}
