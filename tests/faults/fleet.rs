//! Many agents at once: herds, copies, refusals, and one picture at every API.

use futures_util::{StreamExt, future, stream};
use lanekeeper_proto::FleetClient;
use lanekeeper_proto::message::{FromAgent, FromServer, GoodbyeReason};
use lanekeeper_tests::{
    Cluster, FaultProxy, GATEWAY, Pace, Written, eventually, holds_for, target_folder,
};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

use crate::{hello, past_the_api};

const BACK: Duration = Duration::from_secs(45);
/// Farewells may take 5 s; the rest is for a busy machine.
const GRACE: Duration = Duration::from_secs(10);
const SESSIONS: &str = "lanekeeper_sessions";

/// Simulated agents that dial `address` until this is dropped.
fn swarm(address: &str, agents: usize, open_share: f64) -> tokio::process::Child {
    tokio::process::Command::new(target_folder().join("lanekeeper"))
        .args(["--log=error", "fleet-sim", "--insecure", "--seconds=300"])
        .arg(format!("--gateway={GATEWAY}"))
        .arg(format!("--control-plane=http://{address}"))
        .arg(format!("--agents={agents}"))
        .args(["--cells=20", "--transition-secs=0"])
        .arg(format!("--open-share={open_share}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn sessions(cluster: &Cluster, count: usize, bound: Duration) -> Duration {
    let what = format!("{count} sessions");
    let ((), took) = eventually(&what, bound, || async {
        match cluster.metric(&cluster.control_planes[0], SESSIONS).await {
            Ok(seen) if seen == count as f64 => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await;
    took
}

/// The most of these moments that lie within `span`.
fn most_within(span: Duration, moments: &[Instant]) -> usize {
    let from = |first: Instant| {
        let within = |it: &&Instant| **it >= first && **it - first < span;
        moments.iter().filter(within).count()
    };
    moments.iter().map(|it| from(*it)).max().unwrap_or(0)
}

#[tokio::test]
async fn a_herd_comes_back_spread_over_time_even_when_its_server_dies_again() {
    const HERD: usize = 200;
    let mut cluster = Cluster::start(1, 1).await.unwrap();
    let proxy = FaultProxy::start(cluster.control_planes[0].address("grpc"))
        .await
        .unwrap();
    let _swarm = swarm(proxy.address(), HERD, 0.02);
    sessions(&cluster, HERD + 1, BACK).await;
    let (history, pace) = (cluster.watch(), Pace::watch());

    let first = Instant::now();
    cluster.control_planes[0].kill().await;
    cluster.restart_control_plane(0).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5).saturating_sub(first.elapsed())).await;
    let second = Instant::now();
    cluster.control_planes[0].kill().await;
    cluster.restart_control_plane(0).await.unwrap();
    sessions(&cluster, HERD + 1, BACK).await;
    println!("all back {:?} after the second death", second.elapsed());
    let third = Instant::now();
    cluster.control_planes[0].signal("TERM").await;
    let ended = cluster.control_planes[0]
        .exit_code(pace.allowed(GRACE))
        .await;
    assert_eq!(ended, Some(0), "an orderly end with {HERD} sessions");
    cluster.restart_control_plane(0).await.unwrap();
    sessions(&cluster, HERD + 1, BACK).await;
    println!("all back {:?} after it was asked to stop", third.elapsed());

    let dials: Vec<_> = proxy
        .accepted()
        .into_iter()
        .filter(|it| *it > first)
        .collect();
    let from = |start: Instant, end: Instant| -> Vec<_> {
        let within = dials.iter().filter(|it| **it >= start && **it < end);
        within.copied().collect()
    };
    for (which, dials, death) in [
        ("first", from(first, second), first),
        ("second", from(second, third), second),
        ("orderly", from(third, Instant::now()), third),
    ] {
        let span = Duration::from_millis(100);
        let most = most_within(span, &dials);
        let last = dials.iter().max().map_or(Duration::ZERO, |it| *it - death);
        println!(
            "after the {which} death {} dials within {last:?}, {most} of them within {span:?}",
            dials.len()
        );
        assert!(dials.len() >= HERD, "everybody dials again");
        // A machine that stands still for a moment takes the dials of that moment at once.
        let allowed = (HERD / 3) as f64 * pace.stretch();
        assert!((most as f64) <= allowed, "{most} dials within {span:?}");
    }
    history.judge(&cluster).await;
}

#[tokio::test]
async fn an_agent_that_refused_a_revision_and_was_cut_off_takes_the_next_one() {
    let mut cluster = Cluster::start(1, 1).await.unwrap();
    let proxy = FaultProxy::start(cluster.control_planes[0].address("grpc"))
        .await
        .unwrap();
    let agent = cluster
        .start_agent_through(1, proxy.address())
        .await
        .unwrap();
    cluster.agents.push(agent);
    cluster.converged(1, BACK).await;
    let history = cluster.watch();

    let mut document = cluster.document(2);
    document["pools"]["chat"]["members"] = json!([{"target": "gpt-nowhere"}]);
    assert_eq!(past_the_api(&cluster, &history, 1, &document).await, 2);
    let refused = async || {
        eventually("both refuse it and serve on", BACK, || async {
            for name in ["node-0", "node-1"] {
                let agent = cluster.listed(0, name).await.map_err(|e| e.to_string())?;
                let is_refused = agent["last_error"]["revision"] == 2
                    && agent["last_error"].to_string().contains("gpt-nowhere")
                    && agent["applied_revision"] == 1
                    && agent["state"] == "live";
                if !is_refused {
                    return Err(agent.to_string());
                }
            }
            Ok(())
        })
        .await;
    };
    refused().await;
    // Back with a new session, it refuses the same again; nothing loops meanwhile.
    let dialled = proxy.accepted().len();
    proxy.cut();
    sessions(&cluster, 2, BACK).await;
    refused().await;
    assert!(proxy.accepted().len() <= dialled + 2, "a reconnect loop");
    // The mended one comes while it is away.
    proxy.hold();
    proxy.cut();
    let mended = cluster.document(3);
    assert_eq!(
        cluster.commit(&history, 0, &mended).await,
        Written::Confirmed(3)
    );
    proxy.release();
    cluster.converged(3, BACK).await;
    eventually("nothing is held against it", BACK, || async {
        let agent = cluster
            .listed(0, "node-1")
            .await
            .map_err(|e| e.to_string())?;
        match agent["converged"] == true && agent["last_error"].is_null() {
            true => Ok(()),
            false => Err(agent.to_string()),
        }
    })
    .await;
    history.judge(&cluster).await;
}

#[tokio::test]
async fn two_processes_of_one_name_are_two_agents_and_a_copied_instance_is_refused() {
    let mut cluster = Cluster::start(2, 1).await.unwrap();
    // The same name and the same folder, as from a copied machine.
    let copy = cluster.start_agent(0).await.unwrap();
    cluster.agents.push(copy);
    cluster.converged(1, BACK).await;
    cluster.all_live(BACK).await;
    let history = cluster.watch();
    let instance = cluster.listed(0, "node-0").await.unwrap()["instance"]
        .as_str()
        .unwrap()
        .to_owned();

    // At another replica than the one that serves the original.
    let mut client = FleetClient::connect(cluster.control_planes[1].url("grpc"))
        .await
        .unwrap();
    let first = FromAgent::Hello(hello(&instance)).into();
    let saying = stream::iter([first]).chain(stream::pending());
    let mut answers = client.session(saying).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let FromServer::Goodbye(goodbye) = FromServer::try_from(answer).unwrap() else {
        panic!("the copy of a living instance is let in");
    };
    assert_eq!(goodbye.reason, GoodbyeReason::Duplicate);
    eventually("every API shows the copy", BACK, || async {
        for api in [0, 1] {
            let path = format!("/api/v1/agents/{instance}");
            let agent = cluster.get(api, &path).await.map_err(|e| e.to_string())?;
            if !agent["problems"].to_string().contains("claims this agent") {
                return Err(agent.to_string());
            }
        }
        Ok(())
    })
    .await;

    holds_for("both stay live", Duration::from_secs(5), || async {
        let agents = cluster
            .get(0, "/api/v1/agents?state=live")
            .await
            .map_err(|e| e.to_string())?;
        let listed = agents["agents"].as_array().map_or(0, Vec::len);
        let open = cluster.metric(&cluster.control_planes[0], SESSIONS).await;
        match listed == 2 && open.is_ok_and(|open| open == 2.0) {
            true => Ok(()),
            false => Err(agents.to_string()),
        }
    })
    .await;
    history.judge(&cluster).await;
}

/// Takes out what differs from moment to moment: ages and times.
fn timeless(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| {
                !["_secs", "_ms", "_at", "version", "etag"]
                    .iter()
                    .any(|end| name.ends_with(end))
            });
            fields.values_mut().for_each(timeless);
        }
        Value::Array(items) => items.iter_mut().for_each(timeless),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The first place where two pictures differ, and what is there.
fn difference(place: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) if fields.len() == others.len() => fields
            .iter()
            .find_map(|(name, value)| difference(&format!("{place}/{name}"), value, &others[name])),
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let pairs = items.iter().zip(others).enumerate();
            pairs
                .filter_map(|(at, (one, other))| difference(&format!("{place}/{at}"), one, other))
                .next()
        }
        _ => (one != other).then(|| format!("{place}: {one} and {other}")),
    }
}

#[tokio::test]
async fn every_api_shows_one_picture_under_load() {
    const SWARM: usize = 100;
    /// A change is seen by one API before the other, by at most this.
    const APART_MAX: Duration = Duration::from_secs(2);
    let cluster = Cluster::start(2, 2).await.unwrap();
    let _swarm = swarm(cluster.control_planes[0].address("grpc"), SWARM, 0.2);
    sessions(&cluster, SWARM + 1, BACK).await;
    let history = cluster.watch();
    let path = "/api/v1/breaker-state?include=closed";
    let picture = async |api: usize| -> Value {
        let mut view = cluster.get(api, path).await.unwrap();
        timeless(&mut view);
        view
    };
    eventually("all are in both pictures", BACK, || async {
        for api in 0..2 {
            let view = picture(api).await;
            if view["agents"]["live"] != SWARM + 2 || view["partial"] != false {
                return Err(view["agents"].to_string());
            }
        }
        Ok(())
    })
    .await;
    // Each agent's first report comes at a time of its own within an interval.
    let settled = Mutex::new((Value::Null, Instant::now()));
    eventually("nothing changes any more", BACK, || async {
        let now = picture(0).await;
        let mut seen = settled.lock().await;
        if difference("", &seen.0, &now).is_some() {
            *seen = (now, Instant::now());
        }
        match seen.1.elapsed() >= Duration::from_secs(3) {
            true => Ok(()),
            false => Err("it changes".to_owned()),
        }
    })
    .await;
    let looks = async {
        let (began, pace) = (Instant::now(), Pace::watch());
        let before = settled.lock().await.0.clone();
        let (mut looks, mut alike, mut changed, mut apart) = (0, 0, false, None::<Instant>);
        while began.elapsed() < Duration::from_secs(10) {
            let (one, other) = future::join(picture(0), picture(1)).await;
            looks += 1;
            changed |= one != before;
            match difference("", &one, &other) {
                None => {
                    alike += 1;
                    apart = None;
                }
                Some(difference) => {
                    println!("{difference}");
                    let since = *apart.get_or_insert_with(Instant::now);
                    assert!(since.elapsed() <= pace.allowed(APART_MAX), "{difference}");
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(changed, "there was nothing to disagree about");
        (looks, alike, pace.stretch())
    };
    let change = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let order = json!({"action": "force_open", "pool": "chat", "lane": "gpt-east",
            "ttl_secs": 60, "reason": "the east burns"});
        let url = format!(
            "{}/admin/v1/gateways/{GATEWAY}/overrides",
            cluster.apis[0].url("http")
        );
        let given = cluster.http.post(url).bearer_auth(&cluster.token);
        let answer = given.json(&order).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    };
    let ((looks, alike, stretch), ()) = future::join(looks, change).await;
    println!("{alike} of {looks} looks alike");
    let apart = f64::from(looks - alike);
    assert!(
        apart * 10.0 <= f64::from(looks) * stretch,
        "{alike} of {looks} looks alike"
    );
    history.judge(&cluster).await;
}
