//! The `lanekeeper` binary: parses the command line, wires the crates together, prints. What the
//! parts do is theirs.

mod api;
mod args;
mod clock;
mod commands;
mod demo;
mod descriptors;
mod exit;
mod logging;
mod output;
mod shutdown;
mod storage;

use args::Command;
use exit::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = args::parse();
    logging::start(&arguments.log);
    descriptors::raise_limit();
    // A second installation would be refused; this is the only one.
    _ = rustls::crypto::ring::default_provider().install_default();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure.to_string());
            failure.code()
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::other)?;
    runtime.block_on(async {
        match command {
            Command::Demo(arguments) => demo::run(arguments).await,
            Command::Server(arguments) => commands::server::run(arguments).await,
            Command::ControlPlane(arguments) => commands::control_plane::run(arguments).await,
            Command::DashboardApi(arguments) => commands::dashboard_api::run(arguments).await,
            Command::Agent(arguments) => commands::agent::run(arguments).await,
            Command::SimProvider(arguments) => commands::sim_provider::run(arguments).await,
            Command::Check(arguments) => commands::check::run(&arguments),
            Command::Get(arguments) => commands::get::run(arguments).await,
            Command::Apply(arguments) => commands::apply::run(arguments).await,
        }
    })
}
