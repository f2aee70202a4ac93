//! Where spans go: to a collector, by OTLP, when an endpoint is set; else nowhere, and nothing is
//! started for them.

use crate::args::{OtlpProtocol, TraceArguments};
use crate::exit::{Failure, Kind};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    ExporterBuildError, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, Protocol, SpanExporter,
    WithExportConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanData,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Spans that wait for the collector; what comes beyond them is lost, never waited for.
const QUEUE_MAX_SPANS: usize = 8192;
/// Most spans of one message.
const BATCH_MAX_SPANS: usize = 512;
/// Longest stay of a span in the queue while the collector answers.
const EXPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Longest wait for the collector, for each message.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the last spans when the process ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The path of traces below an OTLP endpoint over HTTP (OTLP specification).
const HTTP_PATH: &str = "v1/traces";

/// What exports this process's spans.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Starts the export, if it is asked for. `service` is the name of the process in traces, unless
    /// the variable `OTEL_SERVICE_NAME` has another. Call it on the runtime that the export shall
    /// use.
    ///
    /// # Errors
    ///
    /// The endpoint or a variable of the exporter cannot be used.
    pub(crate) fn start(
        arguments: &TraceArguments,
        service: &'static str,
    ) -> Result<Option<Self>, Failure> {
        let Some(endpoint) = Endpoint::of(arguments) else {
            return Ok(None);
        };
        let exporter = exporter(endpoint, protocol(arguments)?)
            .map_err(|error| Failure::new(Kind::Usage, format!("--otlp-endpoint: {error}")))?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_MAX_SPANS)
            .with_max_export_batch_size(BATCH_MAX_SPANS)
            .with_scheduled_delay(EXPORT_INTERVAL)
            .build();
        let exporter = Told {
            exporter,
            is_failing: AtomicBool::new(false),
        };
        let processor = BatchSpanProcessor::builder(exporter)
            .with_batch_config(config)
            .build();
        let resource = Resource::builder().with_attribute(opentelemetry::KeyValue::new(
            "service.version",
            env!("CARGO_PKG_VERSION"),
        ));
        let resource = if std::env::var_os("OTEL_SERVICE_NAME").is_some() {
            resource
        } else {
            resource.with_service_name(service)
        };
        Ok(Some(Self {
            provider: SdkTracerProvider::builder()
                .with_span_processor(processor)
                .with_resource(resource.build())
                .build(),
        }))
    }

    /// Makes spans that are exported here.
    pub(crate) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("lanekeeper")
    }

    /// Sends what waits and ends the export, within a bound.
    pub(crate) async fn end(self) {
        let provider = self.provider;
        let ended =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(END_TIMEOUT)).await;
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "failed to export the last spans"),
            Err(error) => tracing::warn!(%error, "the export of spans did not end"),
        }
    }
}

/// Who said where the collector is.
enum Endpoint {
    /// A flag: the collector's address.
    Flag(String),
    /// One of OpenTelemetry's own variables, which its exporter reads itself.
    Standard,
}

impl Endpoint {
    fn of(arguments: &TraceArguments) -> Option<Self> {
        let set = |name: &str| std::env::var(name).is_ok_and(|value| !value.trim().is_empty());
        let is = |name: &str, wanted: &str| {
            std::env::var(name).is_ok_and(|value| value.eq_ignore_ascii_case(wanted))
        };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return None;
        }
        let flag = arguments.otlp_endpoint.as_deref().map(str::trim);
        match flag.filter(|flag| !flag.is_empty()) {
            Some(address) => Some(Self::Flag(address.to_owned())),
            None if set(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) || set(OTEL_EXPORTER_OTLP_ENDPOINT) => {
                Some(Self::Standard)
            }
            None => None,
        }
    }
}

fn protocol(arguments: &TraceArguments) -> Result<OtlpProtocol, Failure> {
    if let Some(protocol) = arguments.otlp_protocol {
        return Ok(protocol);
    }
    for name in [
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
        OTEL_EXPORTER_OTLP_PROTOCOL,
    ] {
        match std::env::var(name).as_deref().map(str::trim) {
            Ok("grpc") => return Ok(OtlpProtocol::Grpc),
            Ok("http/protobuf") => return Ok(OtlpProtocol::HttpProtobuf),
            Ok("") | Err(_) => {}
            Ok(other) => {
                let text = format!("{name}: \"{other}\" is neither grpc nor http/protobuf");
                return Err(Failure::new(Kind::Usage, text));
            }
        }
    }
    Ok(OtlpProtocol::Grpc)
}

fn exporter(
    endpoint: Endpoint,
    protocol: OtlpProtocol,
) -> Result<SpanExporter, ExporterBuildError> {
    match protocol {
        OtlpProtocol::Grpc => {
            let builder = SpanExporter::builder()
                .with_tonic()
                .with_timeout(EXPORT_TIMEOUT);
            match endpoint {
                Endpoint::Flag(address) => builder.with_endpoint(address).build(),
                Endpoint::Standard => builder.build(),
            }
        }
        OtlpProtocol::HttpProtobuf => {
            let builder = SpanExporter::builder()
                .with_http()
                .with_protocol(Protocol::HttpBinary)
                .with_timeout(EXPORT_TIMEOUT);
            match endpoint {
                Endpoint::Flag(address) => {
                    let address = address.trim_end_matches('/');
                    builder
                        .with_endpoint(format!("{address}/{HTTP_PATH}"))
                        .build()
                }
                Endpoint::Standard => builder.build(),
            }
        }
    }
}

/// An exporter that says once when the collector fails, and once when it is back.
#[derive(Debug)]
struct Told {
    exporter: SpanExporter,
    is_failing: AtomicBool,
}

impl opentelemetry_sdk::trace::SpanExporter for Told {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        let failed = exported.is_err();
        let failed_before = self.is_failing.swap(failed, Ordering::Relaxed);
        match &exported {
            Err(error) if !failed_before => {
                tracing::warn!(%error, "spans cannot be exported and are dropped");
            }
            Ok(()) if failed_before => tracing::info!("spans are exported again"),
            Ok(()) | Err(_) => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
