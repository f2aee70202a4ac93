//! `lanekeeper sim-provider`

use crate::args::SimProviderArguments;
use crate::exit::{Failure, Kind};
use crate::{output, shutdown};
use lanekeeper_sim_provider::{Config, Script};
use std::path::Path;

pub(crate) async fn run(arguments: SimProviderArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let script = arguments.script.as_deref().map(read).transpose()?;
    let config = Config {
        listen: arguments.listen,
        words: arguments.words,
        latency: arguments.latency_ms,
        frame_interval: arguments.frame_interval_ms,
        script,
    };
    let ready = |address| output::line(&format!("sim-provider listening on {address}"));
    lanekeeper_sim_provider::run(config, shutdown.orderly, ready)
        .await
        .map_err(Failure::other)
}

fn read(file: &Path) -> Result<Script, Failure> {
    let place = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|error| Failure::other(error).about(&place))?;
    Script::from_json(&bytes)
        .map_err(|error| Failure::new(Kind::Invalid, format!("{place}: {error}")))
}
