//! `lanekeeper fleet-sim`

use crate::args::FleetSimArguments;
use crate::exit::{Failure, Kind};
use crate::{output, shutdown};
use lanekeeper_fleet_sim::{Config, Error};
use serde_json::Value;

pub(crate) async fn run(arguments: FleetSimArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let (json, insecure) = (arguments.json, arguments.insecure);
    let config = arguments.config();
    if insecure {
        refuse_beyond_loopback(&config)?;
    }
    let outcome = lanekeeper_fleet_sim::run(config, shutdown.orderly)
        .await
        .map_err(|error| match error {
            Error::Config { .. } => Failure::new(Kind::Usage, error.to_string()),
            error => Failure::other(error),
        })?;
    let outcome = serde_json::to_value(outcome).map_err(Failure::other)?;
    if json {
        output::line(&outcome.to_string());
    } else {
        print(&outcome);
    }
    Ok(())
}

/// Agents are believed on a plaintext connection, and so is what they are told.
fn refuse_beyond_loopback(config: &Config) -> Result<(), Failure> {
    let refuse = |reason: &str| {
        Err(Failure::new(
            Kind::Usage,
            format!("--control-plane {}: {reason}", config.control_plane),
        ))
    };
    match reqwest::Url::parse(&config.control_plane) {
        Ok(url) if url.scheme() != "http" => refuse("--insecure is for http:// addresses"),
        Ok(url) => match url.host_str() {
            Some("localhost" | "127.0.0.1" | "[::1]") => Ok(()),
            Some(_) | None => refuse("plaintext is for loopback addresses only"),
        },
        Err(error) => refuse(&error.to_string()),
    }
}

/// One figure a line.
fn print(outcome: &Value) {
    for (name, value) in outcome.as_object().into_iter().flatten() {
        match value {
            Value::Null => {}
            Value::Array(_) => {}
            Value::Object(parts) if parts.is_empty() => {}
            Value::Object(parts) => {
                let parts: Vec<String> = parts
                    .iter()
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect();
                output::line(&format!("{name:<16} {}", parts.join(", ")));
            }
            value => output::line(&format!("{name:<16} {value}")),
        }
    }
}
