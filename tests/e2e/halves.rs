//! Control plane and API as processes of their own over PostgreSQL and Redis.

use lanekeeper_store::testing::{PostgresServer, RedisServer};
use lanekeeper_tests::{LIVENESS, Process, eventually, http_client};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

pub(crate) struct Halves {
    pub(crate) http: reqwest::Client,
    pub(crate) token: String,
    pub(crate) api: Vec<Process>,
    pub(crate) control_planes: Vec<Process>,
    _redis: RedisServer,
}

pub(crate) async fn start(folder: &Path) -> Halves {
    let postgres = PostgresServer::shared().await;
    // Its own: the agents of another test's gateway of the same name would be in this view.
    let redis = RedisServer::start().await;
    let servers = vec![
        ("LANEKEEPER_DATABASE_URL", postgres.create_database().await),
        ("LANEKEEPER_REDIS_URL", redis.url().to_owned()),
    ];
    let token_file = folder.join("token");
    let (mut api, mut control_planes) = (Vec::new(), Vec::new());
    for number in 0..2 {
        let arguments = [
            "dashboard-api".to_owned(),
            "--http-listen=127.0.0.1:0".to_owned(),
            format!("--bootstrap-token-file={}", token_file.display()),
        ];
        let log = folder.join(format!("api-{number}.log"));
        api.push(
            Process::start(&arguments, &servers, &["http"], &log)
                .await
                .unwrap(),
        );
        let arguments = [
            "control-plane".to_owned(),
            "--insecure".to_owned(),
            "--grpc-listen=127.0.0.1:0".to_owned(),
            "--ops-listen=127.0.0.1:0".to_owned(),
        ];
        let log = folder.join(format!("control-plane-{number}.log"));
        let listeners = ["grpc", "ops"];
        control_planes.push(
            Process::start(&arguments, &servers, &listeners, &log)
                .await
                .unwrap(),
        );
    }
    let token = std::fs::read_to_string(token_file)
        .unwrap()
        .trim()
        .to_owned();
    Halves {
        http: http_client(),
        token,
        api,
        control_planes,
        _redis: redis,
    }
}

impl Halves {
    /// Starts agents `node-0` and up of the gateway `edge`, in turn on one control plane and the
    /// other.
    pub(crate) async fn agents(&self, folder: &Path, count: usize) -> Vec<Process> {
        let mut agents = Vec::new();
        for number in 0..count {
            let control_plane = &self.control_planes[number % self.control_planes.len()];
            let arguments = [
                "agent".to_owned(),
                "--insecure".to_owned(),
                format!("--control-plane=http://{}", control_plane.address("grpc")),
                "--gateway=edge".to_owned(),
                format!("--name=node-{number}"),
                "--listen=127.0.0.1:0".to_owned(),
                "--ops-listen=127.0.0.1:0".to_owned(),
                "--drain-pause-secs=0".to_owned(),
            ];
            let log = folder.join(format!("agent-{number}.log"));
            let agent = Process::start(&arguments, &[], &["proxy", "ops"], &log).await;
            agents.push(agent.unwrap());
        }
        agents
    }

    pub(crate) async fn get(&self, replica: usize, path: &str) -> Value {
        let url = format!("{}{path}", self.api[replica].url("http"));
        let answer = self
            .http
            .get(url)
            .bearer_auth(&self.token)
            .send()
            .await
            .unwrap();
        answer.error_for_status().unwrap().json().await.unwrap()
    }
}

#[tokio::test]
async fn agents_of_either_control_plane_are_seen_by_either_api() {
    let folder = tempfile::tempdir().unwrap();
    let halves = start(folder.path()).await;
    let log = folder.path().join("provider.log");
    let arguments = ["sim-provider".to_owned(), "--listen=127.0.0.1:0".to_owned()];
    let provider = Process::start(&arguments, &[], &["sim-provider"], &log)
        .await
        .unwrap();
    let document = json!({
        "gateway": "edge",
        "providers": {"one": {"protocol": "openai", "api_key": null,
            "base_url": provider.url("sim-provider")}},
        "models": {"a": {"provider": "one"}, "b": {"provider": "one"}},
        "pools": {"chat": {"members": [{"target": "a"}, {"target": "b"}], "breaker":
            {"trip": {"mode": "consecutive", "consecutive_n": 1}, "base_cooldown_secs": 60}}},
    });
    let url = format!("{}/admin/v1/gateways", halves.api[0].url("http"));
    let created = halves
        .http
        .post(url)
        .bearer_auth(&halves.token)
        .json(&document)
        .send()
        .await;
    assert_eq!(created.unwrap().status(), 201);

    // One agent on each control plane.
    let agents = halves.agents(folder.path(), 2).await;
    let applied = |revision: u64| {
        let halves = &halves;
        async move {
            for replica in 0..2 {
                let agents = halves.get(replica, "/api/v1/agents").await;
                let on_it = |agent: &&Value| agent["applied_revision"] == revision;
                if agents["agents"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(on_it)
                    .count()
                    != 2
                {
                    return Err(format!("replica {replica}: {agents}"));
                }
            }
            Ok(())
        }
    };
    eventually("both agents on revision 1", LIVENESS, || applied(1)).await;

    let fault = json!({"model": "a", "status": 503});
    let url = format!("{}/faults", provider.url("sim-provider"));
    halves
        .http
        .post(url)
        .json(&fault)
        .send()
        .await
        .unwrap()
        .error_for_status()
        .unwrap();
    for agent in &agents {
        let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
        for _ in 0..2 {
            let url = format!("{}/v1/chat/completions", agent.url("proxy"));
            assert_eq!(
                halves
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
    for replica in 0..2 {
        eventually("open on both agents", LIVENESS, || async {
            let view = halves.get(replica, "/api/v1/breaker-state?pool=chat").await;
            let cell = view["cells"].get(0).cloned().unwrap_or_default();
            let whole = view["partial"] == false && cell["agents"]["open"] == 2;
            if whole { Ok(()) } else { Err(view.to_string()) }
        })
        .await;
    }

    // A change made at one API reaches the agents of both control planes.
    let mut changed = document.clone();
    changed["pools"]["chat"]["members"][0]["weight"] = json!(5);
    let url = format!(
        "{}/admin/v1/gateways/edge/config",
        halves.api[1].url("http")
    );
    let put = halves
        .http
        .put(url)
        .bearer_auth(&halves.token)
        .header("if-match", "\"1\"");
    assert_eq!(put.json(&changed).send().await.unwrap().status(), 200);
    eventually("both agents on revision 2", Duration::from_secs(2), || {
        applied(2)
    })
    .await;
}

#[tokio::test]
async fn a_browser_that_signs_out_at_one_replica_is_out_at_every_other() {
    let folder = tempfile::tempdir().unwrap();
    let halves = start(folder.path()).await;
    let session = |replica: usize| format!("{}/session", halves.api[replica].url("http"));
    let form = json!({"token": halves.token});
    let signed_in = halves.http.post(session(0)).json(&form).send().await;
    let signed_in = signed_in.unwrap().error_for_status().unwrap();
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let read = |replica: usize| {
        let url = format!("{}/api/v1/summary", halves.api[replica].url("http"));
        halves.http.get(url).header("cookie", &cookie).send()
    };
    for replica in 0..2 {
        assert_eq!(read(replica).await.unwrap().status(), 200);
    }
    let left = halves.http.delete(session(0)).header("cookie", &cookie);
    assert_eq!(left.send().await.unwrap().status(), 204);
    assert_eq!(read(0).await.unwrap().status(), 401);
    eventually(
        "the other replica hears of it",
        Duration::from_secs(3),
        || async {
            match read(1).await.unwrap().status().as_u16() {
                401 => Ok(()),
                status => Err(status.to_string()),
            }
        },
    )
    .await;
    // The token itself goes on.
    halves.get(1, "/api/v1/summary").await;
}
