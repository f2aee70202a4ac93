//! A whole system: the server, three agents and a simulated provider that plays four.

use crate::{Process, eventually, http_client};
use anyhow::Context;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for the agents to have applied the first configuration.
const READY_BOUND: Duration = Duration::from_secs(20);
const GATEWAY: &str = "edge";
/// How long a lane must have been well before its incident is over: short, or a story of an outage
/// would take a minute more.
pub(crate) const INCIDENT_QUIET_SECS: u64 = 3;

/// What a test wants different from the usual system.
#[derive(Debug, Clone)]
pub struct Options {
    /// Agents of the gateway. Default 3.
    pub agents: usize,
    /// The breaker block of both pools.
    pub breaker: Value,
    /// Arguments added to the simulated provider.
    pub provider_arguments: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            agents: 3,
            breaker: json!({}),
            provider_arguments: Vec::new(),
        }
    }
}

/// A running system.
#[derive(Debug)]
pub struct Fleet {
    folder: TempDir,
    /// The simulated provider.
    pub provider: Process,
    /// Control plane and HTTP API.
    pub server: Process,
    /// The agents, `node-0` and up.
    pub agents: Vec<Process>,
    /// The bootstrap admin token.
    pub token: String,
    /// A client for everything.
    pub http: reqwest::Client,
}

impl Fleet {
    /// Starts everything and waits until all agents have applied the gateway's first revision.
    ///
    /// # Errors
    ///
    /// When a process does not start or the gateway is refused.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut arguments = vec!["sim-provider".to_owned(), "--listen=127.0.0.1:0".to_owned()];
        arguments.extend(options.provider_arguments.iter().cloned());
        let log = folder.path().join("provider.log");
        let provider = Process::start(&arguments, &[], &["sim-provider"], &log).await?;
        let server = start_server(&folder, &["127.0.0.1:0"; 3]).await?;
        let token_file = folder.path().join("token");
        let token = std::fs::read_to_string(&token_file).context("no bootstrap token")?;
        let mut fleet = Self {
            folder,
            provider,
            server,
            agents: Vec::new(),
            token: token.trim().to_owned(),
            http: http_client(),
        };
        let document = fleet.document(&options.breaker);
        let created = fleet.post("/admin/v1/gateways", &document).await?;
        anyhow::ensure!(created.status() == 201, "{}", created.text().await?);
        for number in 0..options.agents {
            let agent = fleet.start_agent(number).await?;
            fleet.agents.push(agent);
        }
        fleet.applied(1, options.agents, READY_BOUND).await;
        Ok(fleet)
    }

    /// The usual gateway: pools `chat` (OpenAI) and `claude` (Anthropic) of two lanes each.
    #[must_use]
    pub fn document(&self, breaker: &Value) -> Value {
        let base = self.provider.url("sim-provider");
        let provider = |name: &str, protocol: &str| json!({"protocol": protocol, "base_url": format!("{base}/{name}"), "api_key": null});
        let lane = |provider: &str| {
            json!({"provider": provider, "attempt_timeout_ms": 1000,
            "first_content_timeout_ms": 1500})
        };
        let pool = |first: &str, second: &str| {
            json!({
                "members": [{"target": first, "weight": 1}, {"target": second, "weight": 1}],
                "breaker": breaker,
            })
        };
        json!({
            "gateway": GATEWAY,
            "providers": {
                "east": provider("east", "openai"),
                "west": provider("west", "openai"),
                "north": provider("north", "anthropic"),
                "south": provider("south", "anthropic"),
            },
            "models": {
                "gpt-east": lane("east"),
                "gpt-west": lane("west"),
                "claude-north": lane("north"),
                "claude-south": lane("south"),
            },
            "pools": {
                "chat": pool("gpt-east", "gpt-west"),
                "claude": pool("claude-north", "claude-south"),
            },
        })
    }

    /// The folder of the server's embedded storage.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What a process has logged so far, by the name of its log; empty when there is none.
    #[must_use]
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Starts agent `node-NUMBER` (again), on free ports, with its own cache folder.
    ///
    /// # Errors
    ///
    /// When it does not get ready to listen.
    pub async fn start_agent(&self, number: usize) -> anyhow::Result<Process> {
        let cache = self.folder.path().join(format!("cache-{number}"));
        let arguments = [
            "agent".to_owned(),
            "--insecure".to_owned(),
            format!("--control-plane=http://{}", self.server.address("grpc")),
            format!("--gateway={GATEWAY}"),
            format!("--name=node-{number}"),
            format!("--label=node={number}"),
            "--listen=127.0.0.1:0".to_owned(),
            "--ops-listen=127.0.0.1:0".to_owned(),
            format!("--cache-dir={}", cache.display()),
            "--drain-pause-secs=0.2".to_owned(),
        ];
        let log = self.folder.path().join(format!("agent-{number}.log"));
        Process::start(&arguments, &[], &["proxy", "ops"], &log).await
    }

    /// Starts the server again on the ports it had.
    ///
    /// # Errors
    ///
    /// When it does not get ready to listen.
    pub async fn restart_server(&mut self) -> anyhow::Result<()> {
        let address = |name: &str| self.server.address(name).to_owned();
        let addresses = [address("grpc"), address("http"), address("ops")];
        let addresses = addresses.each_ref().map(String::as_str);
        self.server = start_server(&self.folder, &addresses).await?;
        Ok(())
    }

    /// The agents' proxy URLs.
    #[must_use]
    pub fn agent_urls(&self) -> Vec<String> {
        self.agents.iter().map(|agent| agent.url("proxy")).collect()
    }

    /// A read of the HTTP API as JSON.
    ///
    /// # Errors
    ///
    /// When it does not answer, or not 200 with JSON.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.server.url("http"));
        let answer = self.http.get(url).bearer_auth(&self.token).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }

    /// A POST of JSON to the HTTP API.
    ///
    /// # Errors
    ///
    /// When the API does not answer.
    pub async fn post(&self, path: &str, body: &Value) -> reqwest::Result<reqwest::Response> {
        let url = format!("{}{path}", self.server.url("http"));
        self.http
            .post(url)
            .bearer_auth(&self.token)
            .json(body)
            .send()
            .await
    }

    /// Puts the gateway's document on top of `revision`.
    ///
    /// # Errors
    ///
    /// When the API does not answer.
    pub async fn put_config(
        &self,
        document: &Value,
        revision: u64,
    ) -> reqwest::Result<reqwest::Response> {
        let url = format!(
            "{}/admin/v1/gateways/{GATEWAY}/config",
            self.server.url("http")
        );
        self.http
            .put(url)
            .bearer_auth(&self.token)
            .header("if-match", format!("\"{revision}\""))
            .json(document)
            .send()
            .await
    }

    /// Waits until `count` live agents have applied `revision`; returns how long that took.
    ///
    /// # Panics
    ///
    /// When that is not so within `bound`.
    pub async fn applied(&self, revision: u64, count: usize, bound: Duration) -> Duration {
        let what = format!("{count} agents on revision {revision}");
        let ((), took) = eventually(&what, bound, || async {
            let agents = self
                .get("/api/v1/agents")
                .await
                .map_err(|error| error.to_string())?;
            let applied = agents["agents"].as_array().map_or(0, |agents| {
                let on_it = |agent: &&Value| {
                    agent["applied_revision"] == revision && agent["state"] == "live"
                };
                agents.iter().filter(on_it).count()
            });
            if applied == count {
                Ok(())
            } else {
                Err(agents.to_string())
            }
        })
        .await;
        took
    }

    /// One cell of the fleet view with its agents, closed ones included; `None` if not listed.
    ///
    /// # Errors
    ///
    /// When the API does not answer.
    pub async fn cell(&self, pool: &str, lane: &str) -> anyhow::Result<Option<Value>> {
        let path =
            format!("/api/v1/breaker-state?pool={pool}&lane={lane}&include=closed&detail=agents");
        Ok(self.get(&path).await?["cells"].get(0).cloned())
    }

    /// Sets a fault at the simulated provider and returns its id.
    ///
    /// # Errors
    ///
    /// When the provider refuses the fault.
    pub async fn set_fault(&self, fault: Value) -> anyhow::Result<u64> {
        let url = format!("{}/faults", self.provider.url("sim-provider"));
        let answer = self
            .http
            .post(url)
            .json(&fault)
            .send()
            .await?
            .error_for_status()?;
        answer.json::<Value>().await?["id"]
            .as_u64()
            .context("a fault has an id")
    }

    /// Lifts all faults.
    ///
    /// # Errors
    ///
    /// When the provider does not answer.
    pub async fn clear_faults(&self) -> anyhow::Result<()> {
        let url = format!("{}/faults", self.provider.url("sim-provider"));
        self.http.delete(url).send().await?.error_for_status()?;
        Ok(())
    }

    /// What arrived at the provider for a model, after arrival number `after`.
    ///
    /// # Errors
    ///
    /// When the provider does not answer.
    pub async fn arrivals(&self, model: &str, after: u64) -> anyhow::Result<Vec<Value>> {
        let url = format!(
            "{}/requests?model={model}&after={after}",
            self.provider.url("sim-provider")
        );
        let mut answer: Value = self
            .http
            .get(url)
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        match answer["requests"].take() {
            Value::Array(arrivals) => Ok(arrivals),
            other => anyhow::bail!("arrivals are a list, not {other}"),
        }
    }

    /// One chat completion through agent `number`; true when it was answered well.
    pub async fn chat(&self, number: usize) -> bool {
        let Some(agent) = self.agents.get(number) else {
            return false;
        };
        chat(&self.http, &agent.url("proxy")).await
    }
}

/// One chat completion at a proxy URL; true when it was answered well.
async fn chat(http: &reqwest::Client, url: &str) -> bool {
    let body = json!({"model": "chat", "messages": [{"role": "user", "content": "hi"}]});
    let answer = http
        .post(format!("{url}/v1/chat/completions"))
        .json(&body)
        .send()
        .await;
    match answer {
        Ok(answer) => answer.status() == 200 && answer.bytes().await.is_ok(),
        Err(_) => false,
    }
}

async fn start_server(folder: &TempDir, addresses: &[&str; 3]) -> anyhow::Result<Process> {
    let [grpc, http, ops] = addresses;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let arguments = [
        "server".to_owned(),
        "--insecure".to_owned(),
        format!("--data-dir={}", path("data")),
        format!("--grpc-listen={grpc}"),
        format!("--http-listen={http}"),
        format!("--ops-listen={ops}"),
        format!("--bootstrap-token-file={}", path("token")),
        format!("--incident-quiet-secs={INCIDENT_QUIET_SECS}"),
    ];
    let log = folder.path().join("server.log");
    Process::start(&arguments, &[], &["grpc", "http", "ops"], &log).await
}
