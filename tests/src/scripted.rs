//! An agent in front of two lanes of one simulated provider that plays a script.

use crate::{Process, http_client};
use anyhow::ensure;
use serde_json::{Value, json};
use std::path::Path;

/// The pool that [`ScriptedLanes`] serve, as clients name their model.
pub const SCRIPTED_POOL: &str = "pool";
/// The lane that a pool's first call comes to.
pub const FIRST_LANE: &str = "first";

/// Both processes; they end when this is dropped.
#[derive(Debug)]
pub struct ScriptedLanes {
    provider: Process,
    agent: Process,
}

/// What reached a lane, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneCall {
    /// The lane's name.
    pub lane: String,
    /// Whether a fault happened to the call.
    pub failed: bool,
    /// The coding of its body (`content-encoding`), if it has one.
    pub coding: Option<String>,
}

impl ScriptedLanes {
    /// Starts both. The first lane speaks the first of `protocols`, the second the other; `fault`
    /// (as `POST /faults` takes it) is the first lane's.
    ///
    /// # Errors
    ///
    /// When a process does not start, or the fault is refused.
    pub async fn start(
        folder: &Path,
        protocols: [&str; 2],
        script: &Value,
        fault: Option<Value>,
    ) -> anyhow::Result<Self> {
        let file = folder.join("script.json");
        std::fs::write(&file, script.to_string())?;
        let arguments = [
            "sim-provider".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--script={}", file.display()),
        ];
        let log = folder.join("provider.log");
        let provider = Process::start(&arguments, &[], &["sim-provider"], &log).await?;
        if let Some(mut fault) = fault {
            fault["model"] = json!(FIRST_LANE);
            let url = format!("{}/faults", provider.url("sim-provider"));
            let set = http_client().post(url).json(&fault).send().await?;
            ensure!(
                set.status() == 201,
                "the fault is refused: {}",
                set.text().await?
            );
        }
        let provider_of = |protocol: &str| {
            json!({
                "protocol": protocol,
                "base_url": format!("{}/{protocol}", provider.url("sim-provider")),
                "api_key": null,
            })
        };
        let [first, second] = protocols;
        // Where both are the same, the second entry takes the place of the first.
        let mut providers = json!({first: provider_of(first)});
        providers[second] = provider_of(second);
        let document = json!({
            "gateway": "alone",
            "providers": providers,
            "models": {FIRST_LANE: {"provider": first}, "second": {"provider": second}},
            "pools": {SCRIPTED_POOL: {"members": [{"target": FIRST_LANE}, {"target": "second"}]}},
        });
        let file = folder.join("document.json");
        std::fs::write(&file, document.to_string())?;
        let arguments = [
            "agent".to_owned(),
            format!("--config={}", file.display()),
            "--listen=127.0.0.1:0".to_owned(),
            "--ops-listen=127.0.0.1:0".to_owned(),
        ];
        let log = folder.join("agent.log");
        let agent = Process::start(&arguments, &[], &["proxy", "ops"], &log).await?;
        Ok(Self { provider, agent })
    }

    /// The agent's URL for callers.
    #[must_use]
    pub fn url(&self) -> String {
        self.agent.url("proxy")
    }

    /// The provider's URL, to see what a client sends to a gateway.
    #[must_use]
    pub fn provider_url(&self) -> String {
        self.provider.url("sim-provider")
    }

    /// The calls that reached the lanes so far.
    ///
    /// # Errors
    ///
    /// When the provider does not answer.
    pub async fn calls(&self) -> anyhow::Result<Vec<LaneCall>> {
        let url = format!("{}/requests", self.provider.url("sim-provider"));
        let journal: Value = http_client().get(url).send().await?.json().await?;
        let arrivals = journal["requests"].as_array().cloned().unwrap_or_default();
        Ok(arrivals
            .iter()
            .map(|arrival| LaneCall {
                lane: arrival["model"].as_str().unwrap_or_default().to_owned(),
                failed: !arrival["fault"].is_null(),
                coding: arrival["headers"]["content-encoding"]
                    .as_str()
                    .map(str::to_owned),
            })
            .collect())
    }
}
