//! Runs clients from npm: packages by a script, programs as a person would without a terminal.

use crate::repository;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Longest run of one client: a silence of 12 s, and a start on a busy machine.
const RUN_BOUND: Duration = Duration::from_secs(180);

fn installed() -> anyhow::Result<PathBuf> {
    let folder = repository().join(".node-clients");
    ensure!(
        folder.join("installed").exists(),
        "the clients are not installed: make setup"
    );
    Ok(folder)
}

/// Runs a program of an npm package in `folder`, with `home` for its settings and no more of this
/// process's environment than the path.
///
/// # Errors
///
/// When it is not installed, does not start or does not end.
pub async fn run_npm_program(
    program: &str,
    arguments: &[&str],
    environment: &[(&str, String)],
    home: &Path,
    folder: &Path,
) -> anyhow::Result<Output> {
    let mut command = Command::new(installed()?.join("node_modules/.bin").join(program));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder);
    run(command).await
}

/// Plays one conversation of `tests/node/packages.mjs` against `agent` (a URL).
///
/// # Errors
///
/// As [`run_npm_program`].
pub async fn run_npm_package(conversation: &str, agent: &str) -> anyhow::Result<Output> {
    let mut command = Command::new("node");
    command
        .arg(repository().join("tests/node/packages.mjs"))
        .args([conversation, agent])
        .env("NODE_CLIENTS", installed()?);
    run(command).await
}

async fn run(mut command: Command) -> anyhow::Result<Output> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    tokio::time::timeout(RUN_BOUND, command.output())
        .await
        .context("the client does not end")?
        .context("the client does not start")
}
