//! Operators' overrides from the API to every agent: how fast, how they end, and what they do to
//! traffic.

use crate::halves;
use futures_util::StreamExt;
use lanekeeper_tests::{Fleet, LIVENESS, Options, Pace, Process, command, eventually, holds_for};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The promise is one second; the rest is the tests' own looking and a busy machine.
const IN_FORCE_BOUND: Duration = Duration::from_secs(2);
/// Longest wait for a change of state that takes a request or two.
const BOUND: Duration = LIVENESS;
/// Reconnects are spread over at most 30 s.
const RETURN_BOUND: Duration = Duration::from_secs(45);
const OVERRIDES: &str = "/admin/v1/gateways/edge/overrides";

fn trip_at_once() -> Options {
    Options {
        breaker: json!({"base_cooldown_secs": 60, "max_cooldown_secs": 60, "park_secs": 0,
            "trip": {"mode": "consecutive", "consecutive_n": 1}}),
        ..Options::default()
    }
}

fn order(action: &str, ttl_secs: u64) -> Value {
    json!({"action": action, "pool": "chat", "lane": "gpt-east", "ttl_secs": ttl_secs,
        "reason": "the east burns"})
}

/// Sets an override that must be accepted.
async fn give(fleet: &Fleet, order: &Value) -> Value {
    let answer = fleet.post(OVERRIDES, order).await.unwrap();
    let status = answer.status();
    let body: Value = answer.json().await.unwrap();
    assert_eq!(status, 201, "{body}");
    body
}

async fn refused(fleet: &Fleet, order: &Value) -> (u16, Value) {
    let answer = fleet.post(OVERRIDES, order).await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn release(fleet: &Fleet, order: &Value) {
    let id = order["id"].as_str().unwrap();
    let url = format!("{}{OVERRIDES}/{id}", fleet.server.url("http"));
    let answer = fleet.http.delete(url).bearer_auth(&fleet.token).send();
    assert_eq!(answer.await.unwrap().status(), 204);
}

async fn show(fleet: &Fleet, order: &Value) -> Result<Value, String> {
    let id = order["id"].as_str().unwrap();
    let path = format!("{OVERRIDES}/{id}");
    fleet.get(&path).await.map_err(|error| error.to_string())
}

/// A cell of pool `chat` in an agent's own /stats.
async fn cell_at(fleet: &Fleet, agent: &Process, lane: &str) -> Result<Value, String> {
    cell_of(&fleet.http, agent, lane).await
}

async fn cell_of(http: &reqwest::Client, agent: &Process, lane: &str) -> Result<Value, String> {
    let url = format!("{}/stats", agent.url("ops"));
    let answer = http.get(url).send().await;
    let stats: Value = answer.map_err(|e| e.to_string())?.json().await.unwrap();
    let lanes = stats["lanes"].as_array().ok_or("no lanes")?;
    let lane = lanes.iter().find(|entry| entry["lane"] == lane);
    let cells = lane.ok_or("no such lane")?["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["pool"] == "chat");
    cell.cloned().ok_or_else(|| stats.to_string())
}

/// What each agent is ordered to do with `gpt-east` in `chat`; null where nothing is.
async fn ordered(fleet: &Fleet) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for agent in &fleet.agents {
        all.push(cell_at(fleet, agent, "gpt-east").await?["override"].clone());
    }
    Ok(all)
}

/// Waits until the agents are ordered just that; returns how long that took.
async fn are_ordered(fleet: &Fleet, wanted: &[Value], bound: Duration) -> Duration {
    let what = format!("overrides are {wanted:?}");
    let ((), took) = eventually(&what, bound, || async {
        match ordered(fleet).await? {
            now if now == wanted => Ok(()),
            now => Err(format!("{now:?}")),
        }
    })
    .await;
    took
}

async fn acks(fleet: &Fleet, order: &Value, state: &str, count: usize) -> Value {
    let what = format!("{count} agents say {state}");
    let (shown, _) = eventually(&what, BOUND, || async {
        let shown = show(fleet, order).await?;
        let acks = shown["acks"].as_array().unwrap();
        let agreeing = acks.iter().filter(|ack| ack["state"] == state).count();
        if agreeing == count && (acks.len() == count || state == "applied") {
            Ok(shown)
        } else {
            Err(shown.to_string())
        }
    })
    .await;
    shown
}

/// How many requests reach a lane when each agent gets ten.
async fn arrivals_of_30(fleet: &Fleet, lane: &str) -> usize {
    let before = fleet.arrivals(lane, 0).await.unwrap();
    let last = before.last().map_or(0, |it| it["seq"].as_u64().unwrap());
    for number in 0..fleet.agents.len() {
        for _ in 0..10 {
            assert!(fleet.chat(number).await, "a call through {number} failed");
        }
    }
    fleet.arrivals(lane, last).await.unwrap().len()
}

#[tokio::test]
async fn order_is_in_force_on_three_agents_within_a_second_and_released_as_fast() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let (asked, pace) = (Instant::now(), Pace::watch());
    let force_open = give(&fleet, &order("force_open", 300)).await;
    let answered = asked.elapsed();
    are_ordered(&fleet, &vec![json!("force_open"); 3], IN_FORCE_BOUND).await;
    let took = asked.elapsed();
    println!("force_open: answered after {answered:?}, on 3 agents after {took:?}");
    assert!(took < pace.allowed(IN_FORCE_BOUND), "{took:?}");
    assert_eq!(arrivals_of_30(&fleet, "gpt-east").await, 0);

    let shown = acks(&fleet, &force_open, "applied", 3).await;
    assert_eq!(shown["state"], "standing", "{shown}");
    assert_eq!(shown["agents_applied"], 3, "{shown}");
    assert_eq!(shown["actor"], "bootstrap", "{shown}");
    let (cell, _) = eventually("the view shows the order", BOUND, || async {
        let cell = fleet.cell("chat", "gpt-east").await.unwrap().unwrap();
        if cell["agents"]["overridden"] == 3 {
            Ok(cell)
        } else {
            Err(cell.to_string())
        }
    })
    .await;
    assert_eq!(cell["override"]["action"], "force_open", "{cell}");
    assert_eq!(cell["override"]["id"], force_open["id"], "{cell}");
    assert_eq!(cell["override"]["reason"], "the east burns", "{cell}");
    assert!(cell["override"]["expires_in_secs"].as_f64().unwrap() > 250.0);
    assert_eq!(cell["state"], "open", "{cell}");

    let (asked, pace) = (Instant::now(), Pace::watch());
    release(&fleet, &force_open).await;
    are_ordered(&fleet, &vec![Value::Null; 3], IN_FORCE_BOUND).await;
    let took = asked.elapsed();
    println!("release: on 3 agents after {took:?}");
    assert!(took < pace.allowed(IN_FORCE_BOUND), "{took:?}");
    assert!(arrivals_of_30(&fleet, "gpt-east").await > 5);
    let shown = acks(&fleet, &force_open, "applied", 0).await;
    assert_eq!(shown["state"], "released", "{shown}");
    assert_eq!(
        fleet.get(OVERRIDES).await.unwrap()["overrides"],
        json!([]),
        "only what stands is listed"
    );

    // Ten in a row: each change on all agents in time.
    let mut slowest = Duration::ZERO;
    for round in 0..10 {
        let action = ["force_open", "drain"][round % 2];
        let asked = Instant::now();
        let given = give(&fleet, &order(action, 300)).await;
        are_ordered(&fleet, &vec![json!(action); 3], IN_FORCE_BOUND).await;
        slowest = slowest.max(asked.elapsed());
        release(&fleet, &given).await;
    }
    println!("slowest of 10 overrides: {slowest:?}");
    assert!(slowest < pace.allowed(IN_FORCE_BOUND), "{slowest:?}");
}

#[tokio::test]
async fn order_ends_by_itself_while_the_server_is_dead_and_does_not_come_back() {
    let mut fleet = Fleet::start(Options::default()).await.unwrap();
    const TTL_SECS: u64 = 6;
    let (given, pace) = (Instant::now(), Pace::watch());
    let force_open = give(&fleet, &order("force_open", TTL_SECS)).await;
    are_ordered(&fleet, &vec![json!("force_open"); 3], IN_FORCE_BOUND).await;
    fleet.server.kill().await;
    // One that restarts without the server still obeys what it received before.
    let kept = fleet.data_dir().with_file_name("cache-2").join("orders");
    eventually("the order is kept", BOUND, || async {
        kept.exists().then_some(()).ok_or("no file".to_owned())
    })
    .await;
    fleet.agents[2].kill().await;
    fleet.agents[2] = fleet.start_agent(2).await.unwrap();

    let ttl = Duration::from_secs(TTL_SECS);
    holds_for(
        "the order",
        ttl.saturating_sub(given.elapsed() + Duration::from_secs(1)),
        || async {
            let now = ordered(&fleet).await?;
            match now == vec![json!("force_open"); 3] {
                true => Ok(()),
                false => Err(format!("{now:?}")),
            }
        },
    )
    .await;
    are_ordered(&fleet, &vec![Value::Null; 3], BOUND).await;
    let took = given.elapsed();
    println!("an override of {ttl:?} ended without the server after {took:?}");
    assert!(
        took < ttl + pace.allowed(Duration::from_secs(1)),
        "{took:?}"
    );
    assert!(arrivals_of_30(&fleet, "gpt-east").await > 5);

    fleet.restart_server().await.unwrap();
    fleet.applied(1, 3, RETURN_BOUND).await;
    holds_for("no order", Duration::from_secs(2), || async {
        let now = ordered(&fleet).await?;
        match now == vec![Value::Null; 3] {
            true => Ok(()),
            false => Err(format!("{now:?}")),
        }
    })
    .await;
    let shown = show(&fleet, &force_open).await.unwrap();
    assert_eq!(
        (&shown["state"], &shown["acks"]),
        (&json!("expired"), &json!([]))
    );
}

#[tokio::test]
async fn order_survives_a_restart_of_the_server_and_of_an_agent() {
    let mut fleet = Fleet::start(Options::default()).await.unwrap();
    let drain = give(&fleet, &order("drain", 600)).await;
    are_ordered(&fleet, &vec![json!("drain"); 3], IN_FORCE_BOUND).await;
    acks(&fleet, &drain, "applied", 3).await;

    fleet.server.kill().await;
    fleet.restart_server().await.unwrap();
    let returned = Instant::now();
    acks(&fleet, &drain, "applied", 3).await;
    println!(
        "acknowledged anew {:?} after the restart",
        returned.elapsed()
    );
    assert_eq!(ordered(&fleet).await.unwrap(), vec![json!("drain"); 3]);

    fleet.agents[1].kill().await;
    fleet.agents[1] = fleet.start_agent(1).await.unwrap();
    let started = Instant::now();
    are_ordered(&fleet, &vec![json!("drain"); 3], BOUND).await;
    println!("in force {:?} after an agent's start", started.elapsed());
    let shown = acks(&fleet, &drain, "applied", 4).await;
    assert_eq!(
        shown["agents_applied"], 4,
        "the dead one is silent: {shown}"
    );
    assert_eq!(arrivals_of_30(&fleet, "gpt-east").await, 0);

    // What was released while an agent was cut off is over when it returns.
    fleet.agents[0].signal("STOP").await;
    release(&fleet, &drain).await;
    fleet.agents[0].signal("CONT").await;
    are_ordered(&fleet, &vec![Value::Null; 3], RETURN_BOUND).await;
}

#[tokio::test]
async fn order_for_a_label_hits_its_agent_alone() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let mut one = order("force_open", 300);
    one["agents"] = json!({"node": "1"});
    let given = give(&fleet, &one).await;
    let wanted = [Value::Null, json!("force_open"), Value::Null];
    are_ordered(&fleet, &wanted, IN_FORCE_BOUND).await;
    let shown = acks(&fleet, &given, "applied", 1).await;
    assert_eq!(shown["acks"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["acks"][0]["agent"], "node-1", "{shown}");
    let (cell, _) = eventually("one of three", BOUND, || async {
        let cell = fleet.cell("chat", "gpt-east").await.unwrap().unwrap();
        match cell["agents"]["overridden"] == 1 {
            true => Ok(cell),
            false => Err(cell.to_string()),
        }
    })
    .await;
    assert_eq!(
        (&cell["agents"]["open"], &cell["agents"]["closed"]),
        (&json!(1), &json!(2)),
        "{cell}"
    );
}

#[tokio::test]
async fn order_that_leaves_a_pool_empty_or_names_nothing_is_refused() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    let east = give(&fleet, &order("drain", 300)).await;
    let mut west = order("force_open", 300);
    west["lane"] = json!("gpt-west");
    let (status, problem) = refused(&fleet, &west).await;
    assert_eq!(status, 409, "{problem}");
    assert_eq!(problem["code"], "last_usable_member", "{problem}");
    assert!(
        problem["errors"][0]["message"]
            .as_str()
            .unwrap()
            .contains("chat")
    );
    assert!(fleet.chat(0).await, "nothing happened");

    west["allow_empty"] = json!(true);
    let emptied = give(&fleet, &west).await;
    eventually("the pool is empty", BOUND, || async {
        match fleet.chat(0).await {
            false => Ok(()),
            true => Err("still answered".to_owned()),
        }
    })
    .await;
    release(&fleet, &emptied).await;
    release(&fleet, &east).await;
    eventually("the pool serves", BOUND, || async {
        match fleet.chat(0).await {
            true => Ok(()),
            false => Err("still refused".to_owned()),
        }
    })
    .await;

    let nowhere = json!({"action": "drain", "pool": "chta", "lane": "gpt-esat", "ttl_secs": 5,
        "reason": "typing"});
    let (status, problem) = refused(&fleet, &nowhere).await;
    let pointers: Vec<&str> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(
        (status, pointers),
        (400, vec!["/lane", "/pool"]),
        "{problem}"
    );
}

#[tokio::test]
async fn drain_lets_a_running_stream_finish_and_begins_no_new_one() {
    let fleet = Fleet::start(Options {
        agents: 1,
        provider_arguments: vec![
            "--words=20".to_owned(),
            "--frame-interval-ms=150".to_owned(),
        ],
        ..Options::default()
    })
    .await
    .unwrap();
    let url = format!("{}/v1/chat/completions", fleet.agents[0].url("proxy"));
    let body = json!({"model": "gpt-east", "stream": true,
        "messages": [{"role": "user", "content": "hi"}]});
    let send = || fleet.http.post(&url).json(&body).send();
    let answer = send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut frames = answer.bytes_stream();
    let mut text = String::from_utf8_lossy(&frames.next().await.unwrap().unwrap()).into_owned();

    let mut everywhere = order("drain", 300);
    everywhere["pool"] = Value::Null;
    give(&fleet, &everywhere).await;
    are_ordered(&fleet, &[json!("drain")], IN_FORCE_BOUND).await;
    assert_eq!(send().await.unwrap().status(), 503, "no new one");
    assert!(!text.contains("[DONE]"), "the stream still runs: {text}");
    while let Some(frame) = frames.next().await {
        text += &String::from_utf8_lossy(&frame.unwrap());
    }
    assert!(text.trim_end().ends_with("data: [DONE]"), "{text}");
    assert!(!text.contains("error"), "{text}");
}

#[tokio::test]
async fn force_close_sends_traffic_to_a_lane_that_fails() {
    let fleet = Fleet::start(trip_at_once()).await.unwrap();
    fleet
        .set_fault(json!({"model": "gpt-east", "status": 503}))
        .await
        .unwrap();
    eventually("the lane is open everywhere", BOUND, || async {
        for (number, agent) in fleet.agents.iter().enumerate() {
            assert!(fleet.chat(number).await);
            if cell_at(&fleet, agent, "gpt-east").await?["state"] != "open" {
                return Err(format!("closed on {number}"));
            }
        }
        Ok(())
    })
    .await;
    assert_eq!(arrivals_of_30(&fleet, "gpt-east").await, 0);
    give(&fleet, &order("force_close", 300)).await;
    are_ordered(&fleet, &vec![json!("force_close"); 3], IN_FORCE_BOUND).await;
    let reached = arrivals_of_30(&fleet, "gpt-east").await;
    assert!(reached >= 10, "only {reached} of 30 were tried there");
    let (cell, _) = eventually("the view shows it closed", BOUND, || async {
        let cell = fleet.cell("chat", "gpt-east").await.unwrap().unwrap();
        match cell["agents"]["overridden"] == 3 && cell["agents"]["closed"] == 3 {
            true => Ok(cell),
            false => Err(cell.to_string()),
        }
    })
    .await;
    assert_eq!(cell["override"]["action"], "force_close", "{cell}");
}

#[tokio::test]
async fn reset_closes_an_open_cell_once() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..trip_at_once()
    })
    .await
    .unwrap();
    let fault = json!({"model": "gpt-east", "status": 503});
    let opens = async || {
        fleet.set_fault(fault.clone()).await.unwrap();
        eventually("the lane opens", BOUND, || async {
            assert!(fleet.chat(0).await);
            let cell = cell_at(&fleet, &fleet.agents[0], "gpt-east").await?;
            match cell["state"] == "open" {
                true => Ok(()),
                false => Err(cell.to_string()),
            }
        })
        .await;
        fleet.clear_faults().await.unwrap();
    };
    opens().await;
    let mut reset = order("reset", 1);
    reset.as_object_mut().unwrap().remove("ttl_secs");
    let given = give(&fleet, &reset).await;
    eventually("the cell is closed", IN_FORCE_BOUND, || async {
        let cell = cell_at(&fleet, &fleet.agents[0], "gpt-east").await?;
        match cell["state"] == "closed" {
            true => Ok(()),
            false => Err(cell.to_string()),
        }
    })
    .await;
    acks(&fleet, &given, "applied", 1).await;

    // The reset is still in the set that the next order brings along.
    opens().await;
    let mut west = order("force_close", 300);
    west["lane"] = json!("gpt-west");
    let other = give(&fleet, &west).await;
    acks(&fleet, &other, "applied", 1).await;
    let cell = cell_at(&fleet, &fleet.agents[0], "gpt-east").await.unwrap();
    assert_eq!(cell["state"], "open", "reset a second time: {cell}");
}

#[tokio::test]
async fn order_given_at_one_replica_reaches_agents_of_all_and_is_shown_alike_by_all() {
    let folder = tempfile::tempdir().unwrap();
    let halves = halves::start(folder.path()).await;
    let document = json!({
        "gateway": "edge",
        "providers": {"one": {"protocol": "openai", "api_key": null,
            "base_url": "http://127.0.0.1:9/v1"}},
        "models": {"a": {"provider": "one"}, "gpt-east": {"provider": "one"}},
        "pools": {"chat": {"members": [{"target": "a"}, {"target": "gpt-east"}]}},
    });
    let post = |replica: usize, path: &str, body: &Value| {
        let url = format!("{}{path}", halves.api[replica].url("http"));
        let request = halves.http.post(url).bearer_auth(&halves.token).json(body);
        async move { request.send().await.unwrap() }
    };
    let created = post(0, "/admin/v1/gateways", &document).await;
    assert_eq!(created.status(), 201);
    let agents = halves.agents(folder.path(), 2).await;
    let ordered = |wanted: Value| {
        let (agents, http) = (&agents, &halves.http);
        let all_are = move || {
            let wanted = wanted.clone();
            async move {
                for agent in agents {
                    let cell = cell_of(http, agent, "gpt-east").await?;
                    if cell["override"] != wanted {
                        return Err(cell.to_string());
                    }
                }
                Ok(())
            }
        };
        eventually("both agents obey", BOUND, all_are)
    };
    ordered(Value::Null).await;
    let (asked, pace) = (Instant::now(), Pace::watch());
    let given = post(1, OVERRIDES, &order("drain", 300)).await;
    assert_eq!(given.status(), 201);
    let given: Value = given.json().await.unwrap();
    ordered(json!("drain")).await;
    let took = asked.elapsed();
    println!("over PostgreSQL and Redis: on 2 agents of 2 control planes after {took:?}");
    assert!(took < pace.allowed(IN_FORCE_BOUND), "{took:?}");
    let path = format!("{OVERRIDES}/{}", given["id"].as_str().unwrap());
    for replica in 0..2 {
        eventually("both agents are said to obey", BOUND, || async {
            let shown = halves.get(replica, &path).await;
            match shown["agents_applied"] == 2 {
                true => Ok(()),
                false => Err(shown.to_string()),
            }
        })
        .await;
    }
}

#[tokio::test]
async fn an_operator_overrides_looks_and_releases_from_the_command_line() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let url = fleet.server.url("http");
    let environment = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", &fleet.token),
        ("LANEKEEPER_GATEWAY", "edge"),
    ];
    let run = async |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let output = command(&words, &environment).await;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let said = (text(&output.stdout), text(&output.stderr));
        (output.status.code().unwrap(), said.0, said.1)
    };
    let (code, given, said) = run(
        "override force-open --lane gpt-east --pool chat --reason fire --ttl 10m --label node=2 --wait -o json",
    )
    .await;
    assert_eq!(code, 0, "{said}");
    let given: Value = serde_json::from_str(&given).unwrap();
    assert_eq!(
        given["acks"][0]["state"], "applied",
        "--wait waits: {given}"
    );
    assert_eq!(given["agents"], json!({"node": "2"}));
    assert!((590.0..=600.0).contains(&given["remaining_secs"].as_f64().unwrap()));
    let wanted = [Value::Null, Value::Null, json!("force_open")];
    are_ordered(&fleet, &wanted, IN_FORCE_BOUND).await;
    let id = given["id"].as_str().unwrap();

    let (code, listed, _) = run("override list").await;
    assert_eq!(code, 0);
    let heading = listed.lines().next().unwrap();
    assert!(
        heading.starts_with("ID") && !heading.contains("LABELS"),
        "{listed}"
    );
    assert!(listed.contains(id) && listed.contains("fire"), "{listed}");
    let (_, wide, _) = run("override list -o wide").await;
    assert!(wide.contains("LABELS") && wide.contains("node=2"), "{wide}");
    let (_, yaml, _) = run("override list -o yaml").await;
    assert!(yaml.starts_with("overrides:"), "{yaml}");
    let (_, shown, _) = run(&format!("override show {id}")).await;
    assert!(
        shown.contains("node-2") && shown.contains("applied"),
        "{shown}"
    );

    let (code, said, _) = run(&format!("override release {id} --wait --message over")).await;
    assert_eq!((code, said.contains("released")), (0, true), "{said}");
    let (code, said, _) = run(&format!("override release {id}")).await;
    assert_eq!(
        (code, said.contains("had already ended")),
        (0, true),
        "{said}"
    );
    assert_eq!(ordered(&fleet).await.unwrap(), vec![Value::Null; 3]);
    let (_, all, _) = run("override list --all").await;
    assert!(all.contains("released"), "{all}");

    let (code, _, said) = run("override drain --lane gpt-esat --reason typing --ttl 5s").await;
    assert_eq!((code, said.contains("--lane")), (3, true), "{said}");
    let (code, _, said) = run("override drain --lane gpt-east --reason x").await;
    assert_eq!((code, said.contains("--ttl")), (2, true), "{said}");
    let (code, _, said) = run("override release nothing").await;
    assert_eq!(code, 7, "{said}");
    run("override drain --lane gpt-west --pool chat --reason first --ttl 1m").await;
    let last = "override force-open --lane gpt-east --pool chat --reason last --ttl 1m";
    let (code, _, said) = run(last).await;
    assert_eq!((code, said.contains("allow_empty")), (5, true), "{said}");
    let (code, _, said) = run(&format!("{last} --allow-empty --wait")).await;
    assert_eq!(code, 0, "{said}");
    let (code, _, said) = run("override reset --lane gpt-east --reason again --wait").await;
    assert_eq!(code, 0, "{said}");
}
