//! `lanekeeper control-plane`

use crate::args::{ControlPlaneArguments, GrpcArguments, TlsFiles};
use crate::exit::{Failure, Kind};
use crate::storage::Storage;
use crate::{output, shutdown};
use lanekeeper_control_plane::{Addresses, Config, Error, ServerTls, Timing, Transport};
use lanekeeper_store::{ConfigStore, LiveView};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(arguments: ControlPlaneArguments) -> Result<(), Failure> {
    let shutdown = shutdown::on_signals()?;
    let end = shutdown.orderly;
    let mut failure = None;
    let stores = async {
        match Storage::connect(&arguments.storage, &end).await {
            Ok(storage) => storage.map(Storage::parts),
            Err(error) => {
                failure = Some(error);
                None
            }
        }
    };
    let served = serve(&arguments.grpc, None, stores, end.clone()).await;
    failure.map_or(served, Err)
}

/// Serves agents until told to end, with stores that may come later. The authority is in `data_dir`
/// unless the flags name files.
pub(crate) async fn serve(
    arguments: &GrpcArguments,
    data_dir: Option<&Path>,
    stores: impl Future<Output = Option<(ConfigStore, Arc<dyn LiveView>)>>,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let ready = |addresses: Addresses| {
        output::line(&format!("grpc listening on {}", addresses.grpc));
        output::line(&format!("ops listening on {}", addresses.ops));
    };
    let config = config(arguments, data_dir)?;
    let served = lanekeeper_control_plane::run_when(config, stores, shutdown, ready);
    served.await.map_err(|error| match error {
        Error::Config { .. } => Failure::new(Kind::Usage, error.to_string()),
        error => Failure::other(error),
    })
}

fn config(arguments: &GrpcArguments, data_dir: Option<&Path>) -> Result<Config, Failure> {
    let enrolment = || arguments.enrolment.settings(data_dir);
    let transport = match (arguments.tls(), arguments.insecure) {
        (Some(TlsFiles { ca, cert, key }), _) => Transport::MutualTls(ServerTls {
            cert,
            key,
            client_ca: ca,
        }),
        (None, true) => Transport::Plaintext,
        (None, false) => Transport::Enrolment(enrolment().ok_or_else(|| {
            let text = "give --ca-cert and --ca-key for agents to join, \
                        or --tls-cert, --tls-key and --tls-client-ca, \
                        or --insecure for plaintext on a loopback address";
            Failure::new(Kind::Usage, text)
        })?),
    };
    Ok(Config {
        grpc_listen: arguments.grpc_listen,
        ops_listen: arguments.ops_listen,
        transport,
        timing: Timing {
            incident_quiet: Duration::from_secs(arguments.incident_quiet_secs),
            ..Timing::default()
        },
        ..Config::default()
    })
}
