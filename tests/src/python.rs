//! Runs the vendors' real client packages against the agents.

use crate::repository;
use anyhow::{Context, ensure};
use std::process::Stdio;
use tokio::process::Command;

/// What the clients saw.
#[derive(Debug, Default)]
pub struct Tally {
    /// Calls made.
    pub calls: u64,
    /// Texts of the failures, in the client packages' own words.
    pub failures: Vec<String>,
}

/// Makes `calls` calls, spread evenly over `agents` (URLs), over the packages `openai` (chat and
/// Responses), `anthropic`, `google-genai` and `cohere` and over streaming and not; each client has
/// its own retries turned off.
///
/// # Errors
///
/// When the script itself fails, or printed something else than its tally.
pub async fn run_clients(agents: &[String], calls: u64, parallel: u64) -> anyhow::Result<Tally> {
    let mut arguments = vec![format!("--calls={calls}"), format!("--parallel={parallel}")];
    arguments.extend(agents.iter().cloned());
    run("clients.py", &arguments).await
}

/// Takes every route of `agent` with the same packages; what the agents must serve is written in
/// the script. The tally counts checks.
///
/// # Errors
///
/// As [`run_clients`].
pub async fn run_routes(agent: &str, guarded: &str) -> anyhow::Result<Tally> {
    let arguments = [format!("--guarded={guarded}"), agent.to_owned()];
    run("routes.py", &arguments).await
}

async fn run(script: &str, arguments: &[String]) -> anyhow::Result<Tally> {
    let root = repository();
    let python = root.join(".venv/bin/python");
    ensure!(python.exists(), "the clients are not installed: make setup");
    let output = Command::new(python)
        .arg(root.join("tests/python").join(script))
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tally: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let failures = tally["failures"]
        .as_array()
        .context("failures are listed")?;
    Ok(Tally {
        calls: tally["calls"].as_u64().context("calls are counted")?,
        failures: failures.iter().map(ToString::to_string).collect(),
    })
}
