//! Rollouts over the API: plans, starts, orders, and what is shown of them.

use super::*;
use lanekeeper_model::FreshWindows;
use lanekeeper_model::rollout::Transition;

const PLAN: &str = "/admin/v1/gateways/edge/rollout-plan";
const ROLLOUTS: &str = "/admin/v1/gateways/edge/rollouts";

/// The document with another weight.
fn edge_weighing(weight: u64) -> Value {
    let mut document = edge();
    document["pools"]["chat"]["members"][0]["weight"] = json!(weight);
    document
}

fn staged() -> Value {
    json!({"strategy": "staged", "canary": {"percent": 5}, "percents": [50], "hold_secs": 0})
}

impl Server {
    async fn put_plan(&self, plan: &Value) {
        let put = self.send_json(Method::PUT, PLAN, plan).await;
        assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    }

    async fn put_config(&self, document: &Value, tag: &str) -> Response {
        self.request(Method::PUT, "/admin/v1/gateways/edge/config")
            .header("if-match", tag)
            .json(document)
            .send()
            .await
            .unwrap()
    }

    async fn order(&self, revision: u64, order: &str) -> Response {
        let path = format!("{ROLLOUTS}/{revision}/{order}");
        self.request(Method::POST, &path).send().await.unwrap()
    }

    /// Takes the step that a control plane would take.
    async fn step(&self, revision: u64) -> Option<Transition> {
        let stored = self.store.rollout("edge", revision).await.unwrap();
        let (mut rollout, version) = (stored.rollout, stored.version);
        let agents = self.live.records(Some("edge")).await.unwrap();
        let transition = rollout.step(&agents, FreshWindows::default(), clock::now_ms());
        let written = self
            .store
            .advance_rollout(&rollout, version, None, &by_test())
            .await;
        assert!(written.unwrap());
        transition
    }
}

#[tokio::test]
async fn plan_is_all_at_once_until_another_is_set_and_defaults_are_filled_in() {
    let server = Server::start().await;
    server.create_edge().await;
    assert_eq!(
        server.get_json(PLAN).await,
        json!({"strategy": "all_at_once"})
    );
    server.put_plan(&json!({"strategy": "staged"})).await;
    let plan = server.get_json(PLAN).await;
    assert_eq!(plan["percents"], json!([10]));
    assert_eq!(plan["hold_secs"], 30);
    assert_eq!(plan["auto_rollback"], false);
    let trail = server.get_json("/admin/v1/audit?limit=1").await;
    assert_eq!(trail["entries"][0]["action"], "rollout_plan.write");
    assert_eq!(
        trail["entries"][0]["before"],
        json!({"strategy": "all_at_once"})
    );

    let wrong = json!({"strategy": "staged", "hold_secs": -1, "percents": [0], "holdsecs": 1});
    let refused = server.send_json(Method::PUT, PLAN, &wrong).await;
    let body = problem(refused, 400, "invalid_body").await;
    let pointers: Vec<&str> = body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(pointers, ["/holdsecs", "/percents/0", "/hold_secs"]);
    let nowhere = "/admin/v1/gateways/nowhere/rollout-plan";
    let missing = server.send_json(Method::PUT, nowhere, &staged()).await;
    problem(missing, 404, "not_found").await;
    assert_eq!(server.get(nowhere).await.status(), 404);
    server.stop().await;
}

#[tokio::test]
async fn a_write_under_a_staged_plan_is_a_rollout_and_each_agent_has_its_own_target() {
    let server = Server::start().await;
    server.create_edge().await;
    let hash = server.store.current("edge").await.unwrap().unwrap().hash;
    for name in ["node-1", "node-2", "node-3"] {
        let mut record = agent(name);
        record.applied_hash.clone_from(&hash);
        server.report(&record).await;
    }
    server.put_plan(&staged()).await;
    let put = server.put_config(&edge_weighing(7), "\"1\"").await;
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    assert_eq!(
        put.headers()["etag"],
        "\"2\"",
        "the newest revision is shown"
    );

    let targets = |agents: &Value| -> Vec<u64> {
        let agents = agents["agents"].as_array().unwrap().iter();
        let mut targets: Vec<u64> = agents
            .map(|agent| agent["target_revision"].as_u64().unwrap())
            .collect();
        targets.sort_unstable();
        targets
    };
    server
        .eventually("/api/v1/agents", |agents| targets(agents) == [1, 1, 1])
        .await;
    let agents = server.get_json("/api/v1/agents").await;
    assert_eq!(agents["agents"][0]["converged"], true);
    let rollout = server.get_json(&format!("{ROLLOUTS}/2")).await;
    assert_eq!(rollout["waits_for"], "a live agent in the stage 5 %");
    assert_eq!(server.step(2).await, Some(Transition::Began { stage: 0 }));
    server
        .eventually("/api/v1/agents", |agents| targets(agents) == [1, 1, 2])
        .await;

    let rollout = server.get_json(&format!("{ROLLOUTS}/2")).await;
    assert_eq!(rollout["state"], "running");
    assert_eq!(rollout["base_revision"], 1);
    assert_eq!(
        rollout["stages"],
        json!([
            {"name": "5 %", "state": "current"},
            {"name": "50 %", "state": "waiting"},
            {"name": "all", "state": "waiting"},
        ])
    );
    assert_eq!(
        rollout["counts"],
        json!({"agents": 3, "reached": 1, "applied": 0, "rejected": 0, "troubled": 0})
    );
    let first = &rollout["agents"][0];
    assert_eq!(
        first["stage"], 0,
        "who is waited for comes first: {rollout}"
    );
    assert_eq!(first["target_revision"], 2);
    assert_eq!(first["applied_revision"], 1);
    assert_eq!(first["applied_hash"], hash);
    assert_eq!(first["converged"], false);
    assert_eq!(rollout["agents"][1]["stage"], Value::Null);
    assert_eq!(rollout["agents"][1]["converged"], true);
    assert_eq!(rollout["waits_for"], Value::Null);
    server.stop().await;
}

#[tokio::test]
async fn agents_whose_problems_are_new_stop_a_rollout_and_are_shown() {
    let server = Server::start().await;
    server.create_edge().await;
    let mut record = agent("node-1");
    record.problems = vec!["the disk is full".to_owned()];
    server.report(&record).await;
    server.put_plan(&staged()).await;
    let put = server.put_config(&edge_weighing(7), "\"1\"").await;
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    assert_eq!(server.step(2).await, Some(Transition::Began { stage: 0 }));
    let missing = "providers.east: EAST_KEY is not set";
    record.seq += 1;
    record.applied_revision = 2;
    record.applied_hash = server.store.rollout("edge", 2).await.unwrap().rollout.hash;
    record.problems.push(missing.to_owned());
    server.report(&record).await;
    let stopped = server.step(2).await;
    assert_eq!(stopped, Some(Transition::Stopped { roll_back: false }));
    let path = format!("{ROLLOUTS}/2");
    let rollout = server
        .eventually(&path, |rollout| rollout["counts"]["troubled"] == 1)
        .await;
    assert_eq!(rollout["state"], "stopped");
    assert_eq!(rollout["stop"]["kind"], "problems");
    assert_eq!(rollout["stop"]["agent"], "node-1");
    assert_eq!(rollout["stop"]["errors"][0]["message"], missing);
    assert_eq!(rollout["agents"][0]["new_problems"], json!([missing]));
    server.stop().await;
}

#[tokio::test]
async fn a_rollout_is_started_with_a_document_or_an_earlier_revision() {
    let server = Server::start().await;
    server.create_edge().await;
    let body = json!({"document": edge_weighing(7), "plan": staged(), "message": "try"});
    let blind = server.send_json(Method::POST, ROLLOUTS, &body).await;
    problem(blind, 428, "if_match_required").await;
    let start = |body: Value, tag: &'static str| {
        let request = server.request(Method::POST, ROLLOUTS);
        request.header("if-match", tag).json(&body).send()
    };
    let stale = start(body.clone(), "\"9\"").await.unwrap();
    problem(stale, 412, "revision_mismatch").await;
    let started = start(body, "\"1\"").await.unwrap();
    assert_eq!(started.status(), 201);
    assert_eq!(started.headers()["location"], format!("{ROLLOUTS}/2"));
    assert_eq!(started.headers()["etag"], "\"2\"");
    let started: Value = started.json().await.unwrap();
    assert_eq!(started["message"], "try");
    assert_eq!(started["plan"]["canary"], json!({"percent": 5}));

    let again = server
        .send_json(Method::POST, ROLLOUTS, &json!({"revision": 1}))
        .await;
    assert_eq!(again.status(), 201);
    let again: Value = again.json().await.unwrap();
    assert_eq!(again["revision"], 3);
    assert_eq!(again["plan"], json!({"strategy": "all_at_once"}));
    assert_eq!(again["base_revision"], 1, "2 was never proven");
    let config = server.get("/admin/v1/gateways/edge/config").await;
    assert_eq!(config.json::<Value>().await.unwrap(), edge());

    let page = server.get_json(&format!("{ROLLOUTS}?limit=1")).await;
    assert_eq!(page["rollouts"][0]["revision"], 3);
    let next = page["next_cursor"].as_str().unwrap();
    let page = server
        .get_json(&format!("{ROLLOUTS}?limit=1&cursor={next}"))
        .await;
    assert_eq!(page["rollouts"][0]["revision"], 2);
    assert_eq!(page["rollouts"][0]["state"], "superseded");
    assert_eq!(page["next_cursor"], Value::Null);
    server.stop().await;
}

#[tokio::test]
async fn everything_wrong_with_a_start_is_listed() {
    let server = Server::start().await;
    server.create_edge().await;
    let wrong = json!({
        "plan": {"strategy": "staged", "hold": 1}, "revision": 1, "document": {}, "why": 1,
    });
    let refused = server.send_json(Method::POST, ROLLOUTS, &wrong).await;
    let body = problem(refused, 400, "invalid_body").await;
    let pointers: Vec<&str> = body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(pointers, ["/why", "/plan/hold", "/document"]);
    let refused = server
        .request(Method::POST, ROLLOUTS)
        .header("if-match", "*")
        .json(&json!({"document": {"gateway": "edge", "pools": {"chat": {}}}}))
        .send()
        .await
        .unwrap();
    let body = problem(refused, 400, "invalid_document").await;
    let pointer = body["errors"][0]["pointer"].as_str().unwrap();
    assert!(pointer.starts_with("/document/"), "{body}");
    let missing = server
        .send_json(Method::POST, ROLLOUTS, &json!({"revision": 9}))
        .await;
    problem(missing, 404, "not_found").await;
    server.stop().await;
}

#[tokio::test]
async fn orders_are_taken_where_they_make_sense_and_audited() {
    let server = Server::start().await;
    server.create_edge().await;
    server.put_plan(&staged()).await;
    assert_eq!(
        server.put_config(&edge_weighing(7), "\"1\"").await.status(),
        200
    );
    problem(server.order(2, "resume").await, 409, "rollout_state").await;
    let paused: Value = server.order(2, "pause").await.json().await.unwrap();
    assert_eq!(paused["state"], "paused");
    problem(server.order(2, "pause").await, 409, "rollout_state").await;
    let resumed: Value = server.order(2, "resume").await.json().await.unwrap();
    assert_eq!(resumed["state"], "running");
    let abort = "/admin/v1/gateways/edge/rollouts/2/abort";
    let misplaced = json!({"rollback": false});
    let answer = server.send_json(Method::POST, abort, &misplaced).await;
    let refused = problem(answer, 400, "invalid_body").await;
    assert_eq!(pointers(&refused), ["/rollback"]);
    let stopped = server.order(2, "abort?rollback=false").await;
    let stopped: Value = stopped.json().await.unwrap();
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(stopped["stop"]["kind"], "operator");
    let aborted = server.order(2, "abort?message=enough").await;
    let aborted: Value = aborted.json().await.unwrap();
    assert_eq!(aborted["state"], "rolled_back");
    assert_eq!(aborted["rollback_revision"], 3);
    problem(server.order(2, "abort").await, 409, "rollout_state").await;
    problem(server.order(9, "abort").await, 404, "not_found").await;
    problem(
        server.order(2, "abort?rollback=maybe").await,
        400,
        "invalid_parameter",
    )
    .await;

    let config = server.get("/admin/v1/gateways/edge/config").await;
    assert_eq!(config.headers()["etag"], "\"3\"");
    assert_eq!(config.json::<Value>().await.unwrap(), edge());
    let revision = server.get_json("/admin/v1/gateways/edge/revisions/3").await;
    assert_eq!(revision["message"], "enough");
    let trail = server.get_json("/admin/v1/audit").await;
    let done: Vec<&str> = trail["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["outcome"] == "done")
        .map(|entry| entry["action"].as_str().unwrap())
        .take(4)
        .collect();
    assert_eq!(
        done,
        [
            "rollout.roll_back",
            "rollout.abort",
            "rollout.resume",
            "rollout.pause"
        ]
    );
    server.stop().await;
}
