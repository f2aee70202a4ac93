//! A simulated fleet against a real server: nothing goes wrong while all is well, and everybody is
//! back after the server was killed.

use lanekeeper_tests::{Fleet, Options, eventually, target_folder};
use serde_json::Value;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

const AGENTS: usize = 200;

/// Starts the swarm; its JSON is what it prints.
fn swarm(fleet: &Fleet, seconds: u32) -> tokio::process::Child {
    Command::new(target_folder().join("lanekeeper"))
        .args([
            "--log=warn",
            "fleet-sim",
            "--insecure",
            "--gateway=edge",
            "--json",
        ])
        .arg(format!(
            "--control-plane=http://{}",
            fleet.server.address("grpc")
        ))
        .arg(format!("--agents={AGENTS}"))
        .arg("--cells=50")
        .arg("--transition-secs=20")
        .arg(format!("--seconds={seconds}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn summary(output: &Output) -> Value {
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {log}"))
}

/// The view counts those that have reported; the summary also those that have only said Hello.
async fn all_live(fleet: &Fleet) {
    let bound = Duration::from_secs(30);
    eventually("all simulated agents are live", bound, || async {
        let view = fleet.get("/api/v1/breaker-state").await;
        match view {
            Ok(view) if view["agents"]["live"] == AGENTS => Ok(()),
            Ok(view) => Err(view["agents"].to_string()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn simulated_fleet_is_served_without_an_error() {
    let options = Options {
        agents: 0,
        ..Options::default()
    };
    let fleet = Fleet::start(options).await.unwrap();
    let swarm = swarm(&fleet, 20);
    all_live(&fleet).await;
    let view = fleet.get("/api/v1/breaker-state").await.unwrap();
    assert_eq!(view["partial"], false);
    assert_eq!(view["agents"]["live"], AGENTS);
    assert!(!view["cells"].as_array().unwrap().is_empty());

    let summary = summary(&swarm.wait_with_output().await.unwrap());
    assert_eq!(summary["connected"], AGENTS, "{summary}");
    assert_eq!(summary["errors"], 0, "{summary}");
    let count = |name: &str| summary[name].as_u64().unwrap();
    // One acknowledgement may cover several reports, and the last ones may be on their way.
    assert!(count("reports") > AGENTS as u64, "{summary}");
    assert!(count("acks") >= AGENTS as u64, "{summary}");
    assert!(summary["ack_p99_ms"].as_f64().is_some() && summary["push_p99_ms"].as_f64().is_some());
    assert_eq!(summary["pushes"], AGENTS, "{summary}");
}

#[tokio::test]
async fn every_simulated_agent_is_back_after_the_server_was_killed() {
    let options = Options {
        agents: 0,
        ..Options::default()
    };
    let mut fleet = Fleet::start(options).await.unwrap();
    let swarm = swarm(&fleet, 40);
    all_live(&fleet).await;
    fleet.server.kill().await;
    fleet.restart_server().await.unwrap();
    all_live(&fleet).await;
    let summary = summary(&swarm.wait_with_output().await.unwrap());
    assert_eq!(summary["connected"], AGENTS, "{summary}");
    assert_eq!(summary["reconnect"]["count"], AGENTS, "{summary}");
    for kind in ["protocol", "refused", "rejected"] {
        assert_eq!(summary["errors_by_kind"][kind], Value::Null, "{summary}");
    }
}
