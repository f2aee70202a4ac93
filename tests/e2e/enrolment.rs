//! Agents join a server that nobody gave certificates, keep what they got, renew it, and are sent
//! away; requests through them notice nothing.

use lanekeeper_tests::{Process, command, eventually, holds_for, http_client};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for something that takes a moment.
const BOUND: Duration = Duration::from_secs(20);
/// A revoked agent's session ends within this.
const REVOCATION_BOUND: Duration = Duration::from_secs(5);
/// Life of an agent's certificate where renewals are wanted, in seconds.
const SHORT_LIFE_SECS: u64 = 6;

struct Site {
    folder: tempfile::TempDir,
    provider: Process,
    server: Process,
    token: String,
    http: reqwest::Client,
}

impl Site {
    async fn start(further: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["sim-provider".to_owned(), "--listen=127.0.0.1:0".to_owned()];
        let log = folder.path().join("provider.log");
        let provider = Process::start(&arguments, &[], &["sim-provider"], &log)
            .await
            .unwrap();
        let server = serve(&folder, ["127.0.0.1:0"; 3], further).await;
        let token = std::fs::read_to_string(folder.path().join("token")).unwrap();
        let site = Self {
            folder,
            provider,
            server,
            token: token.trim().to_owned(),
            http: http_client(),
        };
        let document = json!({
            "gateway": "edge",
            "providers": {"one": {"protocol": "openai", "api_key": null,
                "base_url": site.provider.url("sim-provider")}},
            "models": {"m": {"provider": "one"}},
            "pools": {"chat": {"members": [{"target": "m", "weight": 1}]}},
        });
        site.post("/admin/v1/gateways", &document).await;
        site
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.server.url("http"));
        let answer = self.http.post(url).bearer_auth(&self.token).json(body);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
        answer.json().await.unwrap()
    }

    async fn get(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.server.url("http"));
        let answer = self.http.get(url).bearer_auth(&self.token);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
    }

    async fn delete(&self, path: &str) {
        let url = format!("{}{path}", self.server.url("http"));
        let answer = self.http.delete(url).bearer_auth(&self.token);
        assert_eq!(answer.send().await.unwrap().status(), 204);
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("join-token")
    }

    /// Makes a join token for one agent and puts it where the agent looks.
    async fn new_join_token(&self) {
        let url = self.server.url("http");
        let environment = [
            ("LANEKEEPER_URL", url.as_str()),
            ("LANEKEEPER_TOKEN", &self.token),
        ];
        let made = command(&["join-token", "create", "edge"], &environment).await;
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        std::fs::write(self.token_file(), made.stdout).unwrap();
        let listed = command(&["join-token", "list", "-o", "wide"], &environment).await;
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.contains("edge"), "{listed}");
    }

    async fn agent(&self) -> Process {
        self.agent_of("node-1", "cache").await
    }

    /// Starts an agent with a cache folder of its own.
    async fn agent_of(&self, name: &str, cache: &str) -> Process {
        let port = self.server.address("grpc").rsplit(':').next().unwrap();
        let arguments = [
            "agent".to_owned(),
            format!("--control-plane=https://localhost:{port}"),
            "--gateway=edge".to_owned(),
            format!("--name={name}"),
            format!("--join-token-file={}", self.token_file().display()),
            format!("--cache-dir={}", self.folder.path().join(cache).display()),
            "--listen=127.0.0.1:0".to_owned(),
            "--ops-listen=127.0.0.1:0".to_owned(),
            "--drain-pause-secs=0".to_owned(),
        ];
        let log = self.folder.path().join(format!("{name}.log"));
        Process::start(&arguments, &[], &["proxy", "ops"], &log)
            .await
            .unwrap()
    }

    async fn stats(&self, agent: &Process) -> Value {
        let url = format!("{}/stats", agent.url("ops"));
        let answer = self.http.get(url).send().await.unwrap();
        answer.json::<Value>().await.unwrap()["agent"].clone()
    }

    async fn connected(&self, agent: &Process, wanted: bool, bound: Duration) {
        let what = format!("connected is {wanted}");
        eventually(&what, bound, || async {
            let stats = self.stats(agent).await;
            if stats["connected"] == wanted && (!wanted || stats["revision"] == 1) {
                Ok(())
            } else {
                Err(stats.to_string())
            }
        })
        .await;
    }

    async fn has_problems(&self, agent: &Process, wanted: bool) {
        eventually(&format!("problems is {wanted}"), BOUND, || async {
            let stats = self.stats(agent).await;
            let problems = stats["problems"].as_array();
            match problems.is_some_and(|it| it.is_empty() != wanted) {
                true => Ok(()),
                false => Err(stats.to_string()),
            }
        })
        .await;
    }

    async fn serves(&self, agent: &Process) {
        let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
        let url = format!("{}/v1/chat/completions", agent.url("proxy"));
        let answer = self.http.post(url).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }

    /// The value of a series that a process prints, labels included; `None` when it does not.
    async fn metric(&self, process: &Process, series: &str) -> Option<f64> {
        let url = format!("{}/metrics", process.url("ops"));
        let answer = self.http.get(url).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }

    /// The identities that are in force.
    async fn identities(&self) -> Vec<Value> {
        let listed = self.get("/admin/v1/identities?gateway=edge").await;
        let listed = listed["identities"].as_array().unwrap().clone();
        listed
            .into_iter()
            .filter(|identity| identity["revoked_at"].is_null())
            .collect()
    }
}

async fn serve(folder: &tempfile::TempDir, listen: [&str; 3], further: &[String]) -> Process {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut arguments = vec![
        "server".to_owned(),
        format!("--data-dir={}", path("data")),
        format!("--grpc-listen={}", listen[0]),
        format!("--http-listen={}", listen[1]),
        format!("--ops-listen={}", listen[2]),
        format!("--bootstrap-token-file={}", path("token")),
    ];
    arguments.extend(further.iter().cloned());
    let log = folder.path().join("server.log");
    Process::start(&arguments, &[], &["grpc", "http", "ops"], &log)
        .await
        .unwrap()
}

#[tokio::test]
async fn an_agent_joins_once_returns_without_its_token_and_is_sent_away() {
    let mut site = Site::start(&[]).await;
    site.new_join_token().await;
    let mut agent = site.agent().await;
    site.connected(&agent, true, BOUND).await;
    site.serves(&agent).await;
    let identity = site.identities().await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let granted = "lanekeeper_enrolments_total{by=\"join_token\",outcome=\"granted\"}";
    assert_eq!(site.metric(&site.server, granted).await, Some(1.0));
    let left = site
        .metric(
            &agent,
            r#"lanekeeper_certificate_expiry_seconds{gateway="edge"}"#,
        )
        .await;
    assert!(
        left.is_some_and(|left| (86_000.0..=86_400.0).contains(&left)),
        "{left:?}"
    );
    let authority = site
        .metric(&site.server, "lanekeeper_authority_expiry_seconds")
        .await;
    let ten_years = 3650.0 * 86_400.0;
    assert!(authority.is_some_and(|left| (ten_years - 60.0..=ten_years).contains(&left)));
    assert_eq!(
        site.metric(&site.server, "lanekeeper_identities_revoked")
            .await,
        Some(0.0)
    );

    // The token is spent and gone; what was kept opens the door again.
    std::fs::remove_file(site.token_file()).unwrap();
    agent.kill().await;
    let mut agent = site.agent().await;
    site.connected(&agent, true, BOUND).await;
    let listen = ["grpc", "http", "ops"].map(|name| site.server.address(name).to_owned());
    site.server.kill().await;
    site.serves(&agent).await;
    // A token that lets nobody in is tried in such a time, and is no problem once the kept
    // certificate was enough.
    std::fs::write(site.token_file(), "lets.nobody").unwrap();
    site.has_problems(&agent, true).await;
    let addresses = [&*listen[0], &*listen[1], &*listen[2]];
    site.server = serve(&site.folder, addresses, &[]).await;
    site.connected(&agent, true, Duration::from_secs(45)).await;
    assert_eq!(site.identities().await.len(), 1);
    site.has_problems(&agent, false).await;

    site.delete(&format!("/admin/v1/identities/{identity}"))
        .await;
    site.connected(&agent, false, REVOCATION_BOUND).await;
    site.serves(&agent).await;
    assert_eq!(
        site.metric(&site.server, "lanekeeper_identities_revoked")
            .await,
        Some(1.0)
    );
    agent.kill().await;
    let agent = site.agent().await;
    site.serves(&agent).await;
    assert_eq!(site.stats(&agent).await["connected"], false);
    // One that names the right authority, and nobody.
    site.new_join_token().await;
    let token = std::fs::read_to_string(site.token_file()).unwrap();
    std::fs::write(site.token_file(), format!("0{token}")).unwrap();
    let refused = "lanekeeper_enrolments_total{by=\"join_token\",outcome=\"refused\"}";
    let bound = Duration::from_secs(45);
    eventually("its token is tried and refused", bound, || async {
        let count = site.metric(&site.server, refused).await;
        count
            .filter(|count| *count >= 1.0)
            .ok_or_else(|| format!("{count:?}"))
    })
    .await;

    // A new token is a new chance, without a restart.
    site.new_join_token().await;
    site.connected(&agent, true, Duration::from_secs(45)).await;
    assert_ne!(site.identities().await[0]["id"], identity);
}

#[tokio::test]
async fn certificates_are_renewed_while_the_session_goes_on_and_the_authority_changes() {
    let flag = format!("--certificate-secs={SHORT_LIFE_SECS}");
    let site = Site::start(&[flag]).await;
    site.new_join_token().await;
    let agent = site.agent().await;
    site.connected(&agent, true, BOUND).await;
    let first = site.identities().await[0].clone();
    let old = site.get("/admin/v1/authorities").await["authorities"][0]["fingerprint"].clone();

    let data = site.folder.path().join("data").display().to_string();
    let rotated = command(&["ca", "rotate", "--data-dir", &data], &[]).await;
    assert!(rotated.status.success(), "{rotated:?}");
    let new = String::from_utf8(rotated.stdout).unwrap().trim().to_owned();

    eventually("only the new authority is trusted", BOUND, || async {
        let trusted = site.get("/admin/v1/authorities").await;
        let trusted = trusted["authorities"].as_array().unwrap();
        if trusted.len() == 1 && trusted[0]["fingerprint"] == *new {
            Ok(())
        } else {
            Err(format!("{trusted:?}"))
        }
    })
    .await;
    assert_ne!(old, *new);
    let renewed = "lanekeeper_certificate_renewals_total{outcome=\"granted\"}";
    assert!(site.metric(&site.server, renewed).await >= Some(1.0));
    let now = site.identities().await[0].clone();
    assert_eq!(now["id"], first["id"]);
    assert!(now["renewed_at"].as_str() > first["renewed_at"].as_str());
    // Longer than a certificate's life has passed, in one session.
    let url = format!("{}/metrics", agent.url("ops"));
    let metrics = site
        .http
        .get(url)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let opened = metrics
        .lines()
        .filter(|line| line.starts_with("lanekeeper_sessions_opened_total{"))
        .find_map(|line| line.rsplit(' ').next());
    assert_eq!(opened, Some("1"));
    site.serves(&agent).await;

    // What it holds by now opens a session with the server's certificate of the new authority.
    let mut agent = agent;
    agent.kill().await;
    let agent = site.agent().await;
    site.connected(&agent, true, BOUND).await;
    assert_eq!(site.identities().await.len(), 1);
}

#[tokio::test]
async fn a_deleted_agent_is_sent_away_for_good_and_a_fresh_token_makes_a_new_one() {
    let site = Site::start(&[]).await;
    site.new_join_token().await;
    let mut agent = site.agent().await;
    site.connected(&agent, true, BOUND).await;
    let instance = site.stats(&agent).await["id"].as_str().unwrap().to_owned();
    let listed = async |count: usize| {
        let what = format!("{count} agents are listed");
        eventually(&what, BOUND, || async {
            let agents = site.get("/api/v1/agents").await;
            match agents["agents"]
                .as_array()
                .is_some_and(|it| it.len() == count)
            {
                true => Ok(()),
                false => Err(agents.to_string()),
            }
        })
        .await;
    };
    listed(1).await;

    site.delete(&format!("/admin/v1/agents/{instance}")).await;
    site.connected(&agent, false, REVOCATION_BOUND).await;
    site.serves(&agent).await;
    listed(0).await;
    assert_eq!(site.identities().await.len(), 0);
    // Neither its certificate nor the token that it used brings it back.
    agent.kill().await;
    let mut agent = site.agent().await;
    holds_for("it stays out", Duration::from_secs(3), || async {
        let stats = site.stats(&agent).await;
        match stats["connected"] == false && site.identities().await.is_empty() {
            true => Ok(()),
            false => Err(stats.to_string()),
        }
    })
    .await;
    site.serves(&agent).await;
    listed(0).await;

    agent.kill().await;
    site.new_join_token().await;
    let agent = site.agent().await;
    site.connected(&agent, true, BOUND).await;
    listed(1).await;
    assert_ne!(site.stats(&agent).await["id"], *instance);
    assert_eq!(site.identities().await.len(), 1);
}

#[tokio::test]
async fn a_deleted_agent_goes_together_with_the_copy_of_its_certificate() {
    let site = Site::start(&[]).await;
    site.new_join_token().await;
    let original = site.agent().await;
    site.connected(&original, true, BOUND).await;
    let folder = site.folder.path();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([folder.join("cache"), folder.join("copied")])
        .status();
    assert!(copied.unwrap().success());
    let copy = site.agent_of("node-2", "copied").await;
    site.connected(&copy, true, BOUND).await;
    assert_eq!(site.identities().await.len(), 1);
    let states = async || -> Vec<Value> {
        let agents = site.get("/api/v1/agents").await;
        let agents = agents["agents"].as_array().unwrap().iter();
        agents.map(|agent| agent["state"].clone()).collect()
    };
    eventually("both are listed", BOUND, || async {
        let states = states().await;
        (states == ["live", "live"])
            .then_some(())
            .ok_or_else(|| format!("{states:?}"))
    })
    .await;

    let instance = site.stats(&original).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    site.delete(&format!("/admin/v1/agents/{instance}")).await;
    tokio::join!(
        site.connected(&original, false, REVOCATION_BOUND),
        site.connected(&copy, false, REVOCATION_BOUND),
    );
    assert_eq!(site.identities().await.len(), 0);
    eventually("nobody counts as live", REVOCATION_BOUND, || async {
        let states = states().await;
        (states == ["gone"])
            .then_some(())
            .ok_or_else(|| format!("{states:?}"))
    })
    .await;
    // Longer than an agent's report takes.
    holds_for("nobody comes back", Duration::from_secs(12), || async {
        let states = states().await;
        (states == ["gone"])
            .then_some(())
            .ok_or_else(|| format!("{states:?}"))
    })
    .await;
    site.serves(&original).await;
    site.serves(&copy).await;
}
