//! Agents that start alone, are killed while they write, and are stopped while they stream.

use futures_util::future::join_all;
use lanekeeper_tests::{Cluster, Written, eventually};
use serde_json::json;
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(45);

/// Whether an agent says that it can take requests.
async fn ready(cluster: &Cluster, agent: &lanekeeper_tests::Process) -> u16 {
    let url = format!("{}/readyz", agent.url("ops"));
    cluster
        .http
        .get(url)
        .send()
        .await
        .unwrap()
        .status()
        .as_u16()
}

#[tokio::test]
async fn an_agent_alone_serves_its_file_a_corrupt_one_costs_a_revision_and_without_one_it_waits() {
    let mut cluster = Cluster::start(1, 1).await.unwrap();
    let history = cluster.watch();
    let document = cluster.document(2);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(2)
    );
    cluster.converged(2, BOUND).await;
    history.judge(&cluster).await;
    cluster.control_planes[0].kill().await;
    cluster.agents[0].kill().await;

    cluster.agents[0] = cluster.start_agent(0).await.unwrap();
    cluster.converged(2, BOUND).await;
    assert_eq!(ready(&cluster, &cluster.agents[0]).await, 200);

    // The newest file is torn; the one before it is still there.
    cluster.agents[0].kill().await;
    let newest = cluster.cache_dir(0).join("current");
    let whole = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &whole[..whole.len() / 2]).unwrap();
    cluster.agents[0] = cluster.start_agent(0).await.unwrap();
    cluster.converged(1, BOUND).await;

    let newcomer = cluster.start_agent(7).await.unwrap();
    assert_eq!(
        ready(&cluster, &newcomer).await,
        503,
        "it has nothing to serve"
    );
    cluster.agents.push(newcomer);
    cluster.restart_control_plane(0).await.unwrap();
    cluster.converged(2, BOUND).await;
    assert_eq!(ready(&cluster, &cluster.agents[1]).await, 200);
}

/// Kills an agent with `kill -9` while revisions rain on it, `times` over: its file must always
/// give it a whole revision to start from.
async fn killed_while_it_writes(times: u64) {
    let mut cluster = Cluster::start(1, 1).await.unwrap();
    let url = format!(
        "{}/admin/v1/gateways/edge/config",
        cluster.apis[0].url("http")
    );
    let (http, token) = (cluster.http.clone(), cluster.token.clone());
    let documents: Vec<_> = (2..4).map(|weight| cluster.document(weight)).collect();
    let rain = tokio::spawn(async move {
        for document in documents.iter().cycle() {
            let put = http.put(&url).bearer_auth(&token).header("if-match", "*");
            assert_eq!(put.json(document).send().await.unwrap().status(), 200);
        }
    });
    for round in 0..times {
        // A different moment of the writing each time.
        tokio::time::sleep(Duration::from_millis(20 + (round * 7) % 60)).await;
        cluster.agents[0].kill().await;
        cluster.agents[0] = cluster.start_agent(0).await.unwrap();
        assert_eq!(
            ready(&cluster, &cluster.agents[0]).await,
            200,
            "round {round}: nothing whole was left"
        );
    }
    assert!(!rain.is_finished(), "every revision was taken");
    rain.abort();
}

#[tokio::test]
async fn an_agent_killed_while_it_writes_its_file_starts_from_a_whole_one() {
    killed_while_it_writes(40).await;
}

#[tokio::test]
async fn an_agent_stopped_with_many_streams_ends_them_whole() {
    const STREAMS: usize = 50;
    let mut cluster = Cluster::start(1, 1).await.unwrap();
    let url = format!("{}/v1/chat/completions", cluster.agents[0].url("proxy"));
    let body =
        json!({"model": "chat", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let answer = cluster.http.post(&url).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        streams.push(answer);
    }
    cluster.agents[0].signal("TERM").await;
    let texts = join_all(streams.into_iter().map(reqwest::Response::text)).await;
    for text in texts {
        let text = text.expect("the stream ends as it should");
        assert!(text.trim_end().ends_with("data: [DONE]"), "{text}");
    }
    assert_eq!(cluster.agents[0].exit_code(BOUND).await, Some(0));
    eventually(
        "it is gone from the view at once",
        Duration::from_secs(10),
        || async {
            let agents = cluster
                .get(0, "/api/v1/agents")
                .await
                .map_err(|error| error.to_string())?;
            match agents["agents"][0]["state"] == "gone" {
                true => Ok(()),
                false => Err(agents.to_string()),
            }
        },
    )
    .await;
}
