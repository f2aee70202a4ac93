//! A person manages a fleet from the command line: differences, tokens, agents, a live view.

use lanekeeper_tests::{Fleet, LIVENESS, Options, command, eventually, target_folder};
use serde_json::{Value, json};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const BOUND: Duration = LIVENESS;

fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8(all).unwrap()
}

fn parsed(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn an_agent_goes_out_of_service_and_comes_back_on_an_operators_word() {
    let fleet = Fleet::start(Options {
        agents: 2,
        ..Options::default()
    })
    .await
    .unwrap();
    let url = fleet.server.url("http");
    let environment = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", &fleet.token),
    ];
    let listed = parsed(&command(&["agents", "list", "edge", "-o", "json"], &environment).await);
    let id = |name: &str| {
        let agents = listed["agents"].as_array().unwrap().iter();
        let mut named = agents.filter(|agent| agent["name"] == name);
        named.next().unwrap()["instance"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = id("node-0");
    let ready = async |number: usize| {
        let url = format!("{}/readyz", fleet.agents[number].url("ops"));
        fleet.http.get(url).send().await.unwrap().status().as_u16()
    };
    assert_eq!(ready(0).await, 200);

    let drained = command(
        &["agents", "drain", &first, "--message", "new disk"],
        &environment,
    )
    .await;
    assert_eq!(drained.status.code(), Some(0), "{}", text(&drained));
    let became = async |number: usize, status: u16| {
        let what = format!("agent {number} answers {status} to its load balancer");
        let ((), took) = eventually(&what, BOUND, || async {
            match ready(number).await {
                now if now == status => Ok(()),
                now => Err(now.to_string()),
            }
        })
        .await;
        took
    };
    println!("out of service after {:?}", became(0, 503).await);
    assert!(fleet.chat(0).await, "what comes all the same is served");
    eventually("the view says draining", BOUND, || async {
        let agent = fleet.get(&format!("/api/v1/agents/{first}")).await.unwrap();
        match agent["state"] == "draining" {
            true => Ok(()),
            false => Err(agent.to_string()),
        }
    })
    .await;

    let last = command(&["agents", "drain", "node-1"], &environment).await;
    assert_eq!(last.status.code(), Some(5), "{}", text(&last));
    assert!(text(&last).contains("last agent"), "{}", text(&last));

    let back = command(&["agents", "drain", &first, "--undo"], &environment).await;
    assert_eq!(back.status.code(), Some(0), "{}", text(&back));
    became(0, 200).await;
    let audit = fleet.get("/admin/v1/audit").await.unwrap().to_string();
    for word in ["agent.drain", "new disk", "agent.undrain", "last_agent"] {
        assert!(audit.contains(word), "no {word} in {audit}");
    }
}

#[tokio::test]
async fn differences_tokens_and_a_live_view_from_the_command_line() {
    let fleet = Fleet::start(Options {
        breaker: json!({
            "base_cooldown_secs": 30,
            "trip": {"mode": "consecutive", "consecutive_n": 1},
        }),
        ..Options::default()
    })
    .await
    .unwrap();
    let url = fleet.server.url("http");
    let environment = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", &fleet.token),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.json");
    let mut document = fleet.get("/admin/v1/gateways/edge/config").await.unwrap();
    let file = path.display().to_string();
    std::fs::write(&path, document.to_string()).unwrap();
    let same = command(&["diff", "-f", &file, "--exit-code"], &environment).await;
    assert_eq!((same.status.code(), same.stdout.len()), (Some(0), 0));
    document["pools"]["chat"]["members"][0]["weight"] = json!(7);
    std::fs::write(&path, document.to_string()).unwrap();
    let differs = command(&["diff", "-f", &file, "--exit-code"], &environment).await;
    assert_eq!(differs.status.code(), Some(8));
    assert_eq!(
        String::from_utf8(differs.stdout).unwrap(),
        "- /pools/chat/members/0/weight: 1\n+ /pools/chat/members/0/weight: 7\n"
    );

    let made = command(&["token", "create", "ci", "--ttl", "1h"], &environment).await;
    assert_eq!(made.status.code(), Some(0), "{}", text(&made));
    let token = String::from_utf8(made.stdout).unwrap();
    let viewer = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", token.trim()),
    ];
    let tokens = parsed(&command(&["token", "list", "-o", "json"], &environment).await);
    assert_eq!(tokens["tokens"][1]["name"], "ci");
    let id = tokens["tokens"][1]["id"].as_str().unwrap();
    let refused = command(&["token", "list"], &viewer).await;
    assert_eq!(refused.status.code(), Some(6));

    let mut watch = Command::new(target_folder().join("lanekeeper"))
        .args(["watch", "edge", "--pool", "chat"])
        .envs(viewer)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    fleet
        .set_fault(json!({"model": "gpt-east", "status": 503}))
        .await
        .unwrap();
    let seen = async {
        loop {
            for agent in 0..3 {
                assert!(fleet.chat(agent).await);
            }
            let next = tokio::time::timeout(Duration::from_millis(200), lines.next_line()).await;
            if let Ok(line) = next {
                return line.unwrap().expect("watch goes on");
            }
        }
    };
    let line = tokio::time::timeout(BOUND, seen).await.unwrap();
    assert!(line.contains(" edge/chat/gpt-east open "), "{line}");
    let wide = command(&["get", "breakers", "edge", "-o", "wide"], &viewer).await;
    assert!(text(&wide).contains("PROVIDER"), "{}", text(&wide));

    let revoked = command(&["token", "revoke", id], &environment).await;
    assert_eq!(revoked.status.code(), Some(0), "{}", text(&revoked));
    let ended = tokio::time::timeout(BOUND, watch.wait()).await.unwrap();
    assert_eq!(ended.unwrap().code(), Some(6), "its token was revoked");
}
