//! One running process of the binary.

use crate::binary;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Longest wait for a process to print its addresses.
const START_BOUND: Duration = Duration::from_secs(30);

/// A running `lanekeeper` process, killed on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Bound addresses by listener name, as printed (`proxy`, `grpc`, `http`, `ops`, …).
    pub addresses: BTreeMap<String, String>,
    /// Other lines printed before it was ready.
    pub printed: Vec<String>,
}

impl Process {
    /// Starts the binary and waits until it has printed the addresses of `listeners`.
    ///
    /// Its log goes to `log`, appended.
    ///
    /// # Errors
    ///
    /// When it ends or says nothing before it is ready; the error holds its log.
    pub async fn start(
        arguments: &[String],
        environment: &[(&str, String)],
        listeners: &[&str],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let ready = |process: &Self| {
            listeners
                .iter()
                .all(|name| process.addresses.contains_key(*name))
        };
        Self::start_until(arguments, environment, ready, log).await
    }

    /// Starts the binary and waits until it has printed the line `last`.
    ///
    /// # Errors
    ///
    /// When it ends or says nothing before; the error holds its log.
    pub async fn start_printing(
        arguments: &[String],
        last: &str,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let ready = |process: &Self| process.printed.iter().any(|line| line == last);
        Self::start_until(arguments, &[], ready, log).await
    }

    async fn start_until(
        arguments: &[String],
        environment: &[(&str, String)],
        is_ready: impl Fn(&Self) -> bool,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let log_file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)?;
        let mut command = Command::new(binary::lanekeeper());
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .kill_on_drop(true);
        let mut child = command.spawn().context("the binary does not start")?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let mut process = Self {
            child,
            addresses: BTreeMap::new(),
            printed: Vec::new(),
        };
        let ready = async {
            while !is_ready(&process) {
                let Some(line) = lines.next_line().await? else {
                    bail!("it ended")
                };
                match line.split_once(" listening on ") {
                    Some((name, address)) => {
                        process
                            .addresses
                            .insert(name.to_owned(), address.to_owned());
                    }
                    None => process.printed.push(line),
                }
            }
            Ok(())
        };
        let outcome = tokio::time::timeout(START_BOUND, ready).await;
        if !matches!(outcome, Ok(Ok(()))) {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            bail!(
                "{arguments:?} is not ready: {outcome:?}\nprinted: {:?}\n{log}",
                process.printed
            );
        }
        // The pipe must be emptied for as long as the process lives, or it would block on it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(process)
    }

    /// The URL of a listener.
    ///
    /// # Panics
    ///
    /// When the process printed no such listener.
    #[must_use]
    pub fn url(&self, listener: &str) -> String {
        format!("http://{}", self.address(listener))
    }

    /// The address of a listener.
    ///
    /// # Panics
    ///
    /// When the process printed no such listener.
    #[must_use]
    pub fn address(&self, listener: &str) -> &str {
        match self.addresses.get(listener) {
            Some(address) => address,
            None => panic!("no {listener} among {:?}", self.addresses),
        }
    }

    /// Ends the process at once, as `kill -9` does, and waits until it is gone.
    ///
    /// # Panics
    ///
    /// When the system refuses to.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("a child can be killed");
    }

    /// Sends a signal by name, such as `TERM` or `HUP`.
    ///
    /// # Panics
    ///
    /// When the process has ended already.
    pub async fn signal(&self, name: &str) {
        let id = self.child.id().expect("the process runs").to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().await;
        assert!(
            sent.is_ok_and(|status| status.success()),
            "cannot send {name}"
        );
    }

    /// Memory that the process holds at the moment, in MiB.
    ///
    /// # Panics
    ///
    /// When the process has ended already.
    #[must_use]
    pub fn resident_mib(&self) -> u64 {
        let id = self.child.id().expect("the process runs");
        let status = std::fs::read_to_string(format!("/proc/{id}/status"));
        let status = status.expect("a mounted /proc");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("a size in KiB") / 1024
    }

    /// Waits until the process ends by itself and returns its exit code.
    ///
    /// # Panics
    ///
    /// When it does not end within `bound`.
    pub async fn exit_code(&mut self, bound: Duration) -> Option<i32> {
        let status = tokio::time::timeout(bound, self.child.wait()).await;
        status
            .expect("the process ends in time")
            .expect("a child can be waited for")
            .code()
    }
}
