//! Flags of tracing.

use clap::{Args, ValueEnum};

/// Where spans go.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceArguments {
    /// Send traces to this OpenTelemetry collector, http://host:4317; OTEL_EXPORTER_OTLP_ENDPOINT
    /// counts too [default: none, no traces]
    #[arg(long, env = "LANEKEEPER_OTLP_ENDPOINT", hide_env_values = true)]
    pub(crate) otlp_endpoint: Option<String>,
    /// The protocol of the collector; OTEL_EXPORTER_OTLP_PROTOCOL counts too [default: grpc]
    #[arg(long, env = "LANEKEEPER_OTLP_PROTOCOL")]
    pub(crate) otlp_protocol: Option<OtlpProtocol>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OtlpProtocol {
    Grpc,
    #[value(name = "http/protobuf")]
    HttpProtobuf,
}
