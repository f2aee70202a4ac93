//! The binary as a person's command.

use crate::target_folder;
use std::process::{Output, Stdio};
use tokio::process::Command;

/// Runs the command to its end.
///
/// # Panics
///
/// When the binary cannot be started.
pub async fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let started = Command::new(target_folder().join("lanekeeper"))
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .await;
    match started {
        Ok(output) => output,
        Err(error) => panic!("lanekeeper cannot be started: {error}"),
    }
}
