//! `lanekeeper agent`

use crate::args::AgentArguments;
use crate::exit::{Failure, Kind};
use crate::{output, shutdown};
use lanekeeper_agent::{Config, Error, Shutdown, Source};
use opentelemetry_sdk::trace::SdkTracer;

/// Runs an agent; each request and attempt becomes a span of `tracer`.
pub(crate) async fn run(
    arguments: AgentArguments,
    tracer: Option<SdkTracer>,
) -> Result<(), Failure> {
    let signals = shutdown::on_signals()?;
    let shutdown = Shutdown {
        drain: signals.orderly,
        immediate: signals.immediate,
    };
    let ready = |addresses: lanekeeper_agent::Addresses| {
        output::line(&format!("proxy listening on {}", addresses.proxy));
        output::line(&format!("ops listening on {}", addresses.ops));
    };
    lanekeeper_agent::run(config(arguments, tracer)?, shutdown, ready)
        .await
        .map_err(|error| match error {
            Error::Settings(_) => Failure::new(Kind::Usage, error.to_string()),
            Error::File(_) => Failure::new(Kind::Invalid, error.to_string()),
            error => Failure::other(error),
        })
}

fn config(arguments: AgentArguments, tracer: Option<SdkTracer>) -> Result<Config, Failure> {
    let (tls, join) = (arguments.tls(), arguments.join());
    let source = match (arguments.config, arguments.control_plane, arguments.gateway) {
        (Some(file), ..) => Source::Standalone { file },
        (None, Some(control_plane), Some(gateway)) => Source::Joined {
            control_plane,
            gateway,
            insecure: arguments.insecure,
            tls,
        },
        _ => {
            let text = "give --config, or --control-plane and --gateway";
            return Err(Failure::new(Kind::Usage, text));
        }
    };
    let mut config = Config::new(source);
    config.listen = arguments.listen;
    config.ops_listen = arguments.ops_listen;
    config.labels = arguments.labels.into_iter().collect();
    config.cache_dir = arguments.cache_dir;
    config.join = join;
    config.drain_pause = arguments.drain_pause_secs;
    config.drain_grace = arguments.drain_grace_secs;
    config.workers = arguments.workers;
    config.tracer = tracer;
    if let Some(name) = arguments.name {
        config.name = name;
    }
    Ok(config)
}
