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

/// Makes `calls` calls, spread evenly over `agents` (URLs), over the `openai` and `anthropic`
/// packages and over streaming and not; each client has its own retries turned off.
///
/// # Errors
///
/// When the script itself fails, or printed something else than its tally.
pub async fn run_clients(agents: &[String], calls: u64, parallel: u64) -> anyhow::Result<Tally> {
    let root = repository();
    let python = root.join(".venv/bin/python");
    ensure!(python.exists(), "the clients are not installed: make setup");
    let output = Command::new(python)
        .arg(root.join("tests/python/clients.py"))
        .args([
            "--calls",
            &calls.to_string(),
            "--parallel",
            &parallel.to_string(),
        ])
        .args(agents)
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
