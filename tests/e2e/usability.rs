//! What no breaker says: lanes that are closed everywhere and serve nobody, agents that are silent,
//! a server that has just started.

use lanekeeper_tests::{Fleet, LIVENESS, Options, command as lanekeeper, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// A report interval with its jitter, and the time to be shown.
const VISIBLE_BOUND: Duration = Duration::from_secs(13);
/// Silence that makes an agent stale, and the time to be shown.
const STALE_BOUND: Duration = Duration::from_secs(45);

/// The pool `chat` as the API shows it.
async fn pool(fleet: &Fleet) -> Result<Value, String> {
    let pool = fleet.get("/api/v1/pools/edge/chat").await;
    pool.map_err(|error| error.to_string())
}

async fn eventually_get(
    fleet: &Fleet,
    what: &str,
    bound: Duration,
    path: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let found = eventually(what, bound, || async {
        let value = fleet.get(path).await.map_err(|error| error.to_string())?;
        if wanted(&value) {
            Ok(value)
        } else {
            Err(value.to_string())
        }
    });
    found.await.0
}

/// Runs the command against the fleet's server; gives its code, what it printed and what it said.
async fn run(fleet: &Fleet, arguments: &[&str]) -> (Option<i32>, String, String) {
    let url = fleet.server.url("http");
    let environment = [
        ("LANEKEEPER_URL", url.as_str()),
        ("LANEKEEPER_TOKEN", fleet.token.as_str()),
    ];
    let done = lanekeeper(arguments, &environment).await;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (done.status.code(), text(&done.stdout), text(&done.stderr))
}

#[tokio::test]
async fn agents_without_their_keys_fail_every_call_and_everything_says_so() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let (code, _, said) = run(&fleet, &["get", "breakers"]).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "nobody is failed yet");

    let mut document = fleet.document(&json!({}));
    for provider in ["east", "west"] {
        let key = json!({"env": "LANEKEEPER_TEST_KEY_THAT_NO_AGENT_HAS"});
        document["providers"][provider]["api_key"] = key;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let file = file.display().to_string();
    let (code, _, said) = run(&fleet, &["apply", "-f", &file, "--wait"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("pool chat serves nobody on 3 of 3"), "{said}");
    assert!(said.contains("missing_key"), "{said}");

    assert!(!fleet.chat(0).await);
    let view = fleet.get("/api/v1/breaker-state?pool=chat").await.unwrap();
    assert_eq!(view["cells"].as_array().unwrap().len(), 2, "{view}");
    for cell in view["cells"].as_array().unwrap() {
        assert_eq!(cell["state"], "closed");
        let expected = json!({"agents": 3, "reasons": ["missing_key"]});
        assert_eq!(cell["unusable"], expected, "{cell}");
    }
    let summary = fleet.get("/api/v1/summary?gateway=edge").await.unwrap();
    assert_eq!(summary["pools"]["exhausted"], 1, "{summary}");
    assert_eq!(summary["incidents"], 1, "{summary}");
    let (code, listed, said) = run(&fleet, &["get", "pools"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(listed.contains("missing_key"), "{listed}");
    for resource in ["gateways", "agents", "breakers", "pools"] {
        let (_, _, said) = run(&fleet, &["get", resource]).await;
        assert!(said.contains("callers are failed: pool chat"), "{said}");
    }
    let metrics = format!("{}/metrics", fleet.agents[0].url("ops"));
    let metrics = fleet.http.get(metrics).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for line in [
        "lanekeeper_pool_usable_members{gateway=\"edge\",pool=\"chat\"} 0\n",
        "lanekeeper_pool_usable_members{gateway=\"edge\",pool=\"claude\"} 2\n",
        "lanekeeper_lane_usable{gateway=\"edge\",pool=\"chat\",lane=\"gpt-east\"} 0\n",
        "lanekeeper_problems{gateway=\"edge\"} 2\n",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }

    let mended = fleet.put_config(&fleet.document(&json!({})), 2).await;
    assert!(mended.unwrap().status().is_success());
    eventually_get(&fleet, "all is well", LIVENESS, "/api/v1/summary", |it| {
        it["incidents"] == 0 && it["cells"]["unusable"] == 0
    })
    .await;
}

#[tokio::test]
async fn pool_that_is_exhausted_on_one_of_three_agents_is_shown_as_that() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
    let mut document = fleet.document(&json!({}));
    for lane in ["gpt-east", "gpt-west"] {
        document["models"][lane]["max_requests"] = json!(3);
    }
    let changed = fleet.put_config(&document, 1).await.unwrap();
    assert!(changed.status().is_success());
    fleet.applied(2, 3, LIVENESS).await;
    for call in 0..6 {
        assert!(fleet.chat(1).await, "call {call}");
    }
    assert!(!fleet.chat(1).await, "the budgets are spent");
    assert!(fleet.chat(0).await);
    let shown = eventually("exhausted on 1 of 3", VISIBLE_BOUND, || async {
        let pool = pool(&fleet).await?;
        let is_shown = pool["agents"]["exhausted_on"] == 1
            && pool["last_minute"]["requests"] == 8
            && pool["agents"]["reporting"] == 3;
        if is_shown {
            Ok(pool)
        } else {
            Err(pool.to_string())
        }
    });
    let (chat, _) = shown.await;
    assert!(
        chat["exhausted_reasons"]
            .to_string()
            .contains("budget_spent"),
        "{chat}"
    );
    assert_eq!(
        chat["usable_members"],
        json!({"least": 0, "most": 2}),
        "{chat}"
    );
    let minute = &chat["last_minute"];
    assert_eq!(
        (&minute["ok"], &minute["exhausted"]),
        (&json!(7), &json!(1)),
        "{minute}"
    );
    assert!(
        minute["first_content_p99_secs"].as_f64().unwrap() > 0.0,
        "{minute}"
    );
    let shares: f64 = { chat["members"].as_array().unwrap().iter() }
        .map(|member| member["traffic_share"].as_f64().unwrap())
        .sum();
    assert!((shares - 1.0).abs() < 1e-9, "{chat}");
    let summary = fleet.get("/api/v1/summary").await.unwrap();
    assert_eq!(summary["pools"]["exhausted"], 1, "{summary}");
    let (_, _, said) = run(&fleet, &["get", "breakers"]).await;
    assert!(said.contains("pool chat serves nobody on 1 of 3"), "{said}");
}

#[tokio::test]
async fn restarted_server_says_that_it_gathers_and_silent_agents_are_not_well() {
    let mut fleet = Fleet::start(Options::default()).await.unwrap();
    fleet.server.kill().await;
    fleet.agents[2].kill().await;
    fleet.restart_server().await.unwrap();
    let view = fleet.get("/api/v1/breaker-state").await.unwrap();
    assert_eq!(
        view["rebuilding"], true,
        "one agent cannot come back: {view}"
    );
    assert_eq!(view["partial"], true, "{view}");
    let state = "/api/v1/breaker-state";
    eventually_get(&fleet, "both others are back", LIVENESS, state, |view| {
        view["agents"]["live"] == 2
    })
    .await;
    eventually_get(
        &fleet,
        "the lost one had its time",
        STALE_BOUND,
        state,
        |view| view["rebuilding"] == false && view["partial"] == false,
    )
    .await;

    fleet.agents[0].kill().await;
    fleet.agents[1].kill().await;
    let silent = |view: &Value| {
        let cells = view["cells"].as_array().unwrap();
        view["agents"]["live"] == 0 && cells.iter().all(|cell| cell["state"] == "unknown")
    };
    let view = eventually_get(&fleet, "nothing is known", STALE_BOUND, state, silent).await;
    // Four lanes in a pool each, and their direct routes.
    assert_eq!(view["cells"].as_array().unwrap().len(), 8, "{view}");
    let summary = fleet.get("/api/v1/summary").await.unwrap();
    assert_eq!(summary["silent_gateways"], 1, "{summary}");
    assert_eq!(summary["incidents"], 1, "{summary}");
    let (_, listed, _) = run(&fleet, &["get", "breakers"]).await;
    assert_eq!(listed.matches("unknown").count(), 8, "{listed}");
}
