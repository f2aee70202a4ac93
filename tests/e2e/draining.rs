//! An agent gets a stop signal while it serves, while it starts, and twice.

use lanekeeper_tests::{Fleet, LIVENESS, Options, eventually};
use serde_json::json;

/// Frames of an answer and the pause between them: it lasts some seconds.
const FRAMES: &str = "24";
const FRAME_PAUSE_MS: &str = "250";

// Field report B135.
#[tokio::test]
async fn a_stop_signal_lets_answers_end_takes_callers_for_the_pause_and_leaves_the_fleet_at_once() {
    let mut fleet = Fleet::start(Options {
        agents: 2,
        provider_arguments: ["--words", FRAMES, "--frame-interval-ms", FRAME_PAUSE_MS]
            .map(str::to_owned)
            .to_vec(),
        ..Options::default()
    })
    .await
    .unwrap();
    let proxy = fleet.agents[0].url("proxy");
    let ops = fleet.agents[0].url("ops");
    let stream = |http: reqwest::Client, proxy: String| async move {
        let body = json!({"model": "chat", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let answer = http
            .post(format!("{proxy}/v1/chat/completions"))
            .json(&body)
            .send()
            .await?;
        let status = answer.status().as_u16();
        Ok::<_, reqwest::Error>((status, answer.text().await?))
    };
    let running: Vec<_> = (0..5)
        .map(|_| tokio::spawn(stream(fleet.http.clone(), proxy.clone())))
        .collect();
    let inflight = format!("{ops}/stats");
    eventually("five answers are under way", LIVENESS, || async {
        let stats: serde_json::Value = fleet
            .http
            .get(&inflight)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        let lanes = stats["lanes"].as_array().unwrap().iter();
        let count: u64 = lanes.filter_map(|lane| lane["inflight"].as_u64()).sum();
        if count == 5 {
            Ok(())
        } else {
            Err(stats.to_string())
        }
    })
    .await;

    fleet.agents[0].signal("TERM").await;
    eventually("the balancer learns it", LIVENESS, || async {
        match fleet.http.get(format!("{ops}/readyz")).send().await {
            Ok(answer) if answer.status() == 503 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Who comes within the pause is served to the end as well.
    let late = stream(fleet.http.clone(), proxy).await.unwrap();
    assert_eq!(late.0, 200);
    assert!(late.1.contains("[DONE]"), "{}", late.1);
    for answer in running {
        let (status, text) = answer.await.unwrap().unwrap();
        assert_eq!(status, 200);
        assert!(
            text.contains("[DONE]") && !text.contains("\"error\""),
            "{text}"
        );
    }
    assert_eq!(fleet.agents[0].exit_code(LIVENESS).await, Some(0));
    // It said goodbye: nobody has to wait until it is stale.
    let agents = fleet.get("/api/v1/agents?gateway=edge").await.unwrap();
    let agents = agents["agents"].as_array().unwrap().iter();
    let state = agents
        .filter(|it| it["name"] == "node-0")
        .map(|it| it["state"].clone())
        .next();
    assert_eq!(state.unwrap(), "gone");
    // A cut by us is no failure of a lane.
    let cell = fleet.cell("chat", "gpt-east").await.unwrap();
    assert!(cell.is_none_or(|cell| cell["state"] == "closed"));
}

// Field report B135.
#[tokio::test]
async fn a_second_stop_signal_ends_an_agent_at_once_and_one_at_its_start_is_not_lost() {
    let mut fleet = Fleet::start(Options {
        agents: 1,
        provider_arguments: ["--words", "2000", "--frame-interval-ms", FRAME_PAUSE_MS]
            .map(str::to_owned)
            .to_vec(),
        ..Options::default()
    })
    .await
    .unwrap();
    let body =
        json!({"model": "chat", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let url = format!("{}/v1/chat/completions", fleet.agents[0].url("proxy"));
    let answer = fleet.http.post(url).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    fleet.agents[0].signal("TERM").await;
    // Two signals of a kind that are pending are one.
    let ready = format!("{}/readyz", fleet.agents[0].url("ops"));
    eventually("the first signal is taken", LIVENESS, || async {
        match fleet.http.get(&ready).send().await {
            Ok(answer) if answer.status() == 503 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    fleet.agents[0].signal("TERM").await;
    // It does not wait for an answer of eight minutes.
    fleet.agents[0].exit_code(LIVENESS).await;
    drop(answer);

    // One that has no configuration yet, for its control plane does not answer.
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control_plane = format!("http://{}", dead.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "agent",
        "--insecure",
        "--control-plane",
        &control_plane,
        "--gateway",
        "edge",
        "--listen",
        "127.0.0.1:0",
        "--ops-listen",
        "127.0.0.1:0",
    ];
    let arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
    let log = folder.path().join("log");
    let mut starting = lanekeeper_tests::Process::start(&arguments, &[], &["ops"], &log)
        .await
        .unwrap();
    starting.signal("TERM").await;
    assert_eq!(
        starting.exit_code(LIVENESS).await,
        Some(0),
        "{}",
        std::fs::read_to_string(&log).unwrap()
    );
}
