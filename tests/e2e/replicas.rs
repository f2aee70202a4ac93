//! Every replica answers alike: under changes of every kind two APIs over two control planes come
//! to send the same bytes, but for the moment and the ages.

use crate::halves::{self, Halves};
use lanekeeper_tests::{Process, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for both to show the same after a change. Agents report every 10 s +-10 % else.
const BOUND: Duration = Duration::from_secs(30);
const AGENTS: usize = 4;

/// A body without what the clock alone moves, and its tag.
async fn timeless(halves: &Halves, replica: usize, path: &str) -> (String, String) {
    let url = format!("{}{path}", halves.api[replica].url("http"));
    let asked = halves.http.get(url).bearer_auth(&halves.token);
    let answer = asked.send().await.unwrap().error_for_status().unwrap();
    let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
    let body = answer.text().await.unwrap();
    (without("_secs\":", &without("generated_at\":", &body)), tag)
}

/// The text with the values after a key's end blanked; null stays, for it says that there is none.
fn without(key: &str, text: &str) -> String {
    let mut parts = text.split(key);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(key);
        let end = part.find([',', '}']).unwrap();
        kept.push_str(if &part[..end] == "null" { "null" } else { "_" });
        kept.push_str(&part[end..]);
    }
    kept
}

/// Waits until both APIs answer every form of the view alike, and with what is wanted in it.
async fn alike(halves: &Halves, what: &str, wanted: impl Fn(&Value) -> bool) {
    let wanted = &wanted;
    let ((), took) = eventually(what, BOUND, || async move {
        let view = halves.get(0, "/api/v1/breaker-state?include=closed").await;
        if view["partial"] != false || !wanted(&view) {
            return Err(view.to_string());
        }
        for query in [
            "",
            "?include=closed",
            "?include=closed&detail=agents",
            "?gateway=edge&pool=chat&lane=a",
            "?state=open",
        ] {
            let path = format!("/api/v1/breaker-state{query}");
            let (one, other) = tokio::join!(timeless(halves, 0, &path), timeless(halves, 1, &path));
            if one != other {
                return Err(format!("{path}: {one:?} and {other:?}"));
            }
        }
        Ok(())
    })
    .await;
    println!("{what}: alike after {took:?}");
}

fn cell<'a>(view: &'a Value, lane: &str) -> &'a Value {
    let cells = view["cells"].as_array().unwrap();
    let found = cells
        .iter()
        .find(|cell| cell["pool"] == "chat" && cell["lane"] == lane);
    found.unwrap_or(&Value::Null)
}

#[tokio::test]
async fn every_replica_answers_the_same_bytes_but_for_the_time_under_changes() {
    let folder = tempfile::tempdir().unwrap();
    let halves = halves::start(folder.path()).await;
    let log = folder.path().join("provider.log");
    let arguments = ["sim-provider".to_owned(), "--listen=127.0.0.1:0".to_owned()];
    let provider = Process::start(&arguments, &[], &["sim-provider"], &log)
        .await
        .unwrap();
    let mut document = json!({
        "gateway": "edge",
        "providers": {"one": {"protocol": "openai", "api_key": null,
            "base_url": provider.url("sim-provider")}},
        "models": {"a": {"provider": "one"}, "b": {"provider": "one"}},
        "pools": {"chat": {"members": [{"target": "a"}, {"target": "b"}], "breaker":
            {"trip": {"mode": "consecutive", "consecutive_n": 1}, "base_cooldown_secs": 60}}},
    });
    let admin = |replica: usize| format!("{}/admin/v1/gateways", halves.api[replica].url("http"));
    let post = async |url: String, body: &Value| {
        let sent = halves.http.post(url).bearer_auth(&halves.token).json(body);
        let answer = sent.send().await.unwrap();
        assert!(
            answer.status().is_success(),
            "{}",
            answer.text().await.unwrap()
        );
        answer.json::<Value>().await.unwrap()
    };
    post(admin(0), &document).await;
    let agents = halves.agents(folder.path(), AGENTS).await;
    alike(&halves, "the agents are there", |view| {
        view["agents"]["live"] == AGENTS && cell(view, "a")["agents"]["closed"] == AGENTS
    })
    .await;

    let fault = json!({"model": "a", "status": 503});
    post(format!("{}/faults", provider.url("sim-provider")), &fault).await;
    let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
    // One agent of each control plane meets the fault.
    for (number, open) in [(0, 1), (1, 2)] {
        for _ in 0..2 {
            let url = format!("{}/v1/chat/completions", agents[number].url("proxy"));
            let answer = halves.http.post(url).json(&body).send().await.unwrap();
            assert_eq!(answer.status(), 200);
        }
        alike(&halves, "another agent's cell is open", |view| {
            cell(view, "a")["agents"]["open"] == open
        })
        .await;
    }

    let order = json!({"action": "force_open", "pool": "chat", "lane": "a", "ttl_secs": 600,
        "reason": "a drill"});
    let order = post(format!("{}/edge/overrides", admin(1)), &order).await;
    alike(&halves, "an override is obeyed by all", |view| {
        cell(view, "a")["agents"]["overridden"] == AGENTS
    })
    .await;
    let id = order["id"].as_str().unwrap();
    let release = halves
        .http
        .delete(format!("{}/edge/overrides/{id}", admin(0)));
    let released = release.bearer_auth(&halves.token).send().await.unwrap();
    assert_eq!(released.status(), 204);
    alike(&halves, "the order is over", |view| {
        cell(view, "a")["agents"]["overridden"] == 0 && cell(view, "a")["override"].is_null()
    })
    .await;

    document["models"]["c"] = json!({"provider": "one"});
    document["pools"]["chat"]["members"] =
        json!([{"target": "a"}, {"target": "b"}, {"target": "c"}]);
    let put = halves.http.put(format!("{}/edge/config", admin(1)));
    let put = put.bearer_auth(&halves.token).header("if-match", "*");
    let written = put.json(&document).send().await.unwrap();
    assert_eq!(written.status(), 200, "{}", written.text().await.unwrap());
    alike(&halves, "a new lane is closed everywhere", |view| {
        cell(view, "c")["agents"]["closed"] == AGENTS
    })
    .await;

    agents[3].signal("TERM").await;
    alike(&halves, "an agent is gone", |view| {
        view["agents"]["live"] == AGENTS - 1
    })
    .await;
}
