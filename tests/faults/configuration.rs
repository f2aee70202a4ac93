//! Configuration that comes fast, comes twice, comes as poison, or is cut off on its way.

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use lanekeeper_tests::{Cluster, Pace, Written, eventually};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::past_the_api;

const BOUND: Duration = Duration::from_secs(45);

#[tokio::test]
async fn a_thousand_commits_in_a_row_end_with_the_newest_on_every_agent() {
    const COMMITS: u64 = 1_000;
    const WRITERS: usize = 8;
    /// Ten seconds where nothing else runs, and room for a slower machine.
    const COMMITS_BOUND: Duration = Duration::from_secs(60);
    let cluster = Cluster::start(2, 2).await.unwrap();
    let history = cluster.watch();
    let (began, pace) = (Instant::now(), Pace::watch());
    let mut written: Vec<u64> = stream::iter(0..COMMITS)
        .map(|number| {
            let (cluster, history) = (&cluster, &history);
            // Every document differs from the one before, whoever comes first.
            let document = cluster.document(number + 2);
            async move {
                let api = usize::try_from(number % 2).unwrap_or(0);
                loop {
                    match cluster.commit(history, api, &document).await {
                        Written::Confirmed(revision) => return revision,
                        // Another writer was between our look and our write.
                        Written::Refused(412) => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
        })
        .buffer_unordered(WRITERS)
        .collect()
        .await;
    let took = began.elapsed();
    println!("{COMMITS} commits in {took:?}");
    assert!(took <= pace.allowed(COMMITS_BOUND), "{took:?}");
    written.sort_unstable();
    assert_eq!(
        written,
        (2..=COMMITS + 1).collect::<Vec<_>>(),
        "each once, no gap"
    );
    println!(
        "on every agent after {:?}",
        cluster.converged(COMMITS + 1, BOUND).await
    );
    history.judge(&cluster).await;
}

/// Documents that must not be applied, by what is wrong with them.
fn poison(good: &Value) -> Vec<(&'static str, Value)> {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut document = good.clone();
        change(&mut document);
        document
    };
    let many: serde_json::Map<String, Value> = (0..20_000)
        .map(|number| (format!("pool-{number}"), good["pools"]["chat"].clone()))
        .collect();
    vec![
        (
            "ten times the pools there may be",
            with(&|it| it["pools"] = Value::Object(many.clone())),
        ),
        (
            "a member twice",
            with(&|it| {
                let member = it["pools"]["chat"]["members"][0].clone();
                it["pools"]["chat"]["members"]
                    .as_array_mut()
                    .unwrap()
                    .push(member);
            }),
        ),
        (
            "a blank name",
            with(&|it| it["pools"][""] = it["pools"]["chat"].clone()),
        ),
        (
            "an unknown word",
            with(&|it| it["pools"]["chat"]["strategy"] = json!("cleverest")),
        ),
        (
            "an unknown key",
            with(&|it| it["pools"]["chat"]["weigths"] = json!(1)),
        ),
        (
            "a fallback cycle",
            with(&|it| {
                it["pools"]["other"] = it["pools"]["chat"].clone();
                it["pools"]["chat"]["on_exhausted"] = json!({"fallback_pool": "other"});
                it["pools"]["other"]["on_exhausted"] = json!({"fallback_pool": "chat"});
            }),
        ),
        ("nothing at all", json!(null)),
        ("another gateway", with(&|it| it["gateway"] = json!("lab"))),
    ]
}

#[tokio::test]
async fn poison_is_refused_whole_by_the_api_and_past_it_by_every_agent() {
    let cluster = Cluster::start(1, 2).await.unwrap();
    let history = cluster.watch();
    let good = cluster.document(2);
    for (what, document) in &poison(&good) {
        // On a busy machine the largest of them takes longer than a client waits.
        eventually(what, BOUND, || async {
            match cluster.commit(&history, 0, document).await {
                Written::Refused(400) => Ok(()),
                Written::Unknown => Err("no answer".to_owned()),
                other => panic!("{what}: {other:?}"),
            }
        })
        .await;
    }
    let huge = json!({"gateway": "edge", "labels": {"x": "y".repeat(16 << 20)}});
    // The refusal may overtake the body, and a client that still writes then misses it.
    eventually("a document that is too large", BOUND, || async {
        match cluster.commit(&history, 0, &huge).await {
            Written::Refused(413) => Ok(()),
            Written::Unknown => Err("no answer".to_owned()),
            other => panic!("{other:?}"),
        }
    })
    .await;
    cluster.converged(1, BOUND).await;
    // What never passed the API: a bug there, a newer release, a hand in the database.
    let mut newest = 1;
    for (what, document) in &poison(&good) {
        newest = past_the_api(&cluster, &history, newest, document).await;
        eventually(what, BOUND, || async {
            for name in ["node-0", "node-1"] {
                let agent = cluster.listed(0, name).await.map_err(|e| e.to_string())?;
                let is_refused = agent["last_error"]["revision"] == newest
                    && agent["last_error"]["errors"][0]["message"].is_string()
                    && agent["applied_revision"] == 1
                    && agent["state"] == "live";
                if !is_refused {
                    return Err(agent.to_string());
                }
            }
            Ok(())
        })
        .await;
    }
    cluster.converged(1, BOUND).await;
    assert_eq!(
        cluster.commit(&history, 0, &good).await,
        Written::Confirmed(newest + 1),
        "what was refused left nothing behind"
    );
    history.judge(&cluster).await;
}

#[tokio::test]
async fn of_two_gateways_created_under_one_name_at_once_there_is_one() {
    const CREATORS: usize = 8;
    let cluster = Cluster::start(2, 1).await.unwrap();
    let history = cluster.watch();
    let mut lab = cluster.document(2);
    lab["gateway"] = json!("lab");
    let creating = (0..CREATORS).map(|number| {
        let url = format!("{}/admin/v1/gateways", cluster.apis[number % 2].url("http"));
        let post = cluster
            .http
            .post(url)
            .bearer_auth(&cluster.token)
            .json(&lab);
        async move { post.send().await.unwrap().status().as_u16() }
    });
    let mut statuses = join_all(creating).await;
    statuses.sort_unstable();
    assert_eq!(statuses[0], 201);
    assert_eq!(statuses[1..], [409; CREATORS - 1]);
    let audit = cluster.get(1, "/admin/v1/audit?limit=100").await.unwrap();
    let entries = audit["entries"].as_array().unwrap();
    let count = |outcome: &str, resource: &str| {
        let of_it = |it: &&Value| {
            it["action"] == "gateway.create"
                && it["outcome"] == outcome
                && it["resource"] == resource
        };
        entries.iter().filter(of_it).count()
    };
    assert_eq!(count("done", "gateways/lab"), 1, "{audit}");
    assert_eq!(count("refused", "gateways"), CREATORS - 1, "{audit}");
    history.judge(&cluster).await;
}

/// A canary that refuses a revision keeps it from everybody else, and the old one comes back.
#[tokio::test]
async fn a_revision_that_the_canary_refuses_goes_no_further_and_is_taken_back() {
    let cluster = Cluster::start(2, 4).await.unwrap();
    let history = cluster.watch();
    cluster.all_live(BOUND).await;
    let plan = json!({"strategy": "staged", "canary": {"percent": 25}, "percents": [50],
        "hold_secs": 1, "auto_rollback": true});
    let gateway = format!("{}/admin/v1/gateways/edge", cluster.apis[0].url("http"));
    let put = cluster.http.put(format!("{gateway}/rollout-plan"));
    let put = put.bearer_auth(&cluster.token).json(&plan).send().await;
    assert_eq!(put.unwrap().status(), 200);
    let bad = &poison(&cluster.document(2))[1].1;
    let refused = past_the_api(&cluster, &history, 1, bad).await;
    let back = refused + 1;
    let path = format!("/admin/v1/gateways/edge/rollouts/{refused}");
    eventually("it is taken back", BOUND, || async {
        let rollout = cluster.get(1, &path).await.map_err(|e| e.to_string())?;
        let is_back = rollout["state"] == "rolled_back"
            && rollout["stop"]["kind"] == "rejected"
            && rollout["rollback_revision"] == back;
        is_back.then_some(()).ok_or_else(|| rollout.to_string())
    })
    .await;
    history.wrote(&Written::Confirmed(back));
    cluster.converged(back, BOUND).await;
    let asked = (0..4).filter(|number| {
        let log = cluster.folder().join(format!("agent-{number}.log"));
        std::fs::read_to_string(log).unwrap().contains("refused")
    });
    assert_eq!(asked.count(), 1, "only the canary was asked");
    history.judge(&cluster).await;
}

#[tokio::test]
async fn a_control_plane_killed_while_it_pushes_leaves_agents_on_one_whole_revision_or_the_other() {
    let mut cluster = Cluster::start(2, 4).await.unwrap();
    let history = cluster.watch();
    let mut newest = 1;
    for weight in 2..=4 {
        let document = cluster.document(weight);
        newest = match cluster.commit(&history, 0, &document).await {
            Written::Confirmed(revision) => revision,
            other => panic!("{other:?}"),
        };
        cluster.control_planes[0].kill().await;
        cluster.restart_control_plane(0).await.unwrap();
    }
    cluster.converged(newest, BOUND).await;
    cluster.all_live(BOUND).await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_made_once_under_its_key() {
    let cluster = Cluster::start(2, 1).await.unwrap();
    let history = cluster.watch();
    let document = cluster.document(2);
    let body = document.to_string();
    for round in 0..10_u64 {
        // The client is gone as soon as it has asked.
        let api = usize::try_from(round % 2).unwrap_or(0);
        let mut socket = TcpStream::connect(cluster.apis[api].address("http"))
            .await
            .unwrap();
        let head = format!(
            "PUT /admin/v1/gateways/edge/config HTTP/1.1\r\nhost: api\r\nauthorization: Bearer {}\r\n\
             if-match: \"1\"\r\nidempotency-key: the-write\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            cluster.token,
            body.len()
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        socket.write_all(body.as_bytes()).await.unwrap();
        drop(socket);
        history.wrote(&Written::Unknown);
    }
    let (revision, _) = eventually("the write is confirmed", BOUND, || async {
        let url = format!(
            "{}/admin/v1/gateways/edge/config",
            cluster.apis[0].url("http")
        );
        let answer = cluster
            .http
            .put(url)
            .bearer_auth(&cluster.token)
            .header("if-match", "\"1\"")
            .header("idempotency-key", "the-write")
            .json(&document)
            .send()
            .await
            .map_err(|error| error.to_string())?;
        if answer.status() != 200 {
            return Err(answer.text().await.unwrap_or_default());
        }
        let body: Value = answer.json().await.map_err(|error| error.to_string())?;
        body["revision"].as_u64().ok_or_else(|| body.to_string())
    })
    .await;
    assert_eq!(revision, 2, "made once, however often it was asked for");
    history.wrote(&Written::Confirmed(revision));
    let current = cluster.get(1, "/admin/v1/gateways/edge").await.unwrap();
    assert_eq!(current["revision"], 2, "{current}");
    history.judge(&cluster).await;
}
