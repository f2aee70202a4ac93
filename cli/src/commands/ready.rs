//! `lanekeeper ready`: whether a process of this machine is ready, for health checks of images that
//! have no other program.

use crate::args::ReadyArguments;
use crate::exit::{Failure, Kind};
use crate::output;
use std::time::Duration;

/// Longest wait for the answer; health checks ask again.
const TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) async fn run(arguments: ReadyArguments) -> Result<(), Failure> {
    let url = format!("{}/readyz", arguments.ops_url.trim_end_matches('/'));
    let client = reqwest::Client::builder().timeout(TIMEOUT).build();
    let answer = client.map_err(Failure::other)?.get(&url).send().await;
    let status = match answer {
        Ok(answer) => answer.status(),
        Err(error) => {
            let text = format!("{url}: {}", crate::api::reason(&error));
            return Err(Failure::new(Kind::Unreachable, text));
        }
    };
    if status.is_success() {
        output::line("ready");
        return Ok(());
    }
    let text = format!("{url}: not ready ({})", status.as_u16());
    Err(Failure::new(Kind::Unreachable, text))
}
