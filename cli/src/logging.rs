//! Where log lines go: standard error, as text or JSON.

use crate::args::{LogArguments, LogFormat};
use opentelemetry_sdk::trace::SdkTracer;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

/// What is logged unless `LANEKEEPER_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info";

/// Crates whose spans are exported; those of libraries are too many and too small.
const OWN_TARGETS: &str = "lanekeeper_";

/// Installs the subscriber; later calls change nothing. The spans of this program's services also
/// go to `tracer`.
pub(crate) fn start(arguments: &LogArguments, tracer: Option<SdkTracer>) {
    let filter =
        EnvFilter::try_new(&arguments.log).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let lines = fmt::layer().with_writer(stderr);
    let lines = match arguments.log_format {
        LogFormat::Text => lines.with_ansi(stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let spans = tracer.map(|tracer| {
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_filter(filter_fn(|metadata| {
                metadata.is_span() && metadata.target().starts_with(OWN_TARGETS)
            }))
    });
    let installed = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(spans)
        .try_init();
    if let Err(error) = installed {
        crate::output::error(&format!("cannot set up logging: {error}"));
    }
}
