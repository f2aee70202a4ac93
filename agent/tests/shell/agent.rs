//! A whole agent in this process, and the questions a probe would ask it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use lanekeeper_agent::{Addresses, Config, Error, Shutdown, Source, run};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::scripted::PATIENCE;

pub fn config(source: Source) -> Config {
    let mut config = Config::new(source);
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.ops_listen = config.listen;
    config.workers = NonZeroUsize::new(2);
    config.drain_pause = Duration::ZERO;
    config.drain_grace = Duration::from_secs(1);
    config
}

pub fn joined(control_plane: &str, cache_dir: Option<&Path>) -> Config {
    let mut config = config(Source::Joined {
        control_plane: control_plane.to_owned(),
        gateway: "edge".to_owned(),
        insecure: true,
        tls: None,
    });
    config.cache_dir = cache_dir.map(Path::to_owned);
    config
}

/// A document whose pool has one lane; `weight` makes revisions differ.
pub fn document(weight: u64) -> Value {
    json!({
        "gateway": "edge",
        "providers": {"p": {"protocol": "openai", "base_url": "http://127.0.0.1:9", "api_key": null}},
        "models": {"m": {"provider": "p"}},
        "pools": {"chat": {"members": [{"target": "m", "weight": weight}]}}
    })
}

pub struct Agent {
    pub addresses: Addresses,
    pub shutdown: Shutdown,
    pub task: JoinHandle<Result<(), Error>>,
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Agent {
    pub async fn start(config: Config) -> Self {
        let shutdown = Shutdown::default();
        let (told, addresses) = oneshot::channel();
        let task = tokio::spawn(run(config, shutdown.clone(), move |addresses| {
            told.send(addresses).unwrap();
        }));
        Self {
            addresses: addresses.await.expect("the agent starts"),
            shutdown,
            task,
        }
    }

    pub async fn stop(self) {
        self.shutdown.drain.cancel();
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .expect("the agent ends in time")
            .unwrap()
            .unwrap();
    }

    /// Ends without any of the farewells, like a killed process.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub async fn ask(&self, method: &str, path: &str) -> Answer {
        ask(self.addresses.ops, method, path).await
    }

    pub async fn stats(&self) -> Value {
        let answer = self.ask("GET", "/stats").await;
        assert_eq!(answer.status, 200);
        serde_json::from_str(&answer.body).unwrap()
    }

    pub async fn revision(&self) -> u64 {
        self.stats().await["agent"]["revision"].as_u64().unwrap()
    }

    /// Waits until the agent serves `revision`.
    pub async fn serves(&self, revision: u64) {
        eventually(async || self.revision().await == revision).await;
    }
}

pub async fn ask(address: SocketAddr, method: &str, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head[9..12].parse().unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

/// Polls until `condition` holds, for a bounded time.
pub async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, holds)
        .await
        .expect("the condition holds in time");
}
