//! Waits until the agents serve, so that the lines that are printed next work at once.

use crate::clock;
use crate::exit::{Failure, Kind};
use std::net::SocketAddr;
use std::time::Duration;

/// Longest wait for one agent to receive and apply its configuration.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(30);

/// Asks `/readyz` of an ops listener until it agrees.
pub(super) async fn wait(ops: SocketAddr) -> Result<(), Failure> {
    let http = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .build()
        .map_err(Failure::other)?;
    let start = clock::now();
    while start.elapsed() < TIMEOUT {
        let answer = http.get(format!("http://{ops}/readyz")).send().await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    let text = format!(
        "the agent behind {ops} is not ready after {} s",
        TIMEOUT.as_secs()
    );
    Err(Failure::new(Kind::Unreachable, text))
}
