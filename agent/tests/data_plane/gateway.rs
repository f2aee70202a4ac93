//! A running plane and the documents it is given.

use crate::upstream::Upstream;
use lanekeeper_agent::plane::{Applied, DrainSignal, Plane};
use lanekeeper_model::ConfigSource;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest wait for something that is about to be true.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

pub(crate) struct Agent {
    pub(crate) plane: Plane,
    pub(crate) address: SocketAddr,
    pub(crate) drain: DrainSignal,
}

impl Agent {
    /// Serves `document` until the test ends.
    pub(crate) async fn start(document: &str) -> Self {
        Self::start_on(Plane::new(), document).await
    }

    /// Serves `document` on a plane that was made in a special way.
    pub(crate) async fn start_on(plane: Plane, document: &str) -> Self {
        let listener =
            lanekeeper_serve::bind("127.0.0.1:0".parse().unwrap(), false).expect("a listener");
        let agent = Self {
            address: listener.local_addr().unwrap(),
            drain: DrainSignal {
                retiring: CancellationToken::new(),
                closing: CancellationToken::new(),
                grace: Duration::from_millis(200),
            },
            plane,
        };
        agent.apply(document);
        let (plane, drain) = (agent.plane.clone(), agent.drain.clone());
        tokio::spawn(async move { plane.serve(listener, drain).await });
        agent
    }

    /// Applies `document`; returns the plane's problems.
    pub(crate) fn apply(&self, document: &str) -> Vec<String> {
        let checked = lanekeeper_model::document::check_yaml(document)
            .unwrap_or_else(|problems| panic!("{problems:#?}\n{document}"));
        let revision = self
            .plane
            .applied()
            .map_or(1, |applied| applied.revision + 1);
        self.plane.apply(
            checked.gateway,
            Applied {
                revision,
                hash: String::new(),
                source: ConfigSource::File,
            },
        )
    }

    /// The lane's part of /stats.
    pub(crate) fn lane(&self, name: &str) -> Value {
        let stats = serde_json::to_value(self.plane.stats()).unwrap();
        stats["lanes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|lane| lane["lane"] == name)
            .unwrap_or_else(|| panic!("no lane {name}"))
            .clone()
    }

    /// The cell of a pool and lane in /stats.
    pub(crate) fn cell(&self, pool: &str, lane: &str) -> Value {
        self.lane(lane)["cells"]
            .as_array()
            .unwrap()
            .iter()
            .find(|cell| cell["pool"] == pool)
            .unwrap_or_else(|| panic!("no cell {pool}/{lane}"))
            .clone()
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        self.plane.encode_metrics("edge", &mut text);
        // Every series has the label; what tests look for is beside it.
        let is_series = |line: &&str| !line.starts_with('#');
        for line in text.lines().filter(is_series) {
            assert!(line.contains("{gateway=\"edge\""), "{line}");
        }
        text.replace("{gateway=\"edge\"}", "")
            .replace("{gateway=\"edge\",", "{")
    }

    /// Waits until the cooldown of an open cell is over. That alone changes nothing.
    pub(crate) async fn cooled(&self, pool: &str, lane: &str) {
        eventually("the cooldown is over", || {
            self.cell(pool, lane)["cooldown_remaining_s"] == 0.0
        })
        .await;
        assert_eq!(self.cell(pool, lane)["state"], "open");
    }

    /// Nothing is held by anyone.
    pub(crate) async fn settles(&self) {
        eventually("all permits and places are back", || {
            let stats = serde_json::to_value(self.plane.stats()).unwrap();
            let lanes = stats["lanes"].as_array().unwrap().clone();
            self.plane.totals().inflight == 0 && lanes.iter().all(|lane| lane["inflight"] == 0)
        })
        .await;
    }
}

/// The time it took, for tests about bounds.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let watch = Stopwatch::start();
    let result = work.await;
    (result, watch.elapsed())
}

/// Time since its start.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "the tests' one clock reader")]
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits until `holds` does.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !holds() {
            tokio::time::sleep(POLL).await;
        }
    });
    assert!(waited.await.is_ok(), "not within {PATIENCE:?}: {what}");
}

/// A document of one openai lane for each upstream and one pool `chat` over all.
pub(crate) struct Document {
    lanes: Vec<(String, SocketAddr, u32, String)>,
    pool: String,
    breaker: String,
    rest: String,
}

impl Document {
    pub(crate) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            pool: String::new(),
            breaker: "{}".to_owned(),
            rest: String::new(),
        }
    }

    pub(crate) fn lane(self, name: &str, upstream: &Upstream) -> Self {
        self.lane_at(name, upstream.address, 1, "")
    }

    /// A lane with a weight and further fields, each `name: value` and joined by commas.
    pub(crate) fn lane_at(
        mut self,
        name: &str,
        address: SocketAddr,
        weight: u32,
        fields: &str,
    ) -> Self {
        self.lanes
            .push((name.to_owned(), address, weight, fields.to_owned()));
        self
    }

    /// Further fields of the pool, each on a line of its own.
    pub(crate) fn pool(mut self, fields: &str) -> Self {
        fields.clone_into(&mut self.pool);
        self
    }

    pub(crate) fn breaker(mut self, breaker: &str) -> Self {
        breaker.clone_into(&mut self.breaker);
        self
    }

    /// Further top-level parts.
    pub(crate) fn rest(mut self, rest: &str) -> Self {
        rest.clone_into(&mut self.rest);
        self
    }

    pub(crate) fn yaml(&self) -> String {
        let mut text = "gateway: edge\nproviders:\n".to_owned();
        for (name, address, ..) in &self.lanes {
            text += &format!(
                "  p-{name}: {{protocol: openai, base_url: \"http://{address}\", api_key: null}}\n"
            );
        }
        text += "models:\n";
        for (name, _, _, fields) in &self.lanes {
            text +=
                &format!("  {name}: {{provider: p-{name}, upstream_model: up-{name}, {fields}}}\n");
        }
        text += "pools:\n  chat:\n    members:\n";
        for (name, _, weight, _) in &self.lanes {
            text += &format!("      - {{target: {name}, weight: {weight}}}\n");
        }
        text += &format!("    breaker: {}\n", self.breaker);
        if !self.pool.contains("last_error") {
            text += "    last_error: own\n";
        }
        for line in self.pool.lines() {
            text += &format!("    {}\n", line);
        }
        text + &self.rest + "\n"
    }
}
