//! Agents that start alone, are killed while they write, and are stopped while they stream.

use futures_util::future::join_all;
use lanekeeper_tests::{Cluster, LIVENESS, Process, Written, eventually};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

const BOUND: Duration = Duration::from_secs(45);

/// Whether an agent says that it can take requests.
async fn ready(cluster: &Cluster, agent: &Process) -> u16 {
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
    let mut cluster = Cluster::start(1, 2).await.unwrap();
    let mut history = cluster.watch();
    let document = cluster.document(2);
    assert_eq!(
        cluster.commit(&history, 0, &document).await,
        Written::Confirmed(2)
    );
    cluster.converged(2, BOUND).await;
    eventually("both generations are on the disk", BOUND, || async {
        let newest = std::fs::read_to_string(cluster.cache_dir(0).join("current"));
        match newest.is_ok_and(|text| text.contains("\"revision\":2")) {
            true => Ok(()),
            false => Err("the newest is not".to_owned()),
        }
    })
    .await;
    // From here on nobody pushes anything. The second agent lives through it all.
    cluster.control_planes[0].kill().await;
    history.leave_agent(&cluster.agents[0]);
    cluster.agents[0].kill().await;
    cluster.agents[0] = cluster.start_agent(0).await.unwrap();
    history.follow_agent(&cluster, &cluster.agents[0]);
    cluster.converged(2, BOUND).await;
    assert_eq!(ready(&cluster, &cluster.agents[0]).await, 200);

    // The newest file is torn; the one before it is still there.
    history.leave_agent(&cluster.agents[0]);
    cluster.agents[0].kill().await;
    let newest = cluster.cache_dir(0).join("current");
    let whole = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &whole[..whole.len() / 2]).unwrap();
    cluster.agents[0] = cluster.start_agent(0).await.unwrap();
    history.follow_agent(&cluster, &cluster.agents[0]);
    cluster.serves(0, 1, BOUND).await;
    let alone = history.requests();
    eventually("calls go on without a control plane", BOUND, || async {
        match history.requests() - alone {
            answered if answered >= 50 => Ok(()),
            answered => Err(answered.to_string()),
        }
    })
    .await;

    let newcomer = cluster.start_agent(7).await.unwrap();
    assert_eq!(
        ready(&cluster, &newcomer).await,
        503,
        "it has nothing to serve"
    );
    cluster.agents.push(newcomer);
    cluster.restart_control_plane(0).await.unwrap();
    cluster.converged(2, BOUND).await;
    assert_eq!(ready(&cluster, &cluster.agents[2]).await, 200);
    history.follow_agent(&cluster, &cluster.agents[2]);
    cluster.all_live(BOUND).await;
    history.judge(&cluster).await;
}

/// Agents that are killed in turn, beside one that is not.
const VICTIMS: usize = 4;

/// Kills agents with `kill -9` while revisions rain on them, `times` over: each one's files must
/// always give it a whole revision to start from.
async fn killed_while_they_write(times: usize) {
    let mut cluster = Cluster::start(1, 1 + VICTIMS).await.unwrap();
    let victims: Vec<_> = cluster.agents.drain(1..).collect();
    let history = cluster.watch();
    eventually("each has a first file", BOUND, || async {
        let files = (1..=VICTIMS).map(|number| cluster.cache_dir(number).join("current"));
        let missing = files.filter(|file| !file.exists()).count();
        (missing == 0)
            .then_some(())
            .ok_or_else(|| missing.to_string())
    })
    .await;
    let began = Instant::now();
    let killing = victims.into_iter().enumerate().map(|(place, mut victim)| {
        let (cluster, number) = (&cluster, 1 + place);
        async move {
            for round in 0..times / VICTIMS {
                // It has what it needs to write, and writes; a different moment each time.
                serving(cluster, &victim).await;
                tokio::time::sleep(Duration::from_millis((round * 7 + place) as u64 % 15)).await;
                victim.kill().await;
                victim = cluster.start_agent(number).await.unwrap();
                let status = ready(cluster, &victim).await;
                assert_eq!(
                    status, 200,
                    "node-{number}, kill {round}: nothing whole is left"
                );
            }
            victim
        }
    });
    let rain = async {
        for weight in 2.. {
            let written = cluster.commit(&history, 0, &cluster.document(weight)).await;
            assert!(matches!(written, Written::Confirmed(_)), "{written:?}");
        }
    };
    let survivors = tokio::select! {
        survivors = join_all(killing) => survivors,
        () = rain => Vec::new(),
    };
    // The write that was given up had been sent.
    history.wrote(&Written::Unknown);
    let torn = (1..=VICTIMS).map(|number| unfinished(&cluster.cache_dir(number)));
    let (kills, torn, took) = (
        times / VICTIMS * VICTIMS,
        torn.sum::<usize>(),
        began.elapsed(),
    );
    println!("{kills} kills in {took:?}, {torn} of them in the middle of a file");
    assert!(
        torn * 10 >= kills,
        "only {torn} of {kills} kills met a write"
    );
    cluster.agents.extend(survivors);
    cluster.all_live(BOUND).await;
    history.judge(&cluster).await;
}

/// Waits until the agent has taken a revision from the control plane in this life of its.
async fn serving(cluster: &Cluster, agent: &Process) {
    eventually("it takes revisions", BOUND, || async {
        match cluster.metric(agent, "lanekeeper_session_connected").await {
            Ok(1.0) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
}

/// Files of configurations whose writers were killed before they were done.
fn unfinished(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let torn = names.filter(|name| name.ends_with(".unfinished") && !name.contains("-starts"));
    torn.count()
}

#[tokio::test]
async fn agents_killed_200_times_while_they_write_their_files_start_from_whole_ones() {
    killed_while_they_write(200).await;
}

#[tokio::test]
async fn an_agent_stopped_with_many_streams_ends_them_whole() {
    const STREAMS: usize = 50;
    let mut cluster = Cluster::start(1, 2).await.unwrap();
    let mut history = cluster.watch();
    let url = format!("{}/v1/chat/completions", cluster.agents[0].url("proxy"));
    let body =
        json!({"model": "chat", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let answer = cluster.http.post(&url).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        streams.push(answer);
    }
    history.leave_agent(&cluster.agents[0]);
    cluster.agents[0].signal("TERM").await;
    let texts = join_all(streams.into_iter().map(reqwest::Response::text)).await;
    for text in texts {
        let text = text.expect("the stream ends as it should");
        assert!(text.trim_end().ends_with("data: [DONE]"), "{text}");
    }
    assert_eq!(cluster.agents[0].exit_code(BOUND).await, Some(0));
    eventually("it is gone from the view at once", LIVENESS, || async {
        let agents = cluster
            .get(0, "/api/v1/agents")
            .await
            .map_err(|error| error.to_string())?;
        let mut agents_shown = agents["agents"].as_array().into_iter().flatten();
        match agents_shown.any(|it| it["name"] == "node-0" && it["state"] == "gone") {
            true => Ok(()),
            false => Err(agents.to_string()),
        }
    })
    .await;
    cluster.agents.remove(0);
    history.judge(&cluster).await;
}
