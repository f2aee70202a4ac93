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
mod traces;

use args::{Arguments, Command};
use clap::CommandFactory as _;
use exit::{Failure, Kind};
use opentelemetry_sdk::trace::SdkTracer;
use std::process::ExitCode;
use traces::Traces;

fn main() -> ExitCode {
    // A shell that completes a word; it answers and ends here.
    clap_complete::CompleteEnv::with_factory(Arguments::command).complete();
    let arguments = args::parse();
    descriptors::raise_limit();
    // A second installation would be refused; this is the only one.
    _ = rustls::crypto::ring::default_provider().install_default();
    let done = match (run(arguments), output::end()) {
        (Ok(()), written) => written,
        // Differences that nobody could read are not told by their exit code either.
        (Err(failure), Err(unwritten)) if failure.kind() == Kind::Different => Err(unwritten),
        (Err(failure), _) => Err(failure),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure.to_string());
            failure.code()
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::other)?;
    runtime.block_on(async {
        let traces = match arguments.command.traces() {
            Some((flags, service)) => Traces::start(flags, service)?,
            None => None,
        };
        let tracer = traces.as_ref().map(Traces::tracer);
        logging::start(&arguments.log, tracer.clone());
        let done = command(arguments.command, tracer).await;
        if let Some(traces) = traces {
            traces.end().await;
        }
        done
    })
}

async fn command(command: Command, tracer: Option<SdkTracer>) -> Result<(), Failure> {
    match command {
        Command::Demo(arguments) => demo::run(arguments).await,
        Command::Server(arguments) => commands::server::run(arguments).await,
        Command::ControlPlane(arguments) => commands::control_plane::run(arguments).await,
        Command::DashboardApi(arguments) => commands::dashboard_api::run(arguments).await,
        Command::Agent(arguments) => commands::agent::run(arguments, tracer).await,
        Command::SimProvider(arguments) => commands::sim_provider::run(arguments).await,
        Command::FleetSim(arguments) => commands::fleet_sim::run(arguments).await,
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Replay(arguments) => commands::replay::run(&arguments),
        Command::Get(arguments) => commands::get::run(arguments).await,
        Command::Apply(arguments) => commands::apply::run(arguments).await,
        Command::Delete(arguments) => commands::delete::run(arguments).await,
        Command::Diff(arguments) => commands::diff::run(arguments).await,
        Command::Override(arguments) => commands::overrides::run(arguments).await,
        Command::Rollback(arguments) => commands::rollback::run(arguments).await,
        Command::Rollout(arguments) => commands::rollout::run(arguments.command).await,
        Command::Top(arguments) => commands::top::run(arguments).await,
        Command::Incidents(arguments) => commands::incidents::run(arguments).await,
        Command::Timeline(arguments) => commands::timeline::run(arguments).await,
        Command::Watch(arguments) => commands::watch::run(arguments).await,
        Command::Agents(arguments) => commands::agents::run(arguments).await,
        Command::Import(arguments) => commands::import::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(arguments).await,
        Command::Ready(arguments) => commands::ready::run(arguments).await,
        Command::Man(arguments) => commands::man::run(&arguments),
        Command::OwnFolder(arguments) => commands::own_folder::run(&arguments),
        Command::Ca(arguments) => commands::ca::run(&arguments),
        Command::Completion(arguments) => commands::completion::run(&arguments),
        Command::Token(arguments) => commands::token::run(arguments).await,
        Command::JoinToken(arguments) => commands::join_token::run(arguments).await,
    }
}
