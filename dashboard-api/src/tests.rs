//! Tests against a real server on a real socket, with a real store behind it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod admin;
mod agents;
mod compressed;
mod description;
mod documents;
mod empty;
mod enrolment;
mod fleet;
mod idempotency;
mod incidents;
mod large_bodies;
mod overrides;
mod page;
mod pools;
mod problems;
mod races;
mod roles;
mod rollouts;
mod servers;
mod session;
mod tokens;

use crate::{Config, clock, run};
use lanekeeper_model::AgentRecord;
use lanekeeper_store::{
    AgentFacts, Change, ConfigStore, ExposeSecret, LiveView, MemoryLive, NewToken, Role, TokenRow,
};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Longest wait for something that must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server with everything around it.
struct Server {
    url: String,
    store: ConfigStore,
    live: Arc<dyn LiveView>,
    admin: String,
    client: reqwest::Client,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), crate::RunError>>,
    _dir: Option<tempfile::TempDir>,
}

impl Server {
    /// A server over the embedded store.
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = ConfigStore::open_embedded(dir.path()).await.unwrap();
        Self::over(store, Arc::new(MemoryLive::new()), Some(dir)).await
    }

    async fn over(
        store: ConfigStore,
        live: Arc<dyn LiveView>,
        dir: Option<tempfile::TempDir>,
    ) -> Self {
        Self::with_documents(store, live, dir, None).await
    }

    /// A server that takes gateways from a folder.
    async fn with_documents(
        store: ConfigStore,
        live: Arc<dyn LiveView>,
        dir: Option<tempfile::TempDir>,
        documents: Option<PathBuf>,
    ) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let admin = store
            .bootstrap_token(clock::now_ms())
            .await
            .unwrap()
            .unwrap();
        let shutdown = CancellationToken::new();
        let (send, receive) = tokio::sync::oneshot::channel();
        let config = Config {
            http_listen: ([127, 0, 0, 1], 0).into(),
            documents,
            ..Config::default()
        };
        let task = tokio::spawn(run(
            config,
            store.clone(),
            Arc::clone(&live),
            shutdown.clone(),
            move |addresses| send.send(addresses.http).unwrap(),
        ));
        Self {
            url: format!("http://{}", receive.await.unwrap()),
            admin: admin.expose_secret().to_owned(),
            client: reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .timeout(PATIENCE)
                .build()
                .unwrap(),
            store,
            live,
            shutdown,
            task,
            _dir: dir,
        }
    }

    /// A request without a token.
    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// A request with the admin's token.
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(&self.admin)
    }

    async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    async fn get_json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    async fn send_json(&self, method: Method, path: &str, body: &Value) -> Response {
        self.request(method, path).json(body).send().await.unwrap()
    }

    /// Creates the gateway `edge`.
    async fn create_edge(&self) {
        self.create_gateway("edge").await;
    }

    /// Creates a gateway like `edge` under another name.
    async fn create_gateway(&self, name: &str) {
        let created = self
            .send_json(Method::POST, "/admin/v1/gateways", &named(name))
            .await;
        assert_eq!(created.status(), 201, "{}", created.text().await.unwrap());
    }

    /// A token made past the API.
    async fn token(&self, role: Role, expires_ms: Option<u64>) -> (TokenRow, String) {
        let new = NewToken {
            name: format!("a-{}", role.as_str()),
            role,
            expires_ms,
        };
        let (row, secret) = self.store.create_token(new, &by_test()).await.unwrap();
        (row, secret.expose_secret().to_owned())
    }

    async fn report(&self, record: &AgentRecord) {
        let record = std::sync::Arc::new(record.clone());
        self.live.put(record, clock::now_ms()).await.unwrap();
    }

    /// Asks for `path` until the answer satisfies `wanted`.
    async fn eventually(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let reached = tokio::time::timeout(PATIENCE, async {
            loop {
                last = self.get_json(path).await;
                if wanted(&last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(
            reached.await.is_ok(),
            "{path} never became what was wanted: {last:#}"
        );
        last
    }

    /// Ends the server, which must end well.
    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }
}

fn by_test() -> Change {
    Change {
        actor: "test".to_owned(),
        actor_id: String::new(),
        message: String::new(),
        now_ms: clock::now_ms(),
        idempotency: None,
    }
}

/// A document with two lanes in one pool.
fn edge() -> Value {
    named("edge")
}

fn named(gateway: &str) -> Value {
    json!({
        "gateway": gateway,
        "providers": {
            "east": {"protocol": "openai", "base_url": "http://127.0.0.1:9001/v1", "api_key": null},
            "west": {"protocol": "openai", "base_url": "http://127.0.0.1:9002/v1", "api_key": null}
        },
        "models": {"fast": {"provider": "east"}, "slow": {"provider": "west"}},
        "pools": {"chat": {"members": [
            {"target": "fast", "weight": 3},
            {"target": "slow", "weight": 1}
        ]}}
    })
}

/// An agent of `edge` that has just reported that all is well.
fn agent(name: &str) -> AgentRecord {
    let now_ms = clock::now_ms();
    AgentRecord {
        gateway: "edge".into(),
        instance: format!("instance-of-{name}"),
        name: name.to_owned(),
        identity: None,
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        version: "0.1.0".to_owned(),
        session_epoch: 1,
        seq: 1,
        connected_ms: now_ms,
        report_received_ms: Some(now_ms),
        left: false,
        draining: false,
        applied_revision: 1,
        applied_hash: String::new(),
        config_source: lanekeeper_model::ConfigSource::Live,
        problems: Vec::new(),
        last_error: None,
        clock_skew_ms: 12,
        cells: Vec::new(),
        pools: Vec::new(),
        totals: lanekeeper_model::Totals::default(),
        overrides: lanekeeper_model::fleet::HeldOverrides::default(),
    }
}

/// What the configuration store knows of the same agent.
fn facts(record: &AgentRecord) -> AgentFacts {
    AgentFacts {
        gateway: record.gateway.clone(),
        instance: record.instance.clone(),
        name: record.name.clone(),
        labels: record.labels.clone(),
        version: record.version.clone(),
        session_epoch: 1,
        applied_revision: 1,
        applied_hash: String::new(),
        config_source: record.config_source,
        problems: Vec::new(),
        rejected: None,
        first_seen_ms: clock::now_ms(),
        last_seen_ms: clock::now_ms(),
        left_ms: None,
        identity: None,
    }
}

/// The same agent, refusing the lane `fast` in the pool `chat` after 529s.
fn with_fast_open(mut record: AgentRecord) -> AgentRecord {
    record.seq += 1;
    record.cells.push(lanekeeper_model::CellReport {
        pool: "chat".into(),
        lane: "fast".into(),
        provider: "east".into(),
        endpoint: None,
        state: lanekeeper_model::CellState::Open,
        state_age_ms: 1_000,
        open_age_ms: 1_000,
        cooldown_remaining_ms: 9_000,
        parked_remaining_ms: 0,
        streak: 5,
        trips: 1,
        reopens: 0,
        window_ok: 0,
        window_failed: 5,
        cause: Some(lanekeeper_model::CauseReport {
            kind: "status".to_owned(),
            status: Some(529),
            count: 5,
        }),
        override_action: None,
        advisory: false,
        advisory_spared: 0,
    });
    record
}

/// Checks that an answer is a problem document, and gives it.
async fn problem(response: Response, status: u16, code: &str) -> Value {
    let (given, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    assert_eq!(given, status, "{text}");
    assert_eq!(
        headers["content-type"], "application/problem+json",
        "{text}"
    );
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(body["status"], status);
    assert_eq!(body["code"], code, "{body:#}");
    assert_eq!(
        body["request_id"],
        headers["x-request-id"].to_str().unwrap()
    );
    assert!(
        body["detail"]
            .as_str()
            .is_some_and(|detail| !detail.is_empty())
    );
    assert!(body["errors"].is_array());
    body
}

/// The pointers of a problem's or a verdict's errors.
fn pointers(body: &Value) -> Vec<&str> {
    body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|error| error["pointer"].as_str())
        .collect()
}

/// Where the checked-in description lives.
fn description_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("openapi.json")
}
