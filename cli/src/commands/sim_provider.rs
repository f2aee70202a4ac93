//! `lanekeeper sim-provider`

use crate::args::SimProviderArguments;
use crate::exit::Failure;
use crate::{output, shutdown};
use lanekeeper_sim_provider::Config;

pub(crate) async fn run(arguments: SimProviderArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let config = Config {
        listen: arguments.listen,
        words: arguments.words,
        latency: arguments.latency_ms,
        frame_interval: arguments.frame_interval_ms,
    };
    let ready = |address| output::line(&format!("sim-provider listening on {address}"));
    lanekeeper_sim_provider::run(config, shutdown.orderly, ready)
        .await
        .map_err(Failure::other)
}
