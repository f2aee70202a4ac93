//! A revision goes to a few agents first, and no further when they do badly with it.

use crate::halves;
use lanekeeper_store::{Change, ConfigStore};
use lanekeeper_tests::{Fleet, LIVENESS, Options, Process, eventually, holds_for};
use serde_json::{Value, json};
use std::time::Duration;

const ROLLOUTS: &str = "/admin/v1/gateways/edge/rollouts";
/// Longest wait for a step that needs no hold.
const STEP_BOUND: Duration = Duration::from_secs(60);
/// Longest wait for the fleet to be back after the server's death.
const BACK_BOUND: Duration = Duration::from_secs(60);

/// Three agents under a plan.
async fn start(plan: Value) -> Fleet {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let url = format!(
        "{}/admin/v1/gateways/edge/rollout-plan",
        fleet.server.url("http")
    );
    let put = fleet.http.put(url).bearer_auth(&fleet.token).json(&plan);
    let put = put.send().await.unwrap();
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    fleet
}

/// A canary of one agent of three, then two, then all.
fn staged(hold_secs: u64, more: Value) -> Value {
    let mut plan = json!({"strategy": "staged", "canary": {"percent": 10}, "percents": [50],
        "hold_secs": hold_secs});
    if let (Value::Object(plan), Value::Object(more)) = (&mut plan, more) {
        plan.extend(more);
    }
    plan
}

/// Writes another document on top of a revision.
async fn change(fleet: &Fleet, revision: u64, weight: u64) {
    let mut document = fleet.document(&json!({}));
    document["pools"]["chat"]["members"][0]["weight"] = json!(weight);
    let put = fleet.put_config(&document, revision).await.unwrap();
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
}

/// Writes a document past the API, which would refuse it.
async fn force(fleet: &Fleet, revision: u64) {
    let mut document = fleet.document(&json!({}));
    document["pools"]["chat"]["members"] = json!([{"target": "gpt-nowhere"}]);
    let store = ConfigStore::open_embedded(&fleet.data_dir()).await.unwrap();
    let hash = lanekeeper_model::content_hash(&document);
    let change = Change {
        actor: "test".to_owned(),
        actor_id: String::new(),
        message: String::new(),
        now_ms: 1,
        idempotency: None,
    };
    store
        .write_revision("edge", Some(revision), &document, &hash, &change)
        .await
        .unwrap();
}

async fn order(fleet: &Fleet, revision: u64, order: &str) -> Value {
    let path = format!("{ROLLOUTS}/{revision}/{order}");
    let answer = fleet.post(&path, &json!({})).await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    answer.json().await.unwrap()
}

async fn rollout(fleet: &Fleet, revision: u64) -> Result<Value, String> {
    let path = format!("{ROLLOUTS}/{revision}");
    fleet.get(&path).await.map_err(|error| error.to_string())
}

/// Waits until a rollout is as wanted.
async fn until(
    fleet: &Fleet,
    revision: u64,
    what: &str,
    bound: Duration,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let wanted = &wanted;
    let (found, took) = eventually(what, bound, || async move {
        let found = rollout(fleet, revision).await?;
        if wanted(&found) {
            Ok(found)
        } else {
            Err(found.to_string())
        }
    })
    .await;
    println!("{what} after {took:?}");
    found
}

/// The applied revisions of the live agents, lowest first.
async fn applied(fleet: &Fleet) -> Vec<u64> {
    let agents = fleet.get("/api/v1/agents").await.unwrap();
    let agents = agents["agents"].as_array().unwrap().iter();
    let mut revisions: Vec<u64> = agents
        .filter(|agent| agent["state"] == "live")
        .map(|agent| agent["applied_revision"].as_u64().unwrap())
        .collect();
    revisions.sort_unstable();
    revisions
}

/// Waits until the live agents serve these revisions, lowest first. The list of agents may be a
/// second behind.
async fn serve(fleet: &Fleet, revisions: &[u64]) {
    let what = format!("{revisions:?} are served");
    eventually(&what, STEP_BOUND, || async {
        let now = applied(fleet).await;
        if now == revisions {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
}

/// The number of the agent that the first stage reaches.
fn canary(rollout: &Value) -> usize {
    let agents = rollout["agents"].as_array().unwrap();
    let canary = agents.iter().find(|agent| agent["stage"] == 0).unwrap();
    let name = canary["agent"].as_str().unwrap();
    name.trim_start_matches("node-").parse().unwrap()
}

fn is_whole(stage: usize) -> impl Fn(&Value) -> bool {
    move |rollout| {
        rollout["stages"][stage]["state"] == "current" && rollout["whole_since"].is_string()
    }
}

#[tokio::test]
async fn a_canary_goes_first_and_all_follow() {
    let fleet = start(staged(4, json!({}))).await;
    change(&fleet, 1, 7).await;
    until(&fleet, 2, "the canary has it", STEP_BOUND, is_whole(0)).await;
    serve(&fleet, &[1, 1, 2]).await;
    until(&fleet, 2, "half have it", STEP_BOUND, is_whole(1)).await;
    serve(&fleet, &[1, 2, 2]).await;
    let done = until(&fleet, 2, "it is done", STEP_BOUND, |rollout| {
        rollout["state"] == "done" && rollout["counts"]["applied"] == 3
    })
    .await;
    serve(&fleet, &[2, 2, 2]).await;
    assert_eq!(done["counts"]["applied"], 3);
    for agent in done["agents"].as_array().unwrap() {
        assert_eq!(agent["converged"], true, "{agent}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_canary_rolls_back_by_itself_and_nobody_else_sees_the_revision() {
    let fleet = start(staged(2, json!({"auto_rollback": true}))).await;
    force(&fleet, 1).await;
    let back = until(&fleet, 2, "it is taken back", STEP_BOUND, |rollout| {
        rollout["state"] == "rolled_back"
    })
    .await;
    assert_eq!(back["stop"]["kind"], "rejected");
    assert!(back["stop"].to_string().contains("gpt-nowhere"), "{back}");
    assert_eq!(back["rollback_revision"], 3);
    assert_eq!(back["stages"][1]["state"], "waiting");
    fleet.applied(3, 3, STEP_BOUND).await;
    let logs = |number: usize| fleet.log(&format!("agent-{number}.log"));
    let refused: Vec<usize> = (0..3)
        .filter(|number| logs(*number).contains("gpt-nowhere"))
        .collect();
    assert_eq!(refused, [canary(&back)], "only the canary was asked");
    for number in 0..3 {
        assert!(fleet.chat(number).await);
    }
    let entry = &fleet.get("/admin/v1/audit?limit=1").await.unwrap()["entries"][0];
    assert_eq!(entry["actor"], "rollout");
    assert_eq!(entry["action"], "rollout.roll_back");
}

#[tokio::test]
async fn a_canary_that_lacks_a_variable_rolls_back_by_itself() {
    const MISSING: &str = "LANEKEEPER_TEST_NOBODY_HAS_THIS_KEY";
    let fleet = start(staged(2, json!({"auto_rollback": true}))).await;
    let mut document = fleet.document(&json!({}));
    document["providers"]["east"]["api_key"] = json!({"env": MISSING});
    let put = fleet.put_config(&document, 1).await.unwrap();
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    let back = until(&fleet, 2, "it is taken back", STEP_BOUND, |rollout| {
        rollout["state"] == "rolled_back"
    })
    .await;
    assert_eq!(back["stop"]["kind"], "problems", "{back}");
    assert!(
        back["stop"]["detail"].to_string().contains(MISSING),
        "{back}"
    );
    assert_eq!(back["stages"][1]["state"], "waiting", "nobody else had it");
    fleet.applied(3, 3, STEP_BOUND).await;
    let metrics = metrics(&fleet).await;
    for line in [
        "lanekeeper_rollout_stops_total{reason=\"problems\"} 1",
        "lanekeeper_rollout_stages_total 1",
        "lanekeeper_rollout_seconds_count{result=\"rolled_back\"} 1",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
}

#[tokio::test]
async fn a_canary_that_nobody_is_waits_and_is_reported_until_a_newer_write_or_an_abort() {
    let plan = json!({"canary": {"labels": {"tier": "nobody"}}});
    let fleet = start(staged(0, plan)).await;
    change(&fleet, 1, 7).await;
    let is_waiting =
        |rollout: &Value| rollout["waits_for"] == "a live agent in the stage tier=nobody";
    until(&fleet, 2, "it waits", STEP_BOUND, is_waiting).await;
    eventually("the metric shows it", STEP_BOUND, || async {
        let metrics = metrics(&fleet).await;
        let is_shown = metrics.contains("lanekeeper_rollouts_waiting 1");
        is_shown.then_some(()).ok_or(metrics)
    })
    .await;
    change(&fleet, 2, 8).await;
    let older = rollout(&fleet, 2).await.unwrap();
    assert_eq!(older["state"], "superseded");
    until(&fleet, 3, "the newer one waits", STEP_BOUND, is_waiting).await;
    assert_eq!(applied(&fleet).await, [1, 1, 1]);
    let aborted = order(&fleet, 3, "abort").await;
    assert_eq!(aborted["rollback_revision"], 4);
    fleet.applied(4, 3, STEP_BOUND).await;
}

#[tokio::test]
async fn a_canary_that_falls_silent_in_mid_stage_rolls_back_by_itself() {
    let plan = json!({"answer_timeout_secs": 5, "auto_rollback": true});
    let fleet = start(staged(2, plan)).await;
    for agent in &fleet.agents {
        agent.signal("STOP").await;
    }
    change(&fleet, 1, 7).await;
    let bound = LIVENESS;
    let back = until(&fleet, 2, "it is taken back", bound, |rollout| {
        rollout["state"] == "rolled_back"
    })
    .await;
    assert_eq!(back["stop"]["kind"], "unanswered", "{back}");
    for agent in &fleet.agents {
        agent.signal("CONT").await;
    }
    fleet.applied(3, 3, BACK_BOUND).await;
}

async fn metrics(fleet: &Fleet) -> String {
    let url = format!("{}/metrics", fleet.server.url("ops"));
    let answer = fleet.http.get(url).send().await.unwrap();
    answer.text().await.unwrap()
}

#[tokio::test]
async fn a_rising_share_of_exhausted_requests_stops_the_rollout() {
    let plan = json!({"open_share_rise_max": 1, "exhausted_requests_min": 5});
    let fleet = start(staged(600, plan)).await;
    for _ in 0..10 {
        for number in 0..3 {
            assert!(fleet.chat(number).await);
        }
    }
    // Under the new revision the pool has one lane, and that one fails.
    let mut document = fleet.document(&json!({}));
    document["pools"]["chat"]["members"] = json!([{"target": "gpt-west"}]);
    fleet
        .set_fault(json!({"model": "gpt-west", "status": 503}))
        .await
        .unwrap();
    let put = fleet.put_config(&document, 1).await.unwrap();
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    let whole = until(&fleet, 2, "the canary has it", STEP_BOUND, is_whole(0)).await;
    let canary = canary(&whole);
    for _ in 0..10 {
        assert!(!fleet.chat(canary).await);
    }
    let stopped = until(&fleet, 2, "it stopped", LIVENESS, |rollout| {
        rollout["state"] == "stopped"
    })
    .await;
    assert_eq!(stopped["stop"]["kind"], "exhausted_share", "{stopped}");
    serve(&fleet, &[1, 1, 2]).await;
    // An operator takes it back.
    let back = order(&fleet, 2, "abort").await;
    assert_eq!(back["state"], "rolled_back");
    fleet.applied(3, 3, STEP_BOUND).await;
}

#[tokio::test]
async fn a_server_killed_in_the_middle_goes_on_where_it_was() {
    let mut fleet = start(staged(5, json!({}))).await;
    change(&fleet, 1, 7).await;
    let whole = until(&fleet, 2, "the canary has it", STEP_BOUND, is_whole(0)).await;
    let canary = canary(&whole);
    fleet.server.kill().await;
    fleet.restart_server().await.unwrap();
    let half = until(&fleet, 2, "half have it", BACK_BOUND, |rollout| {
        rollout["stages"][1]["state"] == "current"
    })
    .await;
    let first = half["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["agent"] == format!("node-{canary}"));
    assert_eq!(first.unwrap()["stage"], 0, "the canary is the same: {half}");
    until(&fleet, 2, "it is done", BACK_BOUND, |rollout| {
        rollout["state"] == "done"
    })
    .await;
    serve(&fleet, &[2, 2, 2]).await;
}

#[tokio::test]
async fn operators_hold_a_rollout_let_it_go_on_and_take_it_back() {
    let fleet = start(staged(3, json!({}))).await;
    change(&fleet, 1, 7).await;
    until(&fleet, 2, "the canary has it", STEP_BOUND, is_whole(0)).await;
    order(&fleet, 2, "pause").await;
    serve(&fleet, &[1, 1, 2]).await;
    let span = Duration::from_secs(5);
    holds_for("paused", span, || async {
        let now = applied(&fleet).await;
        if now == [1, 1, 2] {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
    order(&fleet, 2, "resume").await;
    until(&fleet, 2, "it is done", BACK_BOUND, |rollout| {
        rollout["state"] == "done"
    })
    .await;
    serve(&fleet, &[2, 2, 2]).await;

    let start = json!({"revision": 1, "plan": staged(600, json!({}))});
    let started = fleet.post(ROLLOUTS, &start).await.unwrap();
    assert_eq!(started.status(), 201, "{}", started.text().await.unwrap());
    until(&fleet, 3, "the canary has it", STEP_BOUND, is_whole(0)).await;
    let stopped = order(&fleet, 3, "abort?rollback=false").await;
    assert_eq!(stopped["state"], "stopped");
    serve(&fleet, &[2, 2, 3]).await;
    let back = order(&fleet, 3, "abort").await;
    assert_eq!(back["rollback_revision"], 4);
    fleet.applied(4, 3, STEP_BOUND).await;
}

#[tokio::test]
async fn agents_that_come_or_come_back_get_what_their_stage_gives_them() {
    let mut fleet = start(staged(600, json!({}))).await;
    change(&fleet, 1, 7).await;
    let whole = until(&fleet, 2, "the canary has it", STEP_BOUND, is_whole(0)).await;
    let canary = canary(&whole);
    let other = (canary + 1) % 3;
    for number in [canary, other] {
        fleet.agents[number].kill().await;
        fleet.agents[number] = fleet.start_agent(number).await.unwrap();
    }
    let newcomer = fleet.start_agent(7).await.unwrap();
    let surge = until(&fleet, 2, "all are back", STEP_BOUND, |rollout| {
        let agents = rollout["agents"].as_array().unwrap();
        let live = agents.iter().filter(|agent| agent["state"] == "live");
        let fresh = |agent: &&Value| agent["converged"] == true && agent["stage"] != json!(1);
        let names: std::collections::BTreeSet<&str> = live
            .filter(fresh)
            .filter_map(|agent| agent["agent"].as_str())
            .collect();
        names.len() == 4
    })
    .await;
    let on_two: Vec<&Value> = surge["agents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|agent| agent["applied_revision"] == 2)
        .collect();
    for agent in &on_two {
        assert_eq!(agent["stage"], 0, "{agent}");
    }
    assert!(!on_two.is_empty());
    drop(newcomer);
}

#[tokio::test]
async fn two_replicas_drive_one_rollout() {
    let folder = tempfile::tempdir().unwrap();
    let halves = halves::start(folder.path()).await;
    let log = folder.path().join("provider.log");
    let arguments = ["sim-provider".to_owned(), "--listen=127.0.0.1:0".to_owned()];
    let provider = Process::start(&arguments, &[], &["sim-provider"], &log)
        .await
        .unwrap();
    let document = |weight: u64| {
        json!({
            "gateway": "edge",
            "providers": {"one": {"protocol": "openai", "api_key": null,
                "base_url": provider.url("sim-provider")}},
            "models": {"a": {"provider": "one"}, "b": {"provider": "one"}},
            "pools": {"chat": {"members": [{"target": "a", "weight": weight}, {"target": "b"}]}},
        })
    };
    let api = halves.api[0].url("http");
    let created = halves
        .http
        .post(format!("{api}/admin/v1/gateways"))
        .bearer_auth(&halves.token)
        .json(&document(1))
        .send()
        .await;
    assert_eq!(created.unwrap().status(), 201);
    let _agents = halves.agents(folder.path(), 4).await;
    eventually("four agents on revision 1", LIVENESS, || async {
        let listed = halves.get(0, "/api/v1/agents").await;
        let listed = listed["agents"].as_array().unwrap();
        let on_it = listed.iter().filter(|agent| agent["applied_revision"] == 1);
        let count = on_it.count();
        if count == 4 {
            Ok(())
        } else {
            Err(count.to_string())
        }
    })
    .await;

    let start = json!({"document": document(7), "plan": staged(2, json!({}))});
    let started = halves
        .http
        .post(format!("{api}{ROLLOUTS}"))
        .bearer_auth(&halves.token)
        .header("if-match", "\"1\"")
        .json(&start)
        .send()
        .await
        .unwrap();
    assert_eq!(started.status(), 201, "{}", started.text().await.unwrap());
    let (_, took) = eventually("it is done", LIVENESS, || async {
        let mut counts = Vec::new();
        for replica in 0..2 {
            let rollout = halves.get(replica, &format!("{ROLLOUTS}/2")).await;
            let reached = rollout["counts"]["reached"].as_u64().unwrap();
            let applied = rollout["counts"]["applied"].as_u64().unwrap();
            assert!(applied <= reached, "{rollout}");
            counts.push((rollout["state"].clone(), applied));
        }
        let all = (json!("done"), 4);
        if counts == [all.clone(), all] {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await;
    println!("done on both replicas after {took:?}");
    let trail = halves.get(1, "/admin/v1/audit").await;
    let steps = trail["entries"].as_array().unwrap().iter();
    let steps: Vec<&str> = steps
        .filter(|entry| entry["actor"] == "rollout")
        .filter_map(|entry| entry["action"].as_str())
        .collect();
    let advance = "rollout.advance";
    assert_eq!(
        steps,
        ["rollout.finish", advance, advance, advance],
        "each step once, whoever took it"
    );
}
