//! Plays stories of `web/e2e` in a real Chromium. A story asks, by a line on its standard output,
//! for what only the owner of the processes can do.

use crate::{Fleet, repository};
use anyhow::{Context, bail, ensure};
use serde_json::json;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Longest run of one story: its own waits end before.
const STORY_BOUND: Duration = Duration::from_secs(240);

/// Where the pictures of the run go.
#[must_use]
pub fn pictures() -> PathBuf {
    crate::target_folder().join("pictures")
}

/// Plays a story over a fleet.
///
/// # Errors
///
/// When the page is not built, Chromium does not start, or the story does not hold; the error has
/// what it said.
pub async fn play(story: &str, fleet: &mut Fleet) -> anyhow::Result<()> {
    let folder = repository().join("web");
    ensure!(
        folder.join("node_modules/playwright-core").exists(),
        "the page's tools are not installed: make web"
    );
    let mut child = Command::new("node")
        .args(["e2e/main.mjs", story])
        .current_dir(&folder)
        .env("LANEKEEPER_URL", fleet.server.url("http"))
        .env("LANEKEEPER_TOKEN", &fleet.token)
        .env("PROVIDER_URL", fleet.provider.url("sim-provider"))
        .env("AGENT_URLS", json!(fleet.agent_urls()).to_string())
        .env("SHOTS", pictures())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("node does not start")?;
    let played = tokio::time::timeout(STORY_BOUND, follow(&mut child, fleet)).await;
    played.with_context(|| format!("{story} does not end"))?
}

async fn follow(child: &mut Child, fleet: &mut Fleet) -> anyhow::Result<()> {
    let mut said = child.stderr.take().context("stderr is piped")?;
    let mut errors = String::new();
    // The pipe must be emptied meanwhile, or the story would block on it.
    let errors_read = said.read_to_string(&mut errors);
    let asked = serve(child, fleet);
    let (errors_read, asked) = tokio::join!(errors_read, asked);
    errors_read?;
    asked?;
    let status = child.wait().await?;
    ensure!(status.success(), "{errors}");
    Ok(())
}

async fn serve(child: &mut Child, fleet: &mut Fleet) -> anyhow::Result<()> {
    let stdout = child.stdout.take().context("stdout is piped")?;
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    let mut lines: Lines<BufReader<ChildStdout>> = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        let Some(request) = line.strip_prefix('@') else {
            continue;
        };
        let answer = match act(request, fleet).await {
            Ok(()) => "ok\n".to_owned(),
            Err(error) => format!("{}\n", format!("{error:#}").replace('\n', " ")),
        };
        stdin.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

async fn act(request: &str, fleet: &mut Fleet) -> anyhow::Result<()> {
    let (action, number) = request.split_once(' ').unwrap_or((request, "0"));
    let number: usize = number.parse().context("a number")?;
    match action {
        "kill-agent" => {
            let agent = fleet.agents.get_mut(number).context("no such agent")?;
            agent.kill().await;
        }
        "start-agent" => {
            let started = fleet.start_agent(number).await?;
            *fleet.agents.get_mut(number).context("no such agent")? = started;
        }
        "kill-server" => fleet.server.kill().await,
        "start-server" => fleet.restart_server().await?,
        "freeze-server" => fleet.server.signal("STOP").await,
        "thaw-server" => fleet.server.signal("CONT").await,
        other => bail!("the story asks for '{other}', which nobody knows"),
    }
    Ok(())
}
