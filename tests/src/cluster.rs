//! A whole installation of replicas: PostgreSQL and Redis of its own, several control planes and
//! APIs, agents spread over the control planes, a simulated provider.

use crate::fleet::INCIDENT_QUIET_SECS;
use crate::{Process, command, eventually, http_client};
use anyhow::Context;
use lanekeeper_store::testing::{PostgresServer, RedisServer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Longest wait for everything to be up, on a machine that is busy with other tests.
const READY_BOUND: Duration = Duration::from_secs(30);
/// The gateway that the agents serve.
pub const GATEWAY: &str = "edge";
/// The pool for probes, whose first lane a history may make ill.
pub(crate) const FRAIL_POOL: &str = "frail";
/// The lane that then is ill.
pub(crate) const FRAIL_LANE: &str = "gpt-frail";
/// How long the lane behind it may take: longer than an agent is frozen, whose attempts would else
/// run out when it thaws and leave the pool without a lane.
const STEADY_TIMEOUT_MS: u64 = 60_000;

/// A running installation.
#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
    /// The configuration database's server.
    pub postgres: Box<Postgres>,
    /// The live view's server.
    pub redis: Box<Redis>,
    /// The database's address.
    pub database: String,
    /// The simulated provider.
    pub provider: Process,
    /// HTTP APIs.
    pub apis: Vec<Process>,
    /// Control planes.
    pub control_planes: Vec<Process>,
    /// Agents `node-0` and up; each is of the control plane of its number, counted round.
    pub agents: Vec<Process>,
    /// The bootstrap admin token.
    pub token: String,
    /// A client for everything.
    pub http: reqwest::Client,
    /// Life of agents' certificates in seconds; plaintext without one.
    certificate_secs: Option<u64>,
}

/// A PostgreSQL server that can be printed.
pub struct Postgres(pub PostgresServer);

/// A Redis server that can be printed.
pub struct Redis(pub RedisServer);

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postgres")
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redis")
    }
}

/// What came of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The API confirmed this revision.
    Confirmed(u64),
    /// The API refused it: this status, and nothing was written.
    Refused(u16),
    /// Nobody knows: no answer, or a failure of the server.
    Unknown,
}

impl Cluster {
    /// Starts `replicas` of each half and `agents`, and waits until the agents serve revision 1.
    ///
    /// # Errors
    ///
    /// When a process does not start or the gateway is refused.
    pub async fn start(replicas: usize, agents: usize) -> anyhow::Result<Self> {
        let postgres = PostgresServer::start().await;
        Self::begin(postgres, None, replicas, agents).await
    }

    /// The same with agents that join with tokens and hold certificates of so many seconds.
    ///
    /// # Errors
    ///
    /// When a process does not start or the gateway is refused.
    pub async fn start_with_certificates(
        certificate_secs: u64,
        replicas: usize,
        agents: usize,
    ) -> anyhow::Result<Self> {
        let postgres = PostgresServer::start().await;
        Self::begin(postgres, Some(certificate_secs), replicas, agents).await
    }

    /// The same over a PostgreSQL server that runs already.
    ///
    /// # Errors
    ///
    /// When a process does not start or the gateway is refused.
    pub async fn start_over(
        postgres: PostgresServer,
        replicas: usize,
        agents: usize,
    ) -> anyhow::Result<Self> {
        Self::begin(postgres, None, replicas, agents).await
    }

    async fn begin(
        postgres: PostgresServer,
        certificate_secs: Option<u64>,
        replicas: usize,
        agents: usize,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let redis = RedisServer::start().await;
        let database = postgres.create_database().await;
        let environment = vec![
            ("LANEKEEPER_DATABASE_URL", database.clone()),
            ("LANEKEEPER_REDIS_URL", redis.url()),
        ];
        let log = folder.path().join("provider.log");
        // Streams take most of a second, so that harm can meet one.
        let arguments = [
            "sim-provider",
            "--listen=127.0.0.1:0",
            "--frame-interval-ms=100",
        ];
        let arguments = arguments.map(str::to_owned);
        let provider = Process::start(&arguments, &[], &["sim-provider"], &log).await?;
        let mut cluster = Self {
            folder,
            environment,
            postgres: Box::new(Postgres(postgres)),
            redis: Box::new(Redis(redis)),
            database,
            provider,
            apis: Vec::new(),
            control_planes: Vec::new(),
            agents: Vec::new(),
            token: String::new(),
            http: http_client(),
            certificate_secs,
        };
        if certificate_secs.is_some() {
            let [cert, key] = cluster.authority();
            let (cert, key) = (cert.display().to_string(), key.display().to_string());
            let made = command(&["ca", "rotate", "--ca-cert", &cert, "--ca-key", &key], &[]).await;
            anyhow::ensure!(made.status.success(), "{made:?}");
        }
        for number in 0..replicas {
            let api = cluster.start_api(number, "127.0.0.1:0").await?;
            cluster.apis.push(api);
            let control_plane = cluster
                .start_control_plane(number, ["127.0.0.1:0"; 2])
                .await?;
            cluster.control_planes.push(control_plane);
        }
        let token = std::fs::read_to_string(cluster.token_file()).context("no bootstrap token")?;
        token.trim().clone_into(&mut cluster.token);
        let url = format!("{}/admin/v1/gateways", cluster.apis[0].url("http"));
        let created = cluster
            .http
            .post(url)
            .bearer_auth(&cluster.token)
            .json(&cluster.document(1))
            .send()
            .await?;
        anyhow::ensure!(created.status() == 201, "{}", created.text().await?);
        for number in 0..agents {
            if certificate_secs.is_some() {
                cluster.new_join_token(number).await?;
            }
            let agent = cluster.start_agent(number).await?;
            cluster.agents.push(agent);
        }
        cluster.converged(1, READY_BOUND).await;
        Ok(cluster)
    }

    /// A valid document, different for each `weight` from 1.
    #[must_use]
    pub fn document(&self, weight: u64) -> Value {
        let base = self.provider.url("sim-provider");
        let provider = |name: &str| json!({"protocol": "openai", "base_url": format!("{base}/{name}"), "api_key": null});
        json!({
            "gateway": GATEWAY,
            "providers": {"east": provider("east"), "west": provider("west")},
            "models": {
                "gpt-east": {"provider": "east", "attempt_timeout_ms": 1000},
                "gpt-west": {"provider": "west", "attempt_timeout_ms": 1000},
                FRAIL_LANE: {"provider": "east", "attempt_timeout_ms": 1000},
                "gpt-steady": {"provider": "west", "attempt_timeout_ms": STEADY_TIMEOUT_MS},
            },
            "pools": {
                "chat": {
                    "members": [{"target": "gpt-east", "weight": weight}, {"target": "gpt-west", "weight": 1}],
                    "breaker": {"base_cooldown_secs": 2, "trip": {"mode": "consecutive", "consecutive_n": 2}},
                },
                FRAIL_POOL: {
                    "members": [{"target": FRAIL_LANE}, {"target": "gpt-steady"}],
                    "breaker": {"base_cooldown_secs": 1, "max_cooldown_secs": 1, "park_secs": 0.1,
                        "trip": {"mode": "consecutive", "consecutive_n": 2}},
                },
            },
        })
    }

    /// Where an agent keeps its last known good configuration.
    #[must_use]
    pub fn cache_dir(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("cache-{number}"))
    }

    /// A place for files of the test's own.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where agent `node-NUMBER` looks for its join token.
    #[must_use]
    pub fn join_token_file(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("join-token-{number}"))
    }

    /// Makes a join token for one agent and puts it where agent `node-NUMBER` looks.
    ///
    /// # Errors
    ///
    /// When the API refuses.
    pub async fn new_join_token(&self, number: usize) -> anyhow::Result<()> {
        let url = self.apis[0].url("http");
        let environment = [
            ("LANEKEEPER_URL", url.as_str()),
            ("LANEKEEPER_TOKEN", &self.token),
        ];
        let made = command(&["join-token", "create", GATEWAY], &environment).await;
        anyhow::ensure!(made.status.success(), "{made:?}");
        Ok(std::fs::write(self.join_token_file(number), made.stdout)?)
    }

    /// Certificate and key of the authority for agents' certificates.
    #[must_use]
    pub fn authority(&self) -> [PathBuf; 2] {
        ["ca.crt", "ca.key"].map(|name| self.folder.path().join(name))
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    async fn start_api(&self, number: usize, listen: &str) -> anyhow::Result<Process> {
        let arguments = [
            "dashboard-api".to_owned(),
            format!("--http-listen={listen}"),
            format!("--bootstrap-token-file={}", self.token_file().display()),
        ];
        let log = self.folder.path().join(format!("api-{number}.log"));
        Process::start(&arguments, &self.environment, &["http"], &log).await
    }

    fn start_control_plane(
        &self,
        number: usize,
        [grpc, ops]: [&str; 2],
    ) -> impl Future<Output = anyhow::Result<Process>> + Send + use<> {
        let mut arguments = vec![
            "control-plane".to_owned(),
            format!("--grpc-listen={grpc}"),
            format!("--ops-listen={ops}"),
            format!("--incident-quiet-secs={INCIDENT_QUIET_SECS}"),
        ];
        match self.certificate_secs {
            None => arguments.push("--insecure".to_owned()),
            Some(secs) => {
                let [cert, key] = self.authority();
                arguments.push(format!("--certificate-secs={secs}"));
                arguments.push(format!("--ca-cert={}", cert.display()));
                arguments.push(format!("--ca-key={}", key.display()));
            }
        }
        let log = self
            .folder
            .path()
            .join(format!("control-plane-{number}.log"));
        let environment = self.environment.clone();
        async move { Process::start(&arguments, &environment, &["grpc", "ops"], &log).await }
    }

    /// Starts a control plane on the ports it had, without waiting for it.
    pub fn starting_control_plane(
        &self,
        number: usize,
    ) -> impl Future<Output = anyhow::Result<Process>> + Send + use<> {
        let address = |name| self.control_planes[number].address(name);
        self.start_control_plane(number, [address("grpc"), address("ops")])
    }

    /// Starts agent `node-NUMBER` (again) on free ports, with its own cache folder.
    ///
    /// # Errors
    ///
    /// When it does not get ready to listen.
    pub async fn start_agent(&self, number: usize) -> anyhow::Result<Process> {
        let control_plane = &self.control_planes[number % self.control_planes.len()];
        self.start_agent_through(number, control_plane.address("grpc"))
            .await
    }

    /// Starts agent `node-NUMBER` with another way to its control plane.
    ///
    /// # Errors
    ///
    /// When it does not get ready to listen.
    pub fn start_agent_through(
        &self,
        number: usize,
        address: &str,
    ) -> impl Future<Output = anyhow::Result<Process>> + Send + use<> {
        let mut arguments = vec![
            "agent".to_owned(),
            format!("--gateway={GATEWAY}"),
            format!("--name=node-{number}"),
            "--listen=127.0.0.1:0".to_owned(),
            "--ops-listen=127.0.0.1:0".to_owned(),
            format!("--cache-dir={}", self.cache_dir(number).display()),
            "--drain-pause-secs=0.2".to_owned(),
        ];
        if self.certificate_secs.is_none() {
            arguments.push("--insecure".to_owned());
            arguments.push(format!("--control-plane=http://{address}"));
        } else {
            let token = self.join_token_file(number);
            arguments.push(format!("--control-plane=https://{address}"));
            arguments.push(format!("--join-token-file={}", token.display()));
        }
        let log = self.folder.path().join(format!("agent-{number}.log"));
        async move { Process::start(&arguments, &[], &["proxy", "ops"], &log).await }
    }

    /// Starts a control plane again on the ports it had.
    ///
    /// # Errors
    ///
    /// When it does not get ready to listen.
    pub async fn restart_control_plane(&mut self, number: usize) -> anyhow::Result<()> {
        self.control_planes[number] = self.starting_control_plane(number).await?;
        Ok(())
    }

    /// Starts an API again on the port it had.
    ///
    /// # Errors
    ///
    /// When it does not get ready to listen.
    pub async fn restart_api(&mut self, number: usize) -> anyhow::Result<()> {
        let listen = self.apis[number].address("http").to_owned();
        self.apis[number] = self.start_api(number, &listen).await?;
        Ok(())
    }

    /// A read of one API as JSON.
    ///
    /// # Errors
    ///
    /// When it does not answer, or not 200 with JSON.
    pub async fn get(&self, api: usize, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.apis[api].url("http"));
        let answer = self.http.get(url).bearer_auth(&self.token).send().await?;
        Ok(answer.error_for_status()?.json().await?)
    }

    /// Writes a document through one API, whatever revision is current.
    pub(crate) async fn put(&self, api: usize, document: &Value) -> Written {
        let url = format!(
            "{}/admin/v1/gateways/{GATEWAY}/config",
            self.apis[api].url("http")
        );
        let answer = self
            .http
            .put(url)
            .bearer_auth(&self.token)
            .header("if-match", "*")
            .json(document)
            .send()
            .await;
        match answer {
            Ok(answer) if answer.status() == 200 => match answer.json::<Value>().await {
                Ok(body) => Written::Confirmed(body["revision"].as_u64().unwrap_or_default()),
                Err(_) => Written::Unknown,
            },
            Ok(answer) if answer.status().is_client_error() => {
                Written::Refused(answer.status().as_u16())
            }
            Ok(_) | Err(_) => Written::Unknown,
        }
    }

    /// One series of a process's metrics, as it is written before its value; the label `gateway`
    /// may be left out where there is no other.
    ///
    /// # Errors
    ///
    /// When the process does not answer or has no such series.
    pub async fn metric(&self, process: &Process, series: &str) -> anyhow::Result<f64> {
        let answer = self.http.get(format!("{}/metrics", process.url("ops")));
        let text = answer.send().await?.error_for_status()?.text().await?;
        let value = text.lines().find_map(|line| {
            let rest = line.strip_prefix(series)?;
            let labelled = rest.strip_prefix("{gateway=\"");
            let rest = labelled.map_or(Some(rest), |it| Some(it.split_once("\"}")?.1))?;
            rest.strip_prefix(' ')
        });
        Ok(value.context("no such series")?.parse()?)
    }

    /// Agent `name` as one API lists it.
    ///
    /// # Errors
    ///
    /// When it is not listed.
    pub async fn listed(&self, api: usize, name: &str) -> anyhow::Result<Value> {
        let agents = self.get(api, "/api/v1/agents").await?;
        let mut agents = agents["agents"].as_array().into_iter().flatten();
        let agent = agents.find(|agent| agent["name"] == name);
        agent.cloned().context("not listed")
    }

    /// Waits until every agent serves `revision`, by its own word; returns how long that took.
    ///
    /// # Panics
    ///
    /// When that is not so within `bound`.
    pub async fn converged(&self, revision: u64, bound: Duration) -> Duration {
        let what = format!("every agent on revision {revision}");
        let ((), took) = eventually(&what, bound, || async {
            for (number, agent) in self.agents.iter().enumerate() {
                let stats = stats(&self.http, agent).await.map_err(|e| e.to_string())?;
                let serves = &stats["agent"]["revision"];
                if *serves != revision {
                    return Err(format!("node-{number} serves {serves}"));
                }
            }
            Ok(())
        })
        .await;
        took
    }

    /// Waits until one agent serves `revision`, by its own word.
    ///
    /// # Panics
    ///
    /// When that is not so within `bound`.
    pub async fn serves(&self, agent: usize, revision: u64, bound: Duration) {
        let what = format!("node-{agent} on revision {revision}");
        eventually(&what, bound, || async {
            let stats = stats(&self.http, &self.agents[agent]).await;
            let serves = stats.map_err(|e| e.to_string())?["agent"]["revision"].clone();
            (serves == revision)
                .then_some(())
                .ok_or_else(|| serves.to_string())
        })
        .await;
    }

    /// Waits until all agents are live in the view of every API.
    ///
    /// # Panics
    ///
    /// When that is not so within `bound`.
    pub async fn all_live(&self, bound: Duration) -> Duration {
        let ((), took) = eventually("every agent live in every view", bound, || async {
            for api in 0..self.apis.len() {
                let path = "/api/v1/agents?state=live";
                let agents = self.get(api, path).await.map_err(|e| e.to_string())?;
                let live = agents["agents"].as_array().map_or(0, Vec::len);
                if live < self.agents.len() {
                    return Err(format!("api {api}: {agents}"));
                }
            }
            Ok(())
        })
        .await;
        took
    }
}

/// An agent's own word about itself.
pub(crate) async fn stats(http: &reqwest::Client, agent: &Process) -> reqwest::Result<Value> {
    let url = format!("{}/stats", agent.url("ops"));
    http.get(url).send().await?.error_for_status()?.json().await
}
