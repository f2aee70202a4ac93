//! Where log lines go: standard error, as text or JSON.

use crate::args::{LogArguments, LogFormat};
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// What is logged unless `LANEKEEPER_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info";

/// Installs the subscriber; later calls change nothing.
pub(crate) fn start(arguments: &LogArguments) {
    let filter =
        EnvFilter::try_new(&arguments.log).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr);
    let installed = match arguments.log_format {
        LogFormat::Text => builder.with_ansi(stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    if let Err(error) = installed {
        crate::output::error(&format!("no log: {error}"));
    }
}
