//! A change of configuration: through the API to every agent, or refused without a trace.

use lanekeeper_store::{Change, ConfigStore};
use lanekeeper_tests::{Fleet, LIVENESS, Options, Pace, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const APPLIED_BOUND: Duration = Duration::from_secs(2);

fn slow_stream() -> Options {
    let provider_arguments = vec![
        "--frame-interval-ms=250".to_owned(),
        "--words=16".to_owned(),
    ];
    let breaker = json!({"base_cooldown_secs": 60, "max_cooldown_secs": 60,
        "trip": {"mode": "consecutive", "consecutive_n": 1}});
    Options {
        provider_arguments,
        breaker,
        ..Options::default()
    }
}

#[tokio::test]
async fn an_update_is_applied_in_time_with_streams_uncut_and_cells_untouched() {
    let fleet = Fleet::start(slow_stream()).await.unwrap();
    // One lane of the other pool is open on every agent before the change.
    fleet
        .set_fault(json!({"model": "claude-north", "status": 503}))
        .await
        .unwrap();
    for agent in fleet.agent_urls() {
        let body = json!({"model": "claude", "max_tokens": 1,
            "messages": [{"role": "user", "content": "hi"}]});
        for _ in 0..2 {
            let url = format!("{agent}/v1/messages");
            assert_eq!(
                fleet
                    .http
                    .post(url)
                    .json(&body)
                    .send()
                    .await
                    .unwrap()
                    .status(),
                200
            );
        }
    }
    let (before, _) = eventually("open on all agents", LIVENESS, || async {
        let cell = fleet
            .cell("claude", "claude-north")
            .await
            .unwrap()
            .ok_or("not listed")?;
        if cell["agents"]["open"] == 3 {
            Ok(cell)
        } else {
            Err(cell.to_string())
        }
    })
    .await;

    let body = json!({"model": "chat", "stream": true,
        "messages": [{"role": "user", "content": "hi"}]});
    let mut streams = Vec::new();
    for agent in fleet.agent_urls() {
        let url = format!("{agent}/v1/chat/completions");
        let stream = fleet.http.post(url).json(&body).send().await.unwrap();
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }

    let mut document = fleet.document(&slow_stream().breaker);
    document["pools"]["chat"]["members"][0]["weight"] = json!(7);
    document["pools"]["chat"]["members"][1]["weight"] = json!(0);
    let (start, pace) = (Instant::now(), Pace::watch());
    let put = fleet.put_config(&document, 1).await.unwrap();
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    fleet.applied(2, 3, APPLIED_BOUND).await;
    assert!(
        start.elapsed() < pace.allowed(APPLIED_BOUND),
        "applied after {:?}",
        start.elapsed()
    );
    println!("applied on 3 of 3 agents after {:?}", start.elapsed());

    for stream in streams {
        let text = stream.text().await.unwrap();
        assert_eq!(text.matches("\"content\":").count(), 17, "{text}");
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    }
    let after = fleet.cell("claude", "claude-north").await.unwrap().unwrap();
    assert_eq!(after["agents"]["open"], 3, "{after}");
    assert_eq!(
        after["trips"], before["trips"],
        "a cell was rebuilt: {after}"
    );
    let opened = |cell: &Value| cell["opened_for_secs"].as_f64().unwrap();
    assert!(
        opened(&after) >= opened(&before),
        "a cell was rebuilt: {before} {after}"
    );

    // The new weights rule: the drained member gets nothing.
    let before = fleet.arrivals("gpt-west", 0).await.unwrap().len();
    for number in [0, 1, 2, 0, 1, 2] {
        assert!(fleet.chat(number).await);
    }
    assert_eq!(fleet.arrivals("gpt-west", 0).await.unwrap().len(), before);
}

#[tokio::test]
async fn an_invalid_update_lists_every_error_and_changes_nothing() {
    let fleet = Fleet::start(Options {
        agents: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    let mut document = fleet.document(&json!({}));
    document["pools"]["chat"]["members"][0]["wieght"] = json!(3);
    document["pools"]["chat"]["members"][1]["target"] = json!("gpt-nowhere");
    document["pools"]["claude"]["breaker"] = json!({"trip": {"threshold": 2}});
    document["providers"]["east"]["api_key"] = json!("sk-literal-secret");
    document["providers"]["west"]["base_url"] = json!("https://169.254.169.254/latest");
    let put = fleet.put_config(&document, 1).await.unwrap();
    assert_eq!(put.status(), 400);
    assert_eq!(put.headers()["content-type"], "application/problem+json");
    let text = put.text().await.unwrap();
    assert!(
        !text.contains("sk-literal-secret"),
        "the answer repeats a secret"
    );
    let problem: Value = serde_json::from_str(&text).unwrap();
    let errors = problem["errors"].as_array().unwrap();
    for pointer in [
        "/pools/chat/members/0/wieght",
        "/pools/chat/members/1/target",
        "/pools/claude/breaker/trip/threshold",
        "/providers/east/api_key",
        "/providers/west/base_url",
    ] {
        assert!(
            errors.iter().any(|error| error["pointer"] == pointer),
            "no {pointer}: {text}"
        );
    }
    assert!(text.contains("weight"), "the nearest key is named: {text}");
    let url = format!("{}/admin/v1/gateways/edge/config", fleet.server.url("http"));
    let config = fleet
        .http
        .get(url)
        .bearer_auth(&fleet.token)
        .send()
        .await
        .unwrap();
    assert_eq!(config.headers()["etag"], "\"1\"");
    assert!(fleet.chat(0).await);
}

#[tokio::test]
async fn a_revision_forced_past_the_api_is_refused_by_the_agents_and_the_old_one_serves_on() {
    let fleet = Fleet::start(Options::default()).await.unwrap();
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
        .write_revision("edge", Some(1), &document, &hash, &change)
        .await
        .unwrap();

    let (agents, _) = eventually("3 agents refuse", LIVENESS, || async {
        let agents = fleet.get("/api/v1/agents").await.unwrap();
        let refused = |agent: &&Value| agent["last_error"].to_string().contains("gpt-nowhere");
        let count = agents["agents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(refused)
            .count();
        if count == 3 {
            Ok(agents)
        } else {
            Err(agents.to_string())
        }
    })
    .await;
    for agent in agents["agents"].as_array().unwrap() {
        assert_eq!(agent["applied_revision"], 1, "{agent}");
        assert_eq!(agent["target_revision"], 2, "{agent}");
        assert_eq!(agent["state"], "live", "{agent}");
    }
    for number in 0..3 {
        assert!(
            fleet.chat(number).await,
            "the old revision does not serve on agent {number}"
        );
    }
    // The next good one is taken by all.
    let put = fleet
        .put_config(&fleet.document(&json!({"base_cooldown_secs": 7})), 2)
        .await
        .unwrap();
    assert_eq!(put.status(), 200, "{}", put.text().await.unwrap());
    fleet.applied(3, 3, APPLIED_BOUND).await;
}
